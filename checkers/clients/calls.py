"""Checker of what each single call is owed (docs/promise.md LIVE-8, LIVE-9): it ends in time, and is not given up early.

R-130, KIP-91 and Kafka's producer: after a retriable error a produce is sent again while it has retries and time left. A client
that gives up sooner tells its application of a failure that a second attempt would have spared it. The error of the last attempt
stands in the row, and so does the number of attempts.

A client without a retry left, without time for its pause, or whose topic was deleted meanwhile (UNKNOWN_TOPIC_ID: sent again, the
records might be in two topics, DUR-8) may give up. A produce that breaks a rule on purpose is left out.

A read needs the leader alone, and so does a produce with acks=1 (R-140). Neither hangs at a leader that no fault hits, which
answered the client's last call over the same connection (fetches have one of their own), and whose partition has its state,
whatever happens to other brokers.

From the bound B after the last fault of a broker ended, no call hangs: none takes longer than PROMPT_MS, times out, or loses its
connection. A fault of the clients at one place excuses them alone, until B after it: a leader that drops the parked requests of
others when one client disconnects fails this. A call is excused too while its partition has no leader or its state changes.

A batch that an idempotent producer sends again and that is committed already is acknowledged at once, not with the next record
(B-66, KIP-98). It is committed if a consumer was given one of its records. One attempt takes at most half of the timeout, so the
call ends soon after that, counted from when for 5 s no fault has hit the client or a broker and the state has not changed.

Nobody answers a produce with acks=0; a broker that cannot append it closes the connection, so the client looks for the leader
(KAFKA-955). A producer may lose what it sends until then. It does not lose more than LOOKUP_MS later while nothing else happens.

Only simulated runs are judged: there no machine is late, and the client counts its attempts.

    >>> from checkers.sketches import sketch
    >>> sketch("clients", "fail produce value=a error=NOT_LEADER_OR_FOLLOWER attempts=1 process=0")
    ['process 0 gave up its produce to t-0 at row 1 after 1 attempt and 1 ms with NOT_LEADER_OR_FOLLOWER']
    >>> sketch("clients", "fail produce value=a error=NOT_LEADER_OR_FOLLOWER attempts=4 process=0")
    []
"""

from checkers.clients.duplicates import ONCE
from checkers.engine import screens
from checkers.engine.anomalies import not_live
from checkers.engine.calms import CALM_MS, CUT_OFF, FaultTime, calms, excuses, fault_times, is_of_one_broker, place_of, still_ms
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, PROMPT_MS, Facts, promised, recovery_deadline_ns
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "clients"
_HANGS = ("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")
_READS = ("poll", "latest")
_PAUSE_MS = 100  # retry.backoff.ms: a produce that has no more time left is not sent again
_TICK_MS = 1  # clients read their clocks in whole milliseconds
LOOKUP_MS = 1000  # to hear of a closed connection, ask for the leader and connect to it
_RESTS_MS = 2000  # after its last fault a leader has caught up with what waited for it
# Kafka's RetriableExceptions that a produce may get; UNKNOWN_TOPIC_ID is left out.
_RETRIABLE = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR",
    }
)


def _complaint_of_giving_up(call: Call, retries: int, timeout_ms: int, name: str) -> str | None:
    """Say that a produce was not sent again, though it had a retry and time left."""
    row, request = call.rows[0], call.asked[0]
    waited_ms = (row.time_ns - call.invoked_ns) // MS
    has_time = row.time_ns - call.invoked_ns + (_PAUSE_MS + _TICK_MS) * MS < timeout_ms * MS
    has_retries_left = row.attempts is not None and 0 < row.attempts <= retries and has_time
    if not has_retries_left or call.type == "ok" or row.error not in _RETRIABLE or request.error is not None:
        return None
    attempts = f"{row.attempts} attempt{'s' if row.attempts != 1 else ''}"
    happened = f"process {call.process} gave up its produce to {name} at row {call.ended}"
    return f"{happened} after {attempts} and {waited_ms} ms with {row.error}"


def _hung_calls(calls: list[Call], events: Events, facts: Facts, name: str) -> list[str]:
    """Describe the calls that hung although no fault was in force that could excuse it."""
    periods, deadline = calms(events, facts), recovery_deadline_ns(facts)
    periods += [] if deadline is None else [(deadline, facts.end_ns)]
    suspects = [call for call in calls if (_took_ns(call) > PROMPT_MS * MS and call.type == "ok") or call.rows[0].error in _HANGS]
    suspects = [call for call in suspects if any(a <= call.invoked_ns and call.rows[0].time_ns < b for a, b in periods)]
    if not suspects:
        return []
    hit = excuses(events, facts)
    written = _leaders(events)
    complaints = []
    for call in suspects:
        ended_ns = call.rows[0].time_ns
        patience_ns = (facts.client_timeout_ms or 0) * MS
        excused = any(a <= ended_ns and call.invoked_ns < b for a, b in hit.get(place_of(facts, call.process), ()))
        moved = any(call.invoked_ns - patience_ns <= time_ns <= ended_ns for time_ns, _ in written)
        leader = _leader_at(written, ended_ns)
        if not excused and not moved and leader is not None:
            happened = f"{_took_ns(call) // MS} ms for its {call.f} of {name} at row {call.ended}"
            error_in_words = "" if call.type == "ok" else f" and got {call.rows[0].error}"
            complaints.append(f"process {call.process} waited {happened}{error_in_words}, though no fault hit it or a broker")
    return complaints


def _hung_reads(calls: list[Call], events: Events, facts: Facts, name: str) -> list[str]:
    """Describe the reads, and the produces with acks=1, that hung at a leader that no fault hit: they need no other broker."""
    alone = [at for at, call in enumerate(calls) if call.f in _READS or call.asked[0].acks == 1]
    suspects = [at for at in alone if calls[at].rows[0].error in _HANGS and calls[at].rows[0].node]
    if not suspects:
        return []
    faults = list(fault_times(events, facts))
    written = _leaders(events)
    complaints = []
    for at in suspects:
        call = calls[at]
        before = next((earlier for earlier in reversed(calls[:at]) if _shares_connection(earlier, call)), None)
        node, ended_ns = call.rows[0].node, call.rows[0].time_ns
        if before is None or before.type != "ok" or before.rows[0].node != node:
            continue  # the client may have lost its time in looking for the leader
        # A client gives up all calls at a broker when any connection to it breaks, and may learn late that an idle one broke.
        rests_ms = CALM_MS if call.rows[0].error == "NETWORK_EXCEPTION" else _RESTS_MS
        since_ns = min(before.invoked_ns, call.invoked_ns - rests_ms * MS)
        place = place_of(facts, call.process)
        hit = any(
            earlier.begun_ns <= ended_ns
            and since_ns <= (facts.end_ns if earlier.ended_ns is None else earlier.ended_ns)
            and (earlier.node in (node, place) or not (earlier.node in facts.client_places or _is_local(earlier.kind)))
            for earlier in faults
        )
        # a leader that was deposed answers once; then the client looks for the next
        is_led = _leader_at(written, ended_ns) == node
        if not hit and is_led and not any(since_ns <= time_ns <= ended_ns for time_ns, _ in written):
            happened = f"{call.rows[0].error} for its {call.f} of {name} at row {call.ended}"
            complaints.append(f"process {call.process} got {happened}, though no fault hit it or {node}")
    return complaints


def _is_local(kind: str) -> bool:
    """Whether a fault hinders only calls at the broker that it hits: a read needs no link among other brokers."""
    return is_of_one_broker(kind) or kind in (*CUT_OFF, "cut-clients")


def _shares_connection(other: Call, call: Call) -> bool:
    """Whether an answer to the other call came over the connection of this one. Nobody answers a produce with acks=0."""
    same = other.process == call.process and (other.f == "poll") == (call.f == "poll")
    return same and other.asked[0].acks != 0


def _complaints_of_waits(calls: list[Call], events: Events, facts: Facts, about: tuple[str, int]) -> list[str]:
    """Describe the idempotent produces that waited on and on for an answer, though a consumer had their records already."""
    attempt_ns = ((facts.client_timeout_ms or 0) // 2 + _PAUSE_MS + PROMPT_MS) * MS
    suspects = [call for call in calls if _took_ns(call) > attempt_ns and _has_retries(call, facts)]
    suspects = [call for call in suspects if call.type == "ok" or call.rows[0].error in _HANGS]
    promise = promised(facts, about[0])
    if not suspects or promise is None:
        return []
    acknowledged: dict[str | None, int] = {}
    for call in calls:
        if call.f == "poll" and call.type == "ok":
            for row in call.rows:
                acknowledged.setdefault(row.value, row.time_ns)
    faults = list(fault_times(events, facts))
    written = events.of(K.STATE_WRITTEN).columns("time_ns", "isr")
    states = [(time_ns, len(isr)) for time_ns, isr in written if isr is not None]
    complaints = []
    for call in suspects:
        ended_ns = call.rows[0].time_ns
        client_place = place_of(facts, call.process)
        read_ns = min((acknowledged[row.value] for row in call.asked if row.value in acknowledged), default=ended_ns)
        hits = [
            fault
            for fault in faults
            if fault.begun_ns <= ended_ns and (fault.node == client_place or fault.node not in facts.client_places)
        ]
        calm = [facts.end_ns if hit.ended_ns is None else hit.ended_ns + still_ms(hit.kind, facts.promise) * MS for hit in hits]
        calm += [time_ns + CALM_MS * MS for time_ns, _ in states if time_ns <= ended_ns]
        since_ns = max(read_ns, call.invoked_ns, *calm)
        members = next((size for time_ns, size in reversed(states) if time_ns <= ended_ns), 0)
        if ended_ns > since_ns + attempt_ns and members >= promise.min_insync_replicas:
            happened = f"{_took_ns(call) // MS} ms for its produce of {about[0]}-{about[1]} at row {call.ended}"
            read_before = f"a consumer had the record {(ended_ns - read_ns) // MS} ms before"
            complaints.append(f"process {call.process} waited {happened}, though {read_before}")
    return complaints


def _complaints_of_lost_acks_0(calls: list[Call], events: Events, facts: Facts, name: str) -> list[str]:
    """Describe the producers of which no record with acks=0 was appended for more than LOOKUP_MS, though nothing happened.

    One record may be lost to a leader that the producer does not know yet; in LOOKUP_MS it looks for the next one.
    """
    sent = [call for call in calls if call.f == "produce" and call.asked[0].acks == 0 and call.asked[0].error is None]
    if not sent:
        return []
    appended = {value for value, detail in events.of(K.APPEND).columns("value", "detail") if detail == "leader"}
    faults = list(fault_times(events, facts))
    written = _leaders(events)
    lost_since: dict[int, Call] = {}  # process -> the first record that it lost while nothing happened
    complaints: dict[int, str] = {}
    for call in sorted(sent, key=lambda call: call.invoked):
        if any(row.value in appended for row in call.asked):
            lost_since.pop(call.process, None)
            continue
        first = lost_since.setdefault(call.process, call)
        if _is_disturbed(first.invoked_ns - LOOKUP_MS * MS, call, faults, written, facts):
            lost_since[call.process] = call
        elif call.invoked_ns - first.invoked_ns > LOOKUP_MS * MS:
            rows = f"rows {first.invoked} and {call.invoked}"
            happened = f"process {call.process} lost what it sent to {name} with acks=0 between {rows}"
            complaints.setdefault(call.process, f"{happened}, though nothing happened to it or a broker")
    return list(complaints.values())


def _is_disturbed(
    since_ns: int, call: Call, faults: list[FaultTime], written: list[tuple[int, str | None]], facts: Facts
) -> bool:
    """Whether between a time and a call a fault may have hit its client or a broker, or the partition's state changed."""
    ended_ns = call.rows[0].time_ns
    place = place_of(facts, call.process)
    bound_ns = facts.promise.bound_ms * MS
    hit = any(
        fault_time.begun_ns <= ended_ns
        and (fault_time.ended_ns is None or since_ns <= fault_time.ended_ns + bound_ns)
        and (fault_time.node == place or fault_time.node not in facts.client_places)
        for fault_time in faults
    )
    leader = _leader_at(written, ended_ns)
    return hit or leader is None or any(since_ns <= time_ns <= ended_ns for time_ns, _ in written)


def _leaders(events: Events) -> list[tuple[int, str | None]]:
    """The leader in each state that was written, and when."""
    return list(events.of(K.STATE_WRITTEN).columns("time_ns", "leader"))


def _leader_at(written: list[tuple[int, str | None]], time_ns: int) -> str | None:
    return next((leader for since_ns, leader in reversed(written) if since_ns <= time_ns), None)


def _has_retries(call: Call, facts: Facts) -> bool:
    """Whether an idempotent produce had a retry left: until then an attempt takes at most half of the timeout."""
    request = call.asked[0]
    attempts = call.rows[0].attempts
    allowed = facts.client_retries[call.process % len(facts.client_retries)] if facts.client_retries else 0
    return request.delivery == ONCE and request.error is None and attempts is not None and 1 < attempts <= allowed


def _took_ns(call: Call) -> int:
    return call.rows[0].time_ns - call.invoked_ns


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find calls to one partition that ended after the client's timeout, and produces that were given up early."""
    timeout_ms, retries = facts.client_timeout_ms, facts.client_retries
    if timeout_ms is None or not facts.simulated:
        return Findings()
    topic, number = partition_of(operations, events)
    name = f"{topic}-{number}"
    calls = [call for call in operations.calls if call.rows]
    complaints = [
        f"process {call.process} waited longer than {timeout_ms} ms, its timeout, for its {call.f} of {name} at row {call.ended}"
        for call in calls
        if _took_ns(call) > (timeout_ms + 1) * MS
    ]
    complaints += _hung_calls(calls, events, facts, name)
    complaints += _hung_reads(calls, events, facts, name)
    complaints += _complaints_of_waits(calls, events, facts, (topic, number))
    complaints += _complaints_of_lost_acks_0(calls, events, facts, name)
    if retries:
        produces = [call for call in calls if call.f == "produce"]
        given_up = (_complaint_of_giving_up(call, retries[call.process % len(retries)], timeout_ms, name) for call in produces)
        complaints += [words for words in given_up if words is not None]
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="A client's call ends within its timeout, at once where no fault hits the client or a broker; a produce is sent again "
    "after a retriable error while it has retries and time left, and acknowledged at once where it is committed already; one "
    "without an answer (acks=0) reaches the next leader.",
    assumes="The manifest tells timeout and retries of the clients; a completion tells the number of attempts.",
    blind="Real clients, which do not tell their attempts; retries that come too soon; errors of attempts before the last; "
    "other calls than reads and produces with acks=1 that hang under a fault of a broker, or within B of one.",
    reports=(not_live("LIVE", shown_by=("acks0-silent",)),),
    group_by=PARTITION,
    operations=("produce", "poll", "latest"),
    events=(K.FAULT_BEGUN, K.FAULT_ENDED, K.STATE_WRITTEN, K.APPEND),
    of_the_living=True,
    check=check,
    screen=screens.clients,
)
