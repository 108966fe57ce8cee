"""The row that called for what a cluster that is not live left undone.

Something was not done, so the failure began with the last row that called for it. That is the request of an administrator, or
the controller that was elected after it and had to carry it out; the fact that a broker does not tell clients; the end of a
session; the call of a client, or how far its record got. Where the words say that something was done without a reason, such as
the refusal of a request, it began with that.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import polars as pl

from checkers.causes.scene import Scene, scene_of
from checkers.causes.signature import rank_of_lack
from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType

Row = ClusterEvent | Operation
Rule = Callable[[Scene, str], Row | None]

_CANCEL = "/admin/reassign_cancel"
# What an administrator asks for by the path of the request under /admin: the words of a client's call.
_REQUESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("/admin/delete_topics", ("delete-topic",)),
    (_CANCEL, ("cancel-reassignments",)),
    ("/admin/reassign", ("reassign", "reassign-extra", "reassign-request")),
    ("/admin/preferred_replica_election", ("elect-preferred",)),
    ("/admin/unclean_election", ("elect-unclean",)),
    ("/admin/partitions_add", ("add-partition",)),
    ("/admin/partitions_remove", ("remove-partition",)),
)
_SHUTDOWN_NS = 17_000_000_000  # in which a broker ends that is told to (LIVE-11)
_OF_SERVICE = (K.REGISTERED, K.SESSION_ENDED, K.DIR_FAILED, K.NODE_STOPPED, K.FENCED, K.UNFENCED)
_HANGS = "though no fault hit it or"
_UNDONE = re.compile(r"\d+ ms after row")
_ROWS = re.compile(r"\brows? (\d+)")
_BEHIND_ALL = 1 << 62
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER)


def called_for(scene: Scene, words: str) -> int | None:
    """The row that called for what these words of a liveness checker miss; None where no row tells it."""
    row = next((row for row in (rule(scene, words) for rule in _RULES) if row is not None), None)
    return None if row is None else row.index


def first_lack(not_live: Sequence[str]) -> str:
    """What a reader is told first that a cluster lacks: of what causes the rest, the earliest.

    A step of the protocol that was left undone comes before a call that hung later.
    """
    first = min(not_live, key=lambda words: (rank_of_lack(words), _first_row_named(words)))
    undone = [words for words in not_live if _UNDONE.search(words) and _first_row_named(words) < _first_row_named(first)]
    return min(undone, key=_first_row_named) if undone and _HANGS in first else first


def _first_row_named(words: str) -> int:
    """The least row number in a sentence; one behind all rows if it names none."""
    return min(map(int, _ROWS.findall(words)), default=_BEHIND_ALL)


def _latest_row(*rows: Row | None) -> Row | None:
    return max((row for row in rows if row is not None), key=lambda row: row.index, default=None)


def _last_or_none(rows: Sequence[ClusterEvent]) -> ClusterEvent | None:
    return rows[-1] if rows else None


def _broker_named(scene: Scene, words: str) -> str | None:
    """The first broker that the words name."""
    return next((word for word in re.findall(r"\w+", words) if word in scene.history.manifest.brokers), None)


# --- what brokers tell clients --------------------------------------------------------------------------------------------------


def _start_of_untold_fact(scene: Scene, words: str) -> Row | None:
    """The fact that a broker does not tell: the row that changed it, else the controller or command that had to tell it."""
    match = re.search(r"^(?P<teller>\S+) tells that (?P<what>.+?) at row (?P<row>\d+)(?P<truth>.*)", words)
    if match is None:
        return None
    before = int(match["row"])
    fact = _last_change_of_fact(scene, match["what"], match["truth"], before)
    if fact is None:
        return None
    unanswered = [row for row in scene.of(K.COMMAND_UNANSWERED, after=fact.index, before=before) if row.broker == match["teller"]]
    if unanswered:
        return unanswered[-1]
    return _latest_row(fact, scene.last(K.CONTROLLER_ELECTED, before=before))


def _last_change_of_fact(scene: Scene, what: str, truth: str, before: int) -> ClusterEvent | None:
    """The last row before one that changed what `what` says of a broker, the controller or the partition."""
    rows_before = [row for row in scene.here if row.index < before]
    if "is controller" in what:
        return scene.last(K.CONTROLLER_ELECTED, K.CONTROLLER_RESIGNED, before=before)
    if "offline" in what:
        return _last_change_of_service(scene, _broker_named(scene, truth) or _broker_named(scene, what), before)
    if what.endswith((" serves", " does not serve")):
        return _last_change_of_service(scene, _broker_named(scene, what), before)
    if what.endswith(" exists"):
        return _last_or_none([row for row in rows_before if row.kind in (K.TOPIC_DELETED, K.STATE_WRITTEN)])
    if " is on " in what:
        return _last_or_none([row for row in rows_before if row.kind in (K.ASSIGNED, K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED)])
    return _last_or_none([row for row in rows_before if row.kind is K.STATE_WRITTEN])


def _last_change_of_service(scene: Scene, node: str | None, before: int) -> ClusterEvent | None:
    """The last row that changed whether a broker serves."""
    own = scene.of(*_OF_SERVICE, node=node, before=before)
    standing_rows = [row for row in scene.of(K.BROKER_STATE, before=before) if row.broker == node]
    return max((*own, *standing_rows), key=lambda row: row.index, default=None)


# --- administrators and the controller ------------------------------------------------------------------------------------------


def _start_of_open_request(scene: Scene, words: str) -> Row | None:
    """The request that is still under /admin, its last refusal, or the last controller, which had to carry it out."""
    match = re.match(r"(/admin/[\w/-]+) is still requested", words)
    if match is None:
        return None
    path = match[1]
    request_names = next((names for prefix, names in _REQUESTS if path.startswith(prefix)), ())
    frame = scene.history.operations_frame
    requests_sent = frame.filter(pl.col("f").is_in(request_names) & (pl.col("type") == OpType.INVOKE.value))
    request = None if requests_sent.is_empty() else scene.row(int(requests_sent["index"][-1]))
    refused_changes = [row for row in scene.history.of_kind(K.REQUEST_REFUSED) if (row.detail or "").startswith(f"{path}:")]
    if request is None or path == _CANCEL:
        return request  # a cancellation stands until it is taken back: no controller ends it
    return _latest_row(request, _last_or_none(refused_changes), scene.last(K.CONTROLLER_ELECTED))


def _answer_of_done(scene: Scene, words: str) -> Row | None:
    """The answer that told an administrator that it was done, which nobody did."""
    match = re.search(r"\bwas confirmed at row (\d+)", words)
    return None if match is None else scene.row(int(match[1]))


def _end_of_last_controller(scene: Scene, words: str) -> Row | None:
    """The end of the last controller; the last registration where no broker ever was controller."""
    if "no broker is controller" not in words:
        return None
    elected = scene.last(K.CONTROLLER_ELECTED)
    if elected is None:
        return scene.last(K.REGISTERED)
    return _last_or_none(scene.of(K.SESSION_ENDED, K.CONTROLLER_RESIGNED, node=elected.node, after=elected.index)) or elected


def _end_of_registration(scene: Scene, words: str) -> Row | None:
    """The end of the registration of a broker that has none; its last start where it never had one."""
    if "is not registered" not in words:
        return None
    node = _broker_named(scene, words)
    return scene.last(K.SESSION_ENDED, node=node) or scene.last(K.NODE_STARTED, node=node)


def _start_of_shutdown(scene: Scene, words: str) -> Row | None:
    """The controller's first row that a broker stops, where this one still leads."""
    if "though it shuts down" not in words:
        return None
    node = _broker_named(scene, words)
    stopping = [row for row in scene.of(K.BROKER_STATE) if row.broker == node and row.detail == "stopping"]
    return stopping[0] if stopping else None


def _failure_of_directory(scene: Scene, words: str) -> Row | None:
    """The failure of the directory of a broker that goes on leading."""
    match = re.search(r"(\w+) alone had no directory for it from row \d+ to row (\d+)", words)
    return None if match is None else scene.last(K.DIR_FAILED, node=match[1], before=int(match[2]))


# --- leaders and replicas -------------------------------------------------------------------------------------------------------


def _start_of_missing_leader(scene: Scene, words: str) -> Row | None:
    """What made an election possible, or the answer about a log that it waited for."""
    if "never had a leader" in words:
        assigned_rows = [row for row in scene.here if row.kind is K.ASSIGNED]
        return _latest_row(assigned_rows[0] if assigned_rows else None, scene.last(K.CONTROLLER_ELECTED))
    if "nobody leads" not in words and "has no leader" not in words:
        return None
    left = next((row for row in reversed(scene.written) if row.leader is None), None)
    if left is None:
        return None
    end = next((row.index for row in scene.written if row.index > left.index), None)
    may_lead = {*(left.isr or ()), *(left.elr or ())}
    unanswered = [row for row in scene.of(K.COMMAND_UNANSWERED, after=left.index, before=end) if row.detail == "LogInfo"]
    back = [row for row in scene.of(K.REGISTERED, after=left.index, before=end) if row.node in may_lead]
    return _latest_row(left, _last_or_none(unanswered), _last_or_none(back))


def _start_of_absence_from_isr(scene: Scene, words: str) -> Row | None:
    """Where the log of a replica stopped that did not catch up; else where the replica began to follow."""
    if "not in the ISR of" not in words or not scene.written:
        return None
    node = _broker_named(scene, words)
    leader = scene.written[-1].leader
    end, longest = scene.log_end(node or "", _BEHIND_ALL), scene.log_end(leader or "", _BEHIND_ALL)
    if end is not None and longest is not None and end < longest:
        return scene.last(K.APPEND, K.TRUNCATE, K.RECOVERED, *_ROLES, node=node)
    return scene.last(*_ROLES, node=node)


def _start_of_other_role(scene: Scene, words: str) -> Row | None:
    """For "b2 acts in …": the later of the replica's last change of role and the state in ZooKeeper; None for other words."""
    if "acts in " not in words:
        return None
    own = (K.RESIGNED, K.REPLICA_DELETED, K.RECOVERED, K.REGISTERED, *_ROLES)
    return _latest_row(_last_or_none(scene.written), scene.last(*own, node=_broker_named(scene, words)))


def _start_of_other_log(scene: Scene, words: str) -> Row | None:
    """Where a replica whose log differs from the leader's was last found on its disk."""
    match = re.match(r"the log of \S+ on (\w+) ends at .* with digest|the log of (\w+) differs", words)
    return None if match is None else scene.last(K.RECOVERED, node=match[1] or match[2])


def _start_of_unknown_result(scene: Scene, words: str) -> Row | None:
    """What a leader does not know of its ISR change: the state beside it or after it, or a controller that never answered it."""
    if "does not know the result of its ISR change" not in words:
        return None
    change_row = scene.event(_first_row_named(words))
    if change_row is None:
        return None
    beside = scene.state(change_row.index)
    if beside is not None and (beside.leader_epoch or 0) > (change_row.leader_epoch or 0):
        return beside
    after = next(
        (row for row in scene.written if change_row.index < row.index and row.time_ns < change_row.time_ns + _given_ns(words)),
        None,
    )
    if after is not None and after.leader == change_row.node and set(after.isr or ()) == set(change_row.isr or ()):
        return after
    learned = scene.last(K.BECAME_LEADER, K.ISR_CHANGE_ENDED, node=change_row.node, before=change_row.index)
    until = change_row.time_ns + _given_ns(words)
    elected = _last_or_none([row for row in scene.of(K.CONTROLLER_ELECTED) if row.time_ns < until])
    return elected if elected is not None and learned is not None and elected.index > learned.index else change_row


def _removal_of_undeleted(scene: Scene, words: str) -> Row | None:
    """The removal of an earlier partition of that name, if a replica that does not know a new epoch was not deleted since."""
    match = re.match(r"(\w+) does not know epoch \d+ of \S+ \d+ ms after row (\d+)", words)
    removed = None if match is None else scene.last(K.TOPIC_DELETED, before=int(match[2]))
    if match is None or removed is None or scene.of(K.REPLICA_DELETED, node=match[1], after=removed.index, before=int(match[2])):
        return None
    return removed if scene.of(*_ROLES, node=match[1], before=removed.index) else None


def _given_ns(words: str) -> int:
    """The time that the words give for a step, "500 ms after row 7"."""
    match = re.search(r"(\d+) ms after row", words)
    return 0 if match is None else int(match[1]) * 1_000_000


def _election_of_idle_controller(scene: Scene, words: str) -> Row | None:
    """The election of the controller that left a step undone, if it was elected since, or has not counted the brokers yet."""
    if not any(said in words for said in ("has no state", "is still in the ISR")):
        return None
    change_row = scene.event(_first_row_named(words))
    if change_row is None:
        return None
    done = next((row.index for row in scene.written if row.index > change_row.index), None)
    elected = scene.last(K.CONTROLLER_ELECTED, before=done)
    if elected is None or elected.index > change_row.index:
        return elected or change_row
    until = change_row.time_ns + _given_ns(words)
    counted = [row for row in scene.of(K.BROKER_STATE, node=elected.node, after=elected.index) if row.time_ns < until]
    return change_row if counted else elected


def _start_of_lag(scene: Scene, words: str) -> Row | None:
    """The last record that a lagging member of an ISR got before it had to leave."""
    match = re.match(r"(\w+) lacks offset .* appended at row (\d+), and was still in the ISR (\d+) ms later", words)
    if match is None:
        return None
    lacked = scene.event(int(match[2]))
    if lacked is None:
        return None
    until = lacked.time_ns + int(match[3]) * 1_000_000
    got = [row for row in scene.of(K.APPEND, K.TRUNCATE, *_ROLES, node=match[1]) if row.time_ns < until]
    return _last_or_none(got) or lacked


def _start_of_stopped_hw(scene: Scene, words: str) -> Row | None:
    """Where the high watermark of a leader got the value at which it stood for too long."""
    match = re.match(r"(\w+) raised the HW of \S+ above (\d+) only at row (\d+)", words)
    if match is None:
        return None
    noted = scene.of(K.HW, K.BECAME_LEADER, K.RECOVERED, node=match[1], before=int(match[3]))
    stood = [row for row in noted if row.hw is not None]
    first = next((n for n in range(len(stood), 0, -1) if stood[n - 1].hw != int(match[2])), 0)
    return stood[first] if first < len(stood) else None


# --- brokers --------------------------------------------------------------------------------------------------------------------


def _start_of_broken_promise(scene: Scene, words: str) -> Row | None:
    """The shutdown after which a broker lacks what it had, the change of a metric, the last replica that it made."""
    node = _broker_named(scene, words)
    events = scene.history.events
    if "after a controlled shutdown" in words or "shut down in order" in words:
        return _last_or_none(
            [row for row in events if row.kind is K.NODE_STOPPED and row.node == node and "shut down" in (row.detail or "")]
        )
    if "reports OfflineReplicaCount" in words:
        own = [row for row in events if row.kind in (K.GAUGE, *_ROLES) and row.node == node]
        return _last_or_none([row for row in own if row.index < _first_row_named(words)])
    if "was told to shut down" in words:
        first_row = scene.row(_first_row_named(words))
        until = 0 if first_row is None else first_row.time_ns + _SHUTDOWN_NS
        did = [row for row in events if row.kind in (K.RESIGNED, *_ROLES) and row.node == node and row.time_ns < until]
        return _latest_row(first_row, _last_or_none(did))
    if "logs in its directories" in words:
        roles = [row for row in events if row.kind in _ROLES and row.node == node]
        return _last_or_none(list({(row.topic, row.partition): row for row in reversed(roles)}.values())[::-1])
    return None


# --- clients --------------------------------------------------------------------------------------------------------------------


def _wrong_end(scene: Scene, words: str) -> Row | None:
    """The end of a call that came without a reason: a refusal, a client that gives up or waits beyond its timeout."""
    if not any(said in words for said in ("was refused with", "gave up its", ", its timeout, for its")):
        return None
    named = _ROWS.findall(words)
    row = scene.row(int(named[0])) if named else None
    if not isinstance(row, Operation) or "though no other such request" not in words:
        return row
    # The request met its own copy: the client sent it again after a fault that began while it waited.
    invoked_row = _invocation_of(scene, row)
    meanwhile = [] if invoked_row is None else scene.of(K.FAULT_BEGUN, after=invoked_row.index, before=row.index)
    return meanwhile[0] if meanwhile else row


def _start_of_unserved_calls(scene: Scene, words: str) -> Row | None:
    """The last call of the kind that no call of was answered as it should."""
    match = re.match(r"no (acks=all produce|acks=1 produce|poll|client)\b", words)
    if match is None or scene.topic is None:
        return None
    frame = scene.history.operations_frame
    calls_of_partition = frame.filter((pl.col("topic") == scene.topic) & (pl.col("partition") == scene.partition))
    fs = {"poll": ["poll"], "client": ["poll", "produce", "latest"]}.get(match[1], ["produce"])
    open_calls = calls_of_partition.filter(pl.col("type").is_in([OpType.FAIL.value, OpType.INFO.value]) & pl.col("f").is_in(fs))
    return None if open_calls.is_empty() else scene.row(int(open_calls["index"][-1]))


def _start_in_words(scene: Scene, words: str) -> Row | None:
    """The first row that the words name; of an answer to a client, how far the call had come when it stood still."""
    for number in _ROWS.findall(words):
        row = scene.row(int(number))
        if row is not None:
            return _longest_wait_of_call(scene, row) if isinstance(row, Operation) else row
    return None


def _longest_wait_of_call(scene: Scene, row: Operation) -> Row:
    """Of the steps of a call, the one that was followed by nothing for longest.

    They are its invocation, the crashes of brokers while it waited, the appends of its record, the commit.
    """
    invoked_row = _invocation_of(scene, row)
    if invoked_row is None:
        return row
    if invoked_row.topic is not None:
        # the words of the checker may name no partition
        scene = scene_of(scene.history, f"{invoked_row.topic}-{invoked_row.partition}")
    frame = scene.history.operations_frame
    after = frame.filter(
        (pl.col("process") == row.process) & (pl.col("index") > invoked_row.index) & (pl.col("type") != OpType.INVOKE.value)
    )
    ended = None if after.is_empty() else scene.row(int(after["index"][0]))
    if not isinstance(ended, Operation):
        return invoked_row
    steps: list[Row] = [invoked_row, *scene.of(K.NODE_STOPPED, after=invoked_row.index, before=ended.index)]
    if invoked_row.f == "produce" and (kept := _appended(scene, invoked_row, ended)) is not None:
        copies = scene.of(K.APPEND, after=kept.index, before=ended.index)
        steps += [kept, *(copy for copy in copies if (copy.value, copy.offset) == (kept.value, kept.offset))]
        covers = (
            e for e in scene.of(K.HW, node=kept.node, after=kept.index, before=ended.index) if (e.hw or 0) > (kept.offset or 0)
        )
        steps += [e for e in covers if e.detail == "leader"][:1]
    steps.sort(key=lambda step: step.index)
    gaps = [(following.time_ns - former.time_ns, -former.index, former) for former, following in pairwise([*steps, ended])]
    return max(gaps, key=lambda gap: gap[:2])[2]


def _invocation_of(scene: Scene, row: Operation) -> Operation | None:
    """The invocation of the call that a row belongs to."""
    frame = scene.history.operations_frame
    is_before = (pl.col("index") <= row.index) & (pl.col("type") == OpType.INVOKE.value)
    before = frame.filter((pl.col("process") == row.process) & is_before)
    found = None if before.is_empty() else scene.row(int(before["index"][-1]))
    return found if isinstance(found, Operation) else None


def _appended(scene: Scene, asked: Operation, ended: Operation) -> ClusterEvent | None:
    """The append of a produced record by a leader."""
    rows = scene.of(K.APPEND, after=asked.index, before=ended.index)
    return next((row for row in rows if row.value == asked.value and row.detail == "leader"), None)


def _present(scene: Scene, words: str) -> Row | None:
    """The state in ZooKeeper that stands."""
    return _last_or_none(scene.written)


_RULES: Sequence[Rule] = (
    _start_of_untold_fact,
    _start_of_open_request,
    _answer_of_done,
    _end_of_last_controller,
    _end_of_registration,
    _start_of_shutdown,
    _failure_of_directory,
    _start_of_unserved_calls,
    _start_of_missing_leader,
    _start_of_absence_from_isr,
    _start_of_other_role,
    _start_of_other_log,
    _start_of_unknown_result,
    _removal_of_undeleted,
    _election_of_idle_controller,
    _start_of_lag,
    _start_of_stopped_hw,
    _start_of_broken_promise,
    _wrong_end,
    _start_in_words,
    _present,
)
