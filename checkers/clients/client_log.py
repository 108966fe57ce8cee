"""Checker of a black box: every promised record is read at the end, as clients alone show it (docs/promise.md DUR-1, VAC-4).

It stands in for the ledger (`durability.acked_loss`) where a system shows nothing of its replicas. An acknowledgement under
acks=all promises the record, and so does a read. It is lost if a poll that began afterwards returned the records around its
offset without it, or if the final readers, after the quiet time, were told an end of the log at or below its offset. Otherwise a
final read must return it (`final_reads`). Wounds on fewer brokers than min.insync.replicas excuse no loss (docs/promise.md
DUR-4). No copy is seen, so nobody knows what more wounds excuse: a partition that has them is unchecked.

A partition is not live (LIVE-1) if no produce under acks=all was acknowledged from the bound B after healing on, or if the final
readers did not get to its end.

    >>> from checkers.clients.client_log import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> history = history_of("ok produce value=a offset=0", "ok poll offset=0 value=b")
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['lost-write']
"""

from checkers.clients.final_reads import Loss, PromisedRecord, final_calls, unread
from checkers.durability.acked_loss import LOST_WRITE
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, promised, recovery_deadline_ns
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "client-log"
_ACKS_ALL = -1


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge one partition by what clients were told; the count `unread` is of promised records of which nobody knows."""
    if not operations.height:
        return Findings()  # no client of this run asks a partition by itself: its workload has transactions
    topic, number = partition_of(operations, events)
    name = f"{topic}-{number}"
    calls = operations.calls
    final = final_calls(calls, facts)
    end_calls = [call for call in final if call.f == "latest" and call.type == "ok" and call.rows[0].offset is not None]
    not_live = tuple(_complaints(name, calls, final, end_calls, facts))
    judged = recovery_deadline_ns(facts) is not None
    wounded = events.of(K.WOUND).distinct("node")
    promise = promised(facts, topic)
    if len(wounded) >= (1 if promise is None else promise.min_insync_replicas):
        why = f"{NAME}: {name} was wounded on {', '.join(sorted(wounded))}; without notes nobody knows which losses that excuses"
        return Findings(unchecked=(why,), not_live=not_live, live_judged=judged)
    promises = _promised_records(calls)
    losses = _losses_by_offset(promises, calls, end_calls)
    losses_shown, unknown = unread([record for record in promises if record.offset not in losses], calls, final, facts)
    losses |= {loss.record.offset: loss for loss in losses_shown}
    records = len(unknown.records)
    unchecked = (f"{NAME}: {records} promised records of {name} were not read at the end: {unknown.why}",) if records else ()
    return Findings(
        anomalies=tuple(_anomaly_of_loss(name, loss) for _, loss in sorted(losses.items())),
        unchecked=unchecked,
        not_live=not_live,
        live_judged=judged,
        counts={"unread": records},
    )


def _promised_records(calls: list[Call]) -> list[PromisedRecord]:
    """The records that were acknowledged under acks=all or read, each with the first row that promised it."""
    promised_records: dict[tuple[int, str], PromisedRecord] = {}
    for call in calls:
        produced = call.f == "produce" and call.asked[0].acks == _ACKS_ALL
        if call.type == "ok" and (produced or call.f == "poll"):
            how = "was acknowledged" if produced else "was read"
            for row in call.rows:
                if row.offset is not None and row.value is not None:
                    record = PromisedRecord(row.offset, row.value, call.ended, row.time_ns, how)
                    promised_records.setdefault((row.offset, row.value), record)
    return list(promised_records.values())


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
    events=(K.WOUND,),
    of_the_living=True,
    check=check,
)
