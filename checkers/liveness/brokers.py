"""Checker: what each broker owes by itself, whatever clients ask (docs/promise.md LIVE-11).

* A broker that is asked to end does so in time, whatever is wrong with others or with its directories: it hands its leaderships
  over or gives that up (R-158), flushes the logs in its good directories, and ends. Only what stops or slows its own process,
  links or disks excuses it.
* A broker that alone reaches no other broker fences itself in time, so that no client reads old records from it for ever (R-185).
* A broker counts its replicas in failed directories (R-312).
* A broker starts with what it had: with its log, unless bytes were destroyed, and after a good end also with its high watermark.
  A power loss after a good end takes nothing.
  The log end and high watermark with which it began to lead are known; later ones are greater (R-048, R-158).
  A full disk takes nothing either: without a clean-shutdown marker to remove (KAFKA-10471), a start only reads.
* A broker creates a log in the directory with the fewest logs (KIP-112, R-293). So two of its directories differ by one log at
  most, and by one more for each log that it deleted. Brokers whose directories failed or lost bytes are left out.

    >>> from checkers.sketches import sketch
    >>> asked = "fault-begun fault=f node=b1 detail=shutdown", "fault-ended fault=f node=b1 detail=shutdown time_ns=20000000000"
    >>> sketch("brokers", *asked)
    ['b1 was told to shut down at row 0 and was still running 17000 ms later']
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K
from history.fault_kinds import family_of

NAME = "brokers"
END_MS = 17_000  # controlled.shutdown.max.retries times controlled.shutdown.retry.backoff.ms, and two seconds
GOOD_END = "halt:shut down"
NO_SPACE = "ENOSPC"  # writes fail, reads work
OFFLINE_REPLICAS = "kafka.server:name=OfflineReplicaCount,type=ReplicaManager"
_FENCE = (K.FENCED, K.UNFENCED)
_OFFICE = (K.CONTROLLER_ELECTED, K.CONTROLLER_RESIGNED)
_HEEDED = (K.REGISTERED, K.NODE_STARTED, K.NODE_STOPPED, K.FENCED)
_LONELY = ("cut-peers", "cut-peers-long", "isolate-one", "isolate-leader", "isolate-long")
_ORDERLY = ("shutdown", "roll")
_DIRECTORIES = ("dir-unreadable", "dir-file", "dir-failure")
_SPARE_A_PROCESS = (*_DIRECTORIES, "disk-full")  # it goes on with its other directories, or ends


class _Row(NamedTuple):
    """One event. Columns that the kind does not fill are None, whatever their type says."""

    at: int  # index of the row
    time_ns: int
    kind: str
    node: str
    broker: str
    topic: str
    topic_id: str
    partition: int | None
    dir: int
    fault: str
    gauge: int
    leo: int | None
    hw: int | None
    detail: str


class _Alone(NamedTuple):
    """A period in which one fault of one broker was in force, and no other."""

    node: str
    fault: str
    detail: str
    begun: _Row
    ended: _Row


def _periods_of_single_faults(rows: list[_Row]) -> Iterator[_Alone]:
    """The periods with a single fault, from its begin on or from the end of the last other one."""
    in_force: dict[tuple[str, str], str] = {}
    since: _Row | None = None
    for row in rows:
        if row.kind not in (K.FAULT_BEGUN, K.FAULT_ENDED) or row.partition is not None:
            continue
        if len(in_force) == 1 and since is not None:
            ((fault, node), detail) = next(iter(in_force.items()))
            yield _Alone(node, fault, detail, since, row)
        if row.kind == K.FAULT_BEGUN:
            in_force[row.fault, row.node] = row.detail
        else:
            in_force.pop((row.fault, row.node), None)
        since = row


def _brokers_still_up(rows: list[_Row]) -> Iterator[str]:
    """Brokers that were asked to end, and did not, though only others or their own directories were out of order (LIVE-11)."""
    faults = [row for row in rows if row.kind in (K.FAULT_BEGUN, K.FAULT_ENDED) and row.partition is None]
    for fault_asked in faults:
        if fault_asked.kind != K.FAULT_BEGUN or fault_asked.detail != "shutdown":
            continue
        due_ns = fault_asked.time_ns + END_MS * MS
        rows_of_node = [row for row in faults if row.node == fault_asked.node]
        own = [row for row in rows_of_node if row.fault != fault_asked.fault and row.detail not in _SPARE_A_PROCESS]
        ended = {row.fault: row.time_ns for row in rows_of_node if row.kind == K.FAULT_ENDED}
        hindered = any(row.time_ns <= due_ns and ended.get(row.fault, due_ns) >= fault_asked.time_ns for row in own)
        if hindered or ended.get(fault_asked.fault, 0) < due_ns:
            continue
        lives = [row for row in rows if row.kind in (K.NODE_STARTED, K.NODE_STOPPED) and row.node == fault_asked.node]
        was = [row.kind for row in lives if row.at < fault_asked.at][-1:]
        has_stopped = any(row.kind == K.NODE_STOPPED and fault_asked.at < row.at and row.time_ns <= due_ns for row in lives)
        if was != [K.NODE_STOPPED] and not has_stopped:
            yield f"{fault_asked.node} was told to shut down at row {fault_asked.at} and was still running {END_MS} ms later"


def _unfenced_brokers(rows: list[_Row], periods: list[_Alone], facts: Facts) -> Iterator[str]:
    """Brokers that reached no other broker for the promised time and did not fence themselves (LIVE-11)."""
    for period in periods:
        due_ns = period.begun.time_ns + facts.promise.replacement_ms * MS
        if period.detail not in _LONELY or facts.promise.replacement_ms == 0 or period.ended.time_ns < due_ns:
            continue
        before = [row for row in rows if row.at < period.begun.at]
        elected = {row.node for row in rows if row.kind == K.CONTROLLER_ELECTED and period.begun.at < row.at < period.ended.at}
        in_office = _last(before, period.node, *_OFFICE) == K.CONTROLLER_ELECTED or period.node in elected
        if in_office or not _is_held_active(before, period.node):
            continue  # a controller answers its own heartbeats, also one that does not know of its successor
        if _last(before, period.node, *_FENCE) == K.FENCED:
            continue  # since an earlier fault
        fences = [row for row in rows if row.kind == K.FENCED and row.node == period.node]
        end_rows = [row for row in rows if row.kind in (K.NODE_STOPPED, K.SESSION_ENDED) and row.node == period.node]
        if not any(period.begun.at < row.at and row.time_ns <= due_ns for row in (*fences, *end_rows)):
            yield f"{period.node} reached no broker from row {period.begun.at} to row {period.ended.at} and did not fence itself"


def _brokers_that_served_on(rows: list[_Row], facts: Facts) -> Iterator[str]:
    """Brokers whose registration ended, and that did not fence themselves in the promised time (LIVE-11, KIP-343).

    No controller accepts their heartbeats any more, whoever answers them.
    """
    if facts.promise.replacement_ms == 0 or not facts.simulated:
        return
    for ended in rows:
        due_ns = ended.time_ns + facts.promise.replacement_ms * MS
        if ended.kind != K.SESSION_ENDED or due_ns > facts.end_ns:
            continue
        before = [row for row in rows if row.at < ended.at]
        since_ns = ended.time_ns - facts.promise.replacement_ms * MS
        if any(r.kind == K.SESSION_ENDED and r.node != ended.node and since_ns <= r.time_ns <= due_ns for r in rows):
            continue  # a controller that was deposed and does not know it goes on to accept heartbeats
        if _last(before, ended.node, *_OFFICE) == K.CONTROLLER_ELECTED:
            continue
        if not _is_held_active(before, ended.node) or _last(before, ended.node, *_FENCE, K.NODE_STOPPED) in (
            K.FENCED,
            K.NODE_STOPPED,
        ):
            continue
        own = [row for row in rows if row.node == ended.node and row.time_ns <= due_ns]
        over = {row.fault for row in own if row.kind == K.FAULT_ENDED and row.time_ns < ended.time_ns}
        hindered = any(r.kind == K.FAULT_BEGUN and r.fault not in over and _stops_or_deceives(r.detail) for r in own)
        if not hindered and not any(row.kind in _HEEDED and row.at > ended.at for row in own):
            yield f"the registration of {ended.node} ended at row {ended.at}, and it did not fence itself"


def _last(rows: list[_Row], node: str, *kinds: str) -> str:
    """The kind of the node's last row that is of one of these kinds; empty if there is none."""
    return next((row.kind for row in reversed(rows) if row.node == node and row.kind in kinds), "")


def _is_held_active(rows: list[_Row], node: str) -> bool:
    """Whether a controller last held the broker for active: one without heartbeats has no fence (R-205)."""
    states = (row.detail for row in reversed(rows) if row.kind == K.BROKER_STATE and row.broker == node)
    return next(states, "") == "active"


def _wrong_counts(rows: list[_Row], periods: list[_Alone], facts: Facts) -> Iterator[str]:
    """Brokers that at the end of a long failure of a directory told another number of replicas out of service (R-312)."""
    for period in periods:
        long = period.ended.time_ns - period.begun.time_ns >= facts.promise.replacement_ms * MS > 0
        if not long or period.detail not in _DIRECTORIES:
            continue
        during = [row for row in rows if row.node == period.node and row.at < period.ended.at]
        named = [row for row in during if row.kind == K.FAULT_BEGUN and row.fault == period.fault and row.partition is not None]
        lost_replicas = {(row.topic, row.partition) for row in named}
        gauge = next((r.gauge for r in reversed(during) if r.kind == K.GAUGE and r.detail == OFFLINE_REPLICAS), None)
        if gauge is not None and gauge != len(lost_replicas):
            yield f"{period.node} reports OfflineReplicaCount {gauge}, {len(lost_replicas)} is right at row {period.ended.at}"


def _forgetful_replicas(rows: list[_Row]) -> Iterator[str]:
    """Replicas that start with a shorter log than they had, or after a good end with a lower high watermark (LIVE-11).

    A broker that ended well has flushed each directory that had not failed, so that a power loss afterwards takes nothing there.
    """
    # (node, partition) -> the topic id, the log end, and the high watermark at least
    had: dict[tuple[str, str, int | None], tuple[str, int, int]] = {}
    ended_well: set[str] = set()
    failed: set[tuple[str, int]] = set()  # directories, under the latest life of their broker
    for row in rows:
        key = (row.node, row.topic, row.partition)
        if row.kind == K.NODE_STARTED:
            failed = {(node, dir_) for node, dir_ in failed if node != row.node}
        elif row.kind == K.DIR_FAILED:
            failed.add((row.node, row.dir))
        is_flushed = row.node in ended_well and (row.node, row.dir) not in failed
        if row.kind == K.WOUND and row.detail == "power-loss" and is_flushed:
            yield f"{row.node} shut down in order and lost records of {row.topic}-{row.partition} to a power loss at row {row.at}"
        if row.kind in (K.WOUND, K.DIR_FAILED, K.FAULT_BEGUN) and (row.kind != K.FAULT_BEGUN or _is_of_disks(row.detail)):
            had = {
                partition_of_node: end_there for partition_of_node, end_there in had.items() if partition_of_node[0] != row.node
            }
        elif row.kind in (K.TRUNCATE, K.REPLICA_DELETED):
            had.pop(key, None)
        elif row.kind == K.NODE_STOPPED:
            ended_well.add(row.node) if row.detail == GOOD_END else ended_well.discard(row.node)
        elif row.kind in (K.BECAME_LEADER, K.RECOVERED) and row.leo is not None and row.hw is not None:
            topic_id, leo, hw = had.get(key, (row.topic_id, 0, 0))
            if topic_id != row.topic_id:
                pass  # a log of another topic of the name, in a directory that is in service now
            elif row.kind == K.RECOVERED and row.leo < leo:
                name = f"{row.topic}-{row.partition}"
                yield f"{row.node} restarts with LEO {row.leo} of {name}, it had LEO {leo} and lost no bytes by a fault"
            elif row.kind == K.RECOVERED and row.node in ended_well and row.hw < hw:
                happened = f"HW {row.hw} of {row.topic}-{row.partition} after a controlled shutdown"
                yield f"{row.node} restarts with {happened}, it had HW {hw} or more"
            had[key] = (row.topic_id, row.leo, row.hw)


def _dirs_given_up_unwritten(rows: list[_Row]) -> Iterator[str]:
    """Full directories that a broker gave up as it started, before it registered, with nothing to write there (LIVE-11)."""
    # A broker that was asked to end may have clean-shutdown markers to remove, even if a kill came between marker and end.
    asked = {row.node for row in rows if row.detail in (*_ORDERLY, GOOD_END)}
    started_ns: dict[str, int] = {}  # by node
    for row in rows:
        if row.kind == K.NODE_STARTED:
            started_ns[row.node] = row.time_ns
        elif row.kind == K.REGISTERED:
            started_ns.pop(row.node, None)  # from now on it creates logs and appends, without delays perhaps in the same moment
        is_at_once = row.kind == K.DIR_FAILED and started_ns.get(row.node) == row.time_ns
        if is_at_once and row.detail == NO_SPACE and row.node not in asked:
            yield f"{row.node} gave up its full directory {row.dir} as it started (row {row.at}), and had nothing to write there"


def _unbalanced_brokers(rows: list[_Row], facts: Facts) -> Iterator[str]:
    """Brokers whose logs lie in one directory at the end, though others had room for them (LIVE-11)."""
    failed = {row.node for row in rows if row.kind in (K.WOUND, K.DIR_FAILED)}
    failed |= {row.node for row in rows if row.kind == K.FAULT_BEGUN and _is_of_disks(row.detail)}
    deleted = Counter(row.node for row in rows if row.kind == K.REPLICA_DELETED)
    logs_by_dir: dict[str, Counter[int]] = {}
    for row in rows:
        if row.kind == K.LOG_ON_DISK:
            logs_by_dir.setdefault(row.node, Counter(dict.fromkeys(range(facts.log_dirs or 0), 0)))[row.dir] += 1
    for node, logs in logs_by_dir.items():
        most, least = max(logs.values()), min(logs.values())
        if node not in failed and most - least > 1 + deleted[node]:
            counts = ", ".join(str(logs[dir_]) for dir_ in sorted(logs))
            yield f"{node} holds {counts} logs in its directories after {deleted[node]} deletions, none of which ever failed"


def _stops_or_deceives(kind: str) -> bool:
    """Whether a fault stops a process or deceives it."""
    return family_of(kind) in ("pause", "clock") or kind == "stale-leader"


def _is_of_disks(kind: str) -> bool:
    return family_of(kind) in ("disk", "power", "point")


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find brokers that did not do what they owe. Ignores `cuts` (excused losses)."""
    rows = events.as_rows(_Row)
    periods = list(_periods_of_single_faults(rows))
    complaints = [
        *_brokers_still_up(rows),
        *_unfenced_brokers(rows, periods, facts),
        *_brokers_that_served_on(rows, facts),
        *_wrong_counts(rows, periods, facts),
    ]
    complaints += _forgetful_replicas(rows)
    complaints += _dirs_given_up_unwritten(rows)
    complaints += _unbalanced_brokers(rows, facts)
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="A broker ends when it is asked to, fences itself when it alone reaches no other or is registered no more, counts "
    "replicas out of service, starts with what it had, and spreads its logs over its directories.",
    assumes="The harness records when each fault begins and ends, and on which brokers and partitions.",
    blind="Periods with several faults of the broker, and short ones; brokers without heartbeats; a controller that is cut off; "
    "full directories of brokers that are ever told to shut down, and of real brokers.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    events=(
        K.FAULT_BEGUN,
        K.FAULT_ENDED,
        K.NODE_STARTED,
        K.NODE_STOPPED,
        K.REGISTERED,
        K.SESSION_ENDED,
        *_OFFICE,
        K.BROKER_STATE,
        *_FENCE,
        K.GAUGE,
        K.BECAME_LEADER,
        K.RECOVERED,
        K.TRUNCATE,
        K.REPLICA_DELETED,
        K.WOUND,
        K.DIR_FAILED,
        K.LOG_ON_DISK,
    ),
    complexity="n in the rows, times the number of faults",
    check=check,
    split=gathered(check),
)
