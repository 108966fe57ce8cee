"""Random histories with one falsified row each, of kinds that are rare in the other random histories."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_histories import drawn_calls, drawn_events
from proof.log_rows import Case

Rows = list[Operation]
_ROWS_MAX = 95


def _read(rows: Sequence[Operation]) -> list[int]:
    return [at for at, row in enumerate(rows) if row.f == "poll" and row.type is OpType.OK and row.value is not None]


def _with_exchange(rows: Rows, rng: Rng) -> Rows:
    """Falsify a history: exchange two read records, so that those of an idempotent producer are out of order."""
    once = {row.value for row in rows if row.delivery == "once"}
    reads_of_once = [at for at in _read(rows) if rows[at].value in once] or _read(rows)
    if len(reads_of_once) > 1:
        first = reads_of_once[0]
        second = rng.pick(tuple(reads_of_once[1:]))
        rows[first], rows[second] = replace(rows[first], value=rows[second].value), replace(rows[second], value=rows[first].value)
    return rows


def _with_denial(rows: Rows, rng: Rng) -> Rows:
    """Falsify a history: a produce whose record was read is recorded as certainly failed."""
    read = {rows[at].value for at in _read(rows)}
    produces_read = [row.index for row in rows if row.f == "produce" and row.type is not OpType.INVOKE and row.value in read]
    if not produces_read:
        return rows
    chosen = rng.pick(tuple(produces_read))
    return [replace(row, type=OpType.FAIL, offset=None) if row.index == chosen else row for row in rows]


def _left_out(rows: Rows, rng: Rng) -> Rows:
    """Falsify a history: remove one of several records from the answer to a poll."""
    several = [at for at in _read(rows) if any(rows[place].index == rows[at].index and place != at for place in _read(rows))]
    # Prefer the middle one of three: then no other anomaly shows the gap.
    inner = [
        at
        for at in several
        if rows[at].slot == 1 and any(rows[place].index == rows[at].index and rows[place].slot == 2 for place in several)
    ]
    if several:
        del rows[rng.pick(tuple(inner or several))]
    return rows


def _with_lower_offset(rows: Rows, rng: Rng) -> Rows:
    """Falsify a history: lower an end offset or a high watermark."""
    end_answers = [at for at, row in enumerate(rows) if row.f == "latest" and row.type is OpType.OK and row.offset]
    hints = [at for at, row in enumerate(rows) if row.hw is not None]
    for places, column in ((end_answers, "offset"), (hints, "hw")):
        if places and (column == "offset" or rng.below(2)):
            last = rows[places[-1]]
            rows[places[-1]] = replace(last, **{column: 0, "leader_epoch": max(row.leader_epoch or 0 for row in rows)})
            if column == "hw":
                break
    return rows


def _sent_back(rows: Rows, rng: Rng) -> Rows:
    """Falsify a history: a poll is answered OFFSET_OUT_OF_RANGE, or reads a value that was never sent."""
    polls = [at for at, row in enumerate(rows) if row.f == "poll" and row.type is not OpType.INVOKE and row.slot == 0]
    read = _read(rows)
    if read and rng.below(2):
        rows[rng.pick(tuple(read))] = replace(rows[read[0]], index=rows[read[0]].index, value="ghost")
        return sorted(rows, key=lambda row: (row.index, row.slot))
    if polls:
        last = rows[polls[-1]]
        refusal = replace(
            last, type=OpType.FAIL, error="OFFSET_OUT_OF_RANGE", value=None, offset=None, hw=None, leader_epoch=None
        )
        return [row for row in rows if row.index != last.index] + [refusal]
    return rows


_LIES: tuple[Callable[[Rows, Rng], Rows], ...] = (
    _with_exchange,
    _with_denial,
    _left_out,
    _left_out,
    _with_lower_offset,
    _with_lower_offset,
    _sent_back,
)


def drawn_lies(rng: Rng) -> Case:
    """Return a random history of client calls with one falsified row."""
    case = drawn_calls(rng)
    rows = rng.pick(_LIES)(list(case.operations), rng)
    return case._replace(operations=sorted(rows, key=lambda row: (row.index, row.slot)))


def drawn_feuds(rng: Rng) -> Case:
    """Return random rows of replicas that end with a violation, such as two leaders in one epoch.

    It is a second leader, an act of a fenced leader, a truncation, or an act of a deposed controller.
    """
    case = drawn_events(rng)
    events = list(case.events)
    feud = rng.pick((_two_leaders, _fenced_leader, _truncation, _rows_of_deposed))
    for columns in feud(events, rng):
        index = events[-1].index + 1
        about = {"index": index, "time_ns": 10_000_000 * index, "topic": "t", "partition": 0, "life": 1}
        if index < _ROWS_MAX:
            events.append(ClusterEvent(**about, **columns))  # type: ignore[arg-type]
    return case._replace(events=events)


Columns = list[dict[str, object]]


def _leader_epoch_hw(events: list[ClusterEvent]) -> tuple[str, int, int]:
    """The leader in ZooKeeper, its epoch, and the highest HW that it noted."""
    state = [row for row in events if row.kind is K.STATE_WRITTEN][-1]
    leader = state.leader or "b1"
    hws = [row.hw or 0 for row in events if row.kind in (K.HW, K.BECAME_LEADER) and row.node == leader]
    return leader, state.leader_epoch or 0, max(hws, default=0)


def _hw(node: str, hw: int, epoch: int) -> dict[str, object]:
    return {"kind": K.HW, "node": node, "hw": hw, "leo": hw, "leader_epoch": epoch, "detail": "leader"}


def _two_leaders(events: list[ClusterEvent], rng: Rng) -> Columns:
    """Another leader of the same epoch, and both advance the HW."""
    leader, epoch, hw = _leader_epoch_hw(events)
    other_leader = "b2" if leader != "b2" else "b3"
    leads = {"kind": K.BECAME_LEADER, "node": other_leader, "leader_epoch": epoch, "leo": hw, "hw": hw, "isr": (other_leader,)}
    rows_added = [_hw(leader, hw + 1, epoch), leads, _hw(other_leader, hw + 1, epoch)]
    return rows_added if rng.below(3) else rows_added[1:]


def _fenced_leader(events: list[ClusterEvent], rng: Rng) -> Columns:
    leader, epoch, hw = _leader_epoch_hw(events)
    return [_hw(leader, hw, epoch), {"kind": K.FENCED, "node": leader}, _hw(leader, hw + rng.below(3), epoch)]


def _truncation(events: list[ClusterEvent], rng: Rng) -> Columns:
    """A replica truncates a record below the HW, and the HW falls."""
    leader, _, hw = _leader_epoch_hw(events)
    nodes = [row.node for row in events if row.kind is K.APPEND] or [leader]
    cut: dict[str, object] = {
        "kind": K.TRUNCATE,
        "node": rng.pick(tuple(nodes)),
        "offset": max(0, hw - rng.below(2)),
        "detail": "epoch",
    }
    return [cut, _hw(leader, max(0, hw - rng.below(3)), _leader_epoch_hw(events)[1])]


def _rows_of_deposed(events: list[ClusterEvent], rng: Rng) -> Columns:
    """A broker that is no controller any more writes a state."""
    leader, epoch, _ = _leader_epoch_hw(events)
    elected: dict[str, object] = {"kind": K.CONTROLLER_ELECTED, "node": "b1" if rng.below(2) else "b2", "controller_epoch": 90}
    chosen = "b2" if rng.below(2) else leader
    wrote = {"node": "b3", "leader": chosen, "leader_epoch": epoch + 1, "isr": (chosen,), "zk_version": 0}
    return [elected, {"kind": K.STATE_WRITTEN, **wrote}]
