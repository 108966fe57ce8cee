"""Checker of a leader's answers: a request that breaks a rule is refused, and for the reason that it deserves (B-65, B-66).

A client that breaks a rule on purpose says in its invocation which error must answer it (column `error`). A leader may also
refuse such a request because it cannot serve anybody: it is not the leader, its log directory failed, it is too late. But it
never acknowledges the request, nor gives another reason that lies in the request. A request that keeps the rules is never refused
as if it broke one.

What a leader knows of an idempotent producer follows from the last produce that it acknowledged to this producer under acks=all.
So sequences and producer epochs are judged only right after such a produce, and never after an excused loss. An id that no
producer was given is unknown to every leader, whatever was acknowledged or lost.

NOT_ENOUGH_REPLICAS says that nothing was appended, so a client takes it for a definite failure (B-65 d, requirements U-24). A
leader that has the batch of an idempotent producer recognizes it when it is sent again (B-66), and answers
NOT_ENOUGH_REPLICAS_AFTER_APPEND if its ISR is short by then. A refusal from before the append is no lie: bytes of the first
attempt may arrive after those of the second. But the leader appends only while its ISR is not short. So if its ISR was
the same from the invocation to the append, it refused nothing before, and if it leads on until the answer, it has the batch.
Kafka counts the ISR before it looks for the batch, so only simulated runs are judged.

Where a log begins does not depend on the HW, so a leader never refuses to say it for a reason that lies in the offset: only the
end offset waits until the HW reaches the start of the epoch (promise V2, KIP-207).

    >>> from checkers.sketches import sketch
    >>> sketch("answers", "invoke produce value=a acks=2 error=INVALID_REQUIRED_ACKS", "ok produce value=a acks=2 offset=0")
    ['misuse-acknowledged']
    >>> strange = "invoke produce value=a delivery=once error=UNKNOWN_PRODUCER_ID"
    >>> sketch("answers", strange, "ok produce value=a delivery=once offset=0")
    ['misuse-acknowledged']
    >>> sketch("answers", "fail produce value=a acks=1 error=NOT_ENOUGH_REPLICAS")
    ['wrong-error']
    >>> sent, held = "invoke produce value=a delivery=once", "append node=b1 offset=0 value=a"
    >>> sketch("answers", sent, held, "info produce value=a delivery=once error=NOT_ENOUGH_REPLICAS attempts=2 node=b1")
    ['wrong-error']
    >>> sketch("answers", "info earliest error=OFFSET_NOT_AVAILABLE")
    ['wrong-error']
"""

from checkers.clients.duplicates import ONCE
from checkers.engine import screens
from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.columns import ACKS_ERRORS, OFFSET_ERRORS, REASONS, SEQUENCE_ERRORS, SHAPE_ERRORS
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "answers"
_REMEMBERED = 8  # acknowledged batches in a row, after which a leader has forgotten the first (Kafka remembers five)
_UNKNOWN = "UNKNOWN_PRODUCER_ID"
_NOTHING_APPENDED = "NOT_ENOUGH_REPLICAS"
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED)
_ISR = (K.STATE_WRITTEN, K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)


def _kind_of_wrong_answer(call: Call, acknowledged: int, *, lossless: bool) -> str | None:
    """The kind of anomaly that the answer to a call is. `acknowledged`: of the process's produces just before, under acks=all."""
    request = call.asked[0]
    error = call.rows[0].error if call.rows and call.type != "ok" else None
    once = request.delivery == ONCE
    if request.error is not None:
        enough = _REMEMBERED if request.error == "DUPLICATE_SEQUENCE_NUMBER" else 1
        if once and request.error != _UNKNOWN and (acknowledged < enough or not lossless):
            return None
        if call.type == "ok":
            return "misuse-acknowledged"
        allowed = (request.error, _UNKNOWN, *ACKS_ERRORS)  # the log may be new since a partition was removed
        return "wrong-error" if error in REASONS and error not in allowed else None
    broken = error in SHAPE_ERRORS or (error in ACKS_ERRORS and request.acks != -1)
    doubted = error in SEQUENCE_ERRORS and (not once or (acknowledged > 0 and lossless))
    return "wrong-error" if broken or doubted else None


def _row_of_denied_append(call: Call, events: list[EventRow]) -> int | None:
    """The row in which the broker appended a batch of which it then said that nothing was appended; None if it may say so."""
    request = call.asked[0]
    answer = call.rows[0] if call.rows else None
    if answer is None or call.type == "ok" or answer.error != _NOTHING_APPENDED:
        return None
    if request.delivery != ONCE or request.acks != -1 or request.error is not None:
        return None
    values = {row.value for row in call.asked}
    appended = None
    isr_moved = False
    for row in events:
        if not call.invoked < row.at < call.ended or (row.node != answer.node and row.kind != K.STATE_WRITTEN):
            continue
        if row.kind in _ROLES:
            return None
        isr_moved |= row.kind in _ISR
        if row.kind == K.APPEND and row.detail == "leader" and row.value in values and appended is None:
            if isr_moved:
                return None
            appended = row.at
    return appended


def _refusals_of_first_offset(calls: list[Call], name: str) -> list[Anomaly]:
    """Find requests for the first offset that were refused because of an offset."""
    anomalies = []
    for call in calls:
        error = call.rows[0].error if call.f == "earliest" and call.rows and call.type != "ok" else None
        if error in OFFSET_ERRORS:
            words = f"process {call.process} asked where the log of {name} begins, and was refused with {error}"
            anomalies.append(Anomaly(kind="wrong-error", checker=NAME, key=name, witness=(call.invoked, call.ended), words=words))
    return anomalies


def _wrong_answer_in_words(call: Call, kind: str, name: str) -> str:
    """What was wrong with the answer to a produce."""
    request = call.asked[0]
    if kind == "misuse-acknowledged":
        return f"a produce of process {call.process} to {name} was acknowledged, though it deserved {request.error}"
    deserved = "no such error" if request.error is None else request.error
    return f"a produce of process {call.process} to {name} was refused with {call.rows[0].error}, though it deserved {deserved}"


def _denials_of_appends(calls: list[Call], events: Events, name: str) -> list[Anomaly]:
    """Find the answers that nothing was appended, from a leader that had appended the batch."""
    if not any(call.rows and call.rows[0].error == _NOTHING_APPENDED and call.asked[0].delivery == ONCE for call in calls):
        return []
    rows = events.rows
    anomalies = []
    for call in calls:
        at = _row_of_denied_append(call, rows)
        if at is not None:
            happened = f"a produce of process {call.process} to {name} was refused with {_NOTHING_APPENDED}"
            words = f"{happened}, though {call.rows[0].node} had appended it at row {at}"
            witness = (call.invoked, at, call.ended)
            anomalies.append(Anomaly(kind="wrong-error", checker=NAME, key=name, witness=witness, words=words))
    return anomalies


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the answers about one partition; the count `misuses` is how many produces broke a rule and were answered."""
    topic, number = partition_of(operations, events)
    key = f"{topic}-{number}"
    lossless = not cuts_of(cuts, topic, number)
    acknowledged: dict[int, int] = {}  # by process
    misuses = 0
    every = sorted(operations.calls, key=lambda call: call.invoked)
    anomalies = _refusals_of_first_offset(every, key)
    calls = [call for call in every if call.f == "produce"]
    for call in calls:
        request = call.asked[0]
        misuses += request.error is not None and bool(call.type)
        kind = _kind_of_wrong_answer(call, acknowledged.get(call.process, 0), lossless=lossless)
        if kind is not None:
            words = _wrong_answer_in_words(call, kind, key)
            anomalies.append(Anomaly(kind=kind, checker=NAME, key=key, witness=(call.invoked, call.ended), words=words))
        counts = call.type == "ok" and request.delivery == ONCE and request.acks == -1 and request.error is None
        acknowledged[call.process] = acknowledged.get(call.process, 0) + 1 if counts else 0
    if facts.simulated:
        anomalies += _denials_of_appends(calls, events, key)
    return Findings(anomalies=tuple(anomalies), counts={"misuses": misuses})


CHECKER = Checker(
    name=NAME,
    claim="A produce that breaks a rule is refused for this reason; one that keeps the rules is not refused as if it broke one, "
    "nor with NOT_ENOUGH_REPLICAS where its leader has it already. Where a log begins can be said whatever the HW is.",
    assumes="A client that breaks a rule on purpose says so in its invocation, and breaks it in the session of its last produce; "
    "brokers record their appends, their roles and each change of the ISR.",
    blind="Other refusals that do not lie in the request; sequences, unless the produce before was acknowledged under acks=all; "
    "NOT_ENOUGH_REPLICAS in runs of real brokers, for batches that a leader got as a follower, and where the ISR changed "
    "before the append; polls, requests for the end offset and requests of administrators.",
    reports=(
        Kind("misuse-acknowledged", Harm.WRONG_ANSWER, 10, breaks=("MONO",), shown_by=("no-idempotence",)),
        Kind("wrong-error", Harm.WRONG_ANSWER, 20, breaks=("REQ",), unshown=HISTORIES),
    ),
    group_by=PARTITION,
    operations=("produce", "earliest"),
    events=(K.APPEND, *_ROLES, *_ISR),
    check=check,
    screen=screens.answers,
)
