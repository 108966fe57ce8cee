"""Checker of a black box: every promised record is read at the end, as clients alone show it (docs/promise.md DUR-1, VAC-4).

It stands in for the ledger (`durability.acked_loss`) where a system shows nothing of its replicas. An acknowledgement under
acks=all promises the record, and so does a read. It is lost if a poll that began afterwards returned the records around its
offset without it, or if the final readers, after the quiet time, were told an end of the log at or below its offset. Otherwise a
final read must return it (`final_reads`). Wounds on fewer brokers than min.insync.replicas excuse no loss (docs/promise.md
DUR-4). No copy is seen, so nobody knows what more wounds excuse: a partition that has them is unchecked. The least
min.insync.replicas counts that the topic had. Nor does anybody know what a replica lacked that an operator had elected (DUR-7):
where records are gone that were promised before, they are unchecked, and the log is cut there. Losses that such an election does
not explain are losses (`ordered_elections`).

A partition is not live (LIVE-1) if no produce under acks=all was acknowledged from the bound B after healing on, if the final
readers did not get to its end, or if nobody asked it for anything and it has no leader at the end.

    >>> from checkers.clients.client_log import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> history = history_of("ok produce value=a offset=0", "ok poll offset=0 value=b")
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['lost-write']
"""

from collections.abc import Iterator

from checkers.clients.final_reads import Loss, PromisedRecord, Unread, final_calls, unread
from checkers.clients.ordered_elections import OrderedElections, ordered_elections
from checkers.durability.acked_loss import LOST_WRITE
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_compacted, promised, recovery_deadline_ns
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "client-log"
_ACKS_ALL = -1
_MIN_ISR = "min.insync.replicas"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge one partition by what clients were told; the count `unread` is of promised records of which nobody knows."""
    topic, number = partition_of(operations, events)
    name = f"{topic}-{number}"
    if not operations.height:  # no client asks it by itself: its workload has transactions, or nobody knew that it was made
        return _unasked(name, events, facts)
    calls = operations.calls
    final = final_calls(calls, facts)
    end_calls = [call for call in final if call.f == "latest" and call.type == "ok" and call.rows[0].offset is not None]
    not_live = tuple(_complaints(name, calls, final, end_calls, facts))
    judged = recovery_deadline_ns(facts) is not None
    if is_compacted(facts, topic):
        return Findings(not_live=not_live, live_judged=judged)  # `compaction` judges which records are there
    wounded = events.of(K.WOUND).distinct("node")
    if len(wounded) >= _least_in_sync(topic, events, facts):
        why = f"{NAME}: {name} was wounded on {', '.join(sorted(wounded))}; without notes nobody knows which losses that excuses"
        return Findings(unchecked=(why,), not_live=not_live, live_judged=judged)
    elections = ordered_elections(events, facts)
    losses: dict[int, Loss] = {}
    doubted: list[tuple[int, Loss]] = []
    not_read: dict[tuple[int, str], str] = {}
    for era, promises in _promised_records(calls, elections).items():
        of_era, unknown = _losses(promises, calls, final, facts, offline=_is_offline(events))
        explained = elections.explained(era, of_era.values(), calls, final, offline=_is_offline(events))
        doubted += [(era, loss) for loss in explained]
        losses |= {offset: loss for offset, loss in of_era.items() if loss not in explained}
        not_read |= {(record.offset, record.value): unknown.why for record in unknown.records}
    return Findings(
        anomalies=tuple(_anomaly_of_loss(name, loss) for _, loss in sorted(losses.items())),
        cuts=_cuts(topic, number, doubted, elections),
        unchecked=tuple(_unchecked(name, not_read, doubted)),
        not_live=not_live,
        live_judged=judged,
        counts={"unread": len(not_read)},
    )


def _unasked(name: str, events: Events, facts: Facts) -> Findings:
    """Judge a partition that no client asked for anything: by its leader at the end alone (LIVE-2, SILENT-2)."""
    leaders = events.of(K.STATE_WRITTEN).column("leader")
    if recovery_deadline_ns(facts) is None or not leaders or leaders[-1] is not None:
        return Findings()
    said = f"{name} has no leader at the end"
    if events.of(K.WOUND).height:
        return Findings(unchecked=(f"{NAME}: {said}; without notes nobody knows whether wounds excuse it",))
    return Findings(not_live=(said,), live_judged=True)


def _unchecked(name: str, not_read: dict[tuple[int, str], str], doubted: list[tuple[int, Loss]]) -> Iterator[str]:
    """What nobody knows of this partition, in sentences."""
    if not_read:
        why = next(iter(not_read.values()))
        yield f"{NAME}: {len(not_read)} promised records of {name} were not read at the end: {why}"
    if doubted:
        count = len({(loss.record.offset, loss.record.value) for _, loss in doubted})
        said = f"{count} promised records of {name} are gone after an unclean election that an operator ordered"
        yield f"{NAME}: {said}; without notes nobody knows which of them the elected replica lacked"


def _is_offline(events: Events) -> bool:
    """Whether brokers list the partition at the end, and none of them names a leader."""
    views = events.of(K.METADATA_VIEW).column("leader")
    return bool(views) and all(leader is None for leader in views)


def _losses(
    promises: list[PromisedRecord], calls: list[Call], final: list[Call], facts: Facts, *, offline: bool
) -> tuple[dict[int, Loss], Unread]:
    """The losses among these promised records, by offset, and those of which nobody knows."""
    ends = [call for call in final if call.f == "latest" and call.type == "ok" and call.rows[0].offset is not None]
    losses = _losses_by_offset(promises, calls, ends)
    missing = [record for record in promises if record.offset not in losses]
    losses_shown, unknown = unread(missing, calls, final, facts, offline=offline)
    return losses | {loss.record.offset: loss for loss in losses_shown}, unknown


def _least_in_sync(topic: str, events: Events, facts: Facts) -> int:
    """The least min.insync.replicas that the topic had: as promised, or as an administrator set it."""
    promise = promised(facts, topic)
    settings = (detail.partition("=") for detail in events.of(K.CONFIGURED).column("detail"))
    set_to = [int(value) for name, _, value in settings if name == f"{topic} {_MIN_ISR}" and value.isdecimal()]
    return min([1 if promise is None else promise.min_insync_replicas, *set_to])


def _cuts(topic: str, partition: int, doubted: list[tuple[int, Loss]], elections: OrderedElections) -> tuple[Cut, ...]:
    """Where the log begins anew: at the first record that is gone after an ordered election, in the epoch of its leader."""
    offsets: dict[int, int] = {}
    for era, loss in doubted:
        for number in range(era, elections.before(loss.at)):
            offsets[number] = min(loss.record.offset, offsets.get(number, loss.record.offset))
    epochs = {number: elections.epochs[number] for number in offsets}
    return tuple(
        Cut(topic=topic, partition=partition, offset=offset, leader_epoch=epoch)
        for number, offset in sorted(offsets.items())
        if (epoch := epochs[number]) is not None
    )


def _promised_records(calls: list[Call], elections: OrderedElections) -> dict[int, list[PromisedRecord]]:
    """The records that were acknowledged under acks=all or read, each with the first row that promised it, by era.

    A record that is seen again after an ordered election is promised anew: the elected replica has it.
    """
    promised_records: dict[int, dict[tuple[int, str], PromisedRecord]] = {}
    for call in calls:
        produced = call.f == "produce" and call.asked[0].acks == _ACKS_ALL
        if call.type == "ok" and (produced or call.f == "poll"):
            how = "was acknowledged" if produced else "was read"
            of_era = promised_records.setdefault(elections.era(call), {})
            for row in call.rows:
                if row.offset is not None and row.value is not None:
                    record = PromisedRecord(row.offset, row.value, call.ended, row.time_ns, how)
                    of_era.setdefault((row.offset, row.value), record)
    return {era: list(records.values()) for era, records in promised_records.items()}


def _losses_by_offset(promises: list[PromisedRecord], calls: list[Call], end_calls: list[Call]) -> dict[int, Loss]:
    """The first answer that lacks each promised record, by the record's offset."""
    losses: dict[int, Loss] = {}
    by_offset: dict[int, list[PromisedRecord]] = {}
    for record in promises:
        by_offset.setdefault(record.offset, []).append(record)
    for call in calls:
        if call.f != "poll" or call.type != "ok" or call.asked[0].offset is None:
            continue
        got = {row.offset: row for row in call.rows if row.offset is not None and row.value is not None}
        for offset in range(call.asked[0].offset, max(got, default=-1) + 1):
            for record in by_offset.get(offset, ()):
                row = got.get(offset)
                if record.at < call.invoked and (row is None or row.value != record.value):
                    instead = f"process {call.process} read {row.value} there" if row else f"process {call.process} read past it"
                    losses.setdefault(offset, Loss(record, call.ended, instead))
    for call in end_calls:
        end = call.rows[0].offset
        for record in promises:
            if end is not None and record.offset >= end and record.at < call.invoked:
                losses.setdefault(record.offset, Loss(record, call.ended, f"the log ended at {end} for process {call.process}"))
    return losses


def _anomaly_of_loss(name: str, loss: Loss) -> Anomaly:
    record = loss.record
    words = f"{record.value} {record.how} at offset {record.offset}, and later {loss.words}"
    return Anomaly(kind="lost-write", checker=NAME, key=name, witness=(record.at, loss.at), words=words)


def _complaints(name: str, calls: list[Call], final: list[Call], end_calls: list[Call], facts: Facts) -> list[str]:
    """Why the partition is not live: no produce was acknowledged after the bound, or its end was not read."""
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return []
    tried = [c for c in calls if c.f == "produce" and c.asked[0].acks == _ACKS_ALL and c.invoked_ns >= deadline]
    complaints = []
    if tried and not any(call.type == "ok" for call in tried):
        complaints.append(f"no acks=all produce to {name} was acknowledged from the bound B after healing on")
    position = max((row.offset + 1 for c in final if c.f == "poll" for row in c.rows if row.offset is not None), default=0)
    end = max((call.rows[0].offset or 0 for call in end_calls), default=None)
    if end is None:
        complaints.append(f"the end of {name} could not be read after the quiet time")
    elif position < end:
        complaints.append(f"{name} could be read up to offset {position} of {end} only, after the quiet time")
    return complaints


CHECKER = Checker(
    name=NAME,
    claim="A promised record is read back at its offset by the final reads; after the quiet time writes are acknowledged.",
    assumes="The final readers ask each partition for its end and read it from offset 0. Logs have no gaps.",
    blind="Everything inside of the cluster; which losses several wounds excuse; records that nobody read or was told of.",
    reports=(LOST_WRITE,),
    group_by=PARTITION,
    operations=("produce", "poll", "latest"),
    events=(
        K.WOUND,
        K.CONFIGURED,
        K.UNCLEAN_ELECTION_ORDERED,
        K.STATE_WRITTEN,
        K.METADATA_VIEW,
        K.NODE_STARTED,
        K.NODE_STOPPED,
    ),
    phase="ledger",
    of_the_living=True,
    check=check,
)
