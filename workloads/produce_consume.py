"""produce-consume: clients write unique values, read them from offset to offset, and read all of them again at the end.

Values. The k-th value of producer i is "p<i>-<k>", both from 0. It is unique in the run and never written again.

Producers. In phase "faults" each keeps its share of the rate: a produce every producers / rate seconds on average, the gap
drawn between half and one and a half of that, to a drawn partition with drawn acks. A producer that waited longer for an
answer continues at once and does not catch up. Produces whose number is not in `only` are drawn and left out. The first
`idempotent` producers are idempotent and always ask for acks=all. In phase "quiet" and "audit" each writes to one partition
after the other, beginning at a different one. Together they write to every partition about once in QUIET_ROUND_MS, which
shows when a partition accepts writes again (docs/promise.md LIVE-2). In phase "quiet" they ask for acks=all. In phase "audit"
each writes to a partition with acks=all, which tells it the leader, then with acks=1 and with acks=0, before it goes on to
the next partition (LIVE-5). Done in phase "final".

Consumers. Each reads every partition in turn, from the earliest offset on, with drawn gaps around the interval, and continues
behind the last record that it got. A failed poll changes nothing, except that after OFFSET_OUT_OF_RANGE the consumer restarts at
the earliest offset (auto.offset.reset); a jump to the end would hide what the log contains now. One call in
LATEST_ONE_IN asks for the latest offset instead. Before one poll in `seek_one_in` it seeks: to the beginning, to the end, back
to a drawn offset, or far beyond the end. Done in phase "final".

Final readers. They work only in phase "final". Together they read each partition once: they ask for its latest offset, then poll
from 0 up to it. After a failed or empty answer a partition is retried after FINAL_BACKOFF_MS, behind the others, and given up
after FINAL_ATTEMPTS_MAX consecutive ones; the history then shows that it was not read to its end (LIVE-3).

Draws are named by producer or consumer and purpose, so that the k-th draw of one does not depend on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from history.op import OpType
from history.seed import Draws
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

QUIET_ROUND_MS = 1000
_QUIET_GAP_US_MAX = 500_000  # of one producer, also where there are more producers than partitions
LATEST_ONE_IN = 10
BEYOND = 1_000_000  # records behind any log end of a run
FINAL_BACKOFF_MS = 250
FINAL_ATTEMPTS_MAX = 10
ACKS_ALL = -1
AUDITED_ACKS = (ACKS_ALL, 1, 0)


def processes(draws: int, parameters: Parameters, producer: "type[Producer] | None" = None) -> tuple[Process, ...]:
    """Make the clients of produce-consume: producers, then consumers, then final readers. `draws` seeds their random choices.

    `producer`: a class of producers that write other values.
    """
    shared = Draws(draws)
    readers = parameters.final_readers
    make_producer = producer or Producer
    return (
        *(make_producer(i, shared, parameters) for i in range(parameters.producers)),
        *(Consumer(i, shared, parameters) for i in range(parameters.consumers)),
        *(FinalReader(parameters.partitions[i::readers]) for i in range(readers)),
    )


class Producer:
    """A client that writes unique values to `partitions`, or to the workload's partitions where it is None."""

    def __init__(
        self, number: int, draws: Draws, parameters: Parameters, *, partitions: Sequence[PartitionName] | None = None
    ) -> None:
        self._name = f"p{number}"
        self._draws = draws
        self._parameters = parameters
        self._idempotent = number < parameters.idempotent
        self._gap_us = 1_000_000 * parameters.producers // parameters.produce_per_s
        self._partitions = parameters.partitions if partitions is None else partitions
        self._due_us = 0
        self._written = 0
        self._quiet_turn = number * len(parameters.partitions) // parameters.producers
        self._audited = 0  # produces in phase "audit"
        self._drawn_count = 0  # produces in phase "faults", also those that are left out
        self._invocation_open: Invocation | None = None

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The producer's next operation, at its due time."""
        assert self._invocation_open is None
        if phase == "final":
            return Done()
        if not self._partitions:
            return Sleep(QUIET_ROUND_MS)
        if self._due_us > 1000 * now_ms:
            return Sleep((self._due_us - 1000 * now_ms + 999) // 1000)
        if phase != "faults":
            self._invocation_open = self._produce_in_turn(now_ms, audit=phase == "audit")
            return self._invocation_open
        drawn = self._drawn_produce(now_ms)
        number = self._drawn_count
        self._drawn_count += 1
        only = self._parameters.only
        if only is not None and number not in only:
            return Sleep(max(1, (self._due_us - 1000 * now_ms + 999) // 1000))
        self._invocation_open = drawn
        return self._invocation_open

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Forget the produce: its values are never sent again, whatever the result."""
        assert invocation is self._invocation_open
        self._invocation_open = None

    def _drawn_produce(self, now_ms: int) -> Invocation:
        """A produce with drawn partition and acks; sets when the next one is due."""
        jitter_us = self._draws.between(f"workload gap {self._name}", self._gap_us // 2, self._gap_us * 3 // 2)
        # Counted from the due time, so that a late wake-up does not lower the rate; a due time long past is dropped.
        self._due_us = max(self._due_us + jitter_us, 1000 * now_ms)
        partitions, acks = self._partitions, self._parameters.acks
        partition = partitions[self._draws.below(f"workload partition {self._name}", len(partitions))]
        return self._produce(partition, acks[self._draws.below(f"workload acks {self._name}", len(acks))])

    def _produce_in_turn(self, now_ms: int, *, audit: bool) -> Invocation:
        """After healing: a produce to the next partition; in the audit each partition gets every kind of acks."""
        count = len(self._partitions)
        self._due_us = 1000 * now_ms + min(_QUIET_GAP_US_MAX, 1000 * QUIET_ROUND_MS * self._parameters.producers // count)
        partition = self._partitions[self._quiet_turn % count]
        acks = AUDITED_ACKS[self._audited % len(AUDITED_ACKS)] if audit else ACKS_ALL
        self._audited += audit
        if not audit or acks == AUDITED_ACKS[-1]:
            self._quiet_turn = (self._quiet_turn + 1) % count
        return self._produce(partition, acks)

    def _produce(self, partition: PartitionName, acks: int) -> Invocation:
        """A produce of the next unique values."""
        first = self._written
        self._written += self._parameters.records_per_produce
        values = tuple(self._value(k) for k in range(first, self._written))
        return Invocation(
            f="produce",
            topic=partition.topic,
            partition=partition.partition,
            values=values,
            acks=ACKS_ALL if self._idempotent else acks,
            retries=self._parameters.retries,
            idempotent=self._idempotent,
        )

    def _value(self, number: int) -> str:
        """The value with this number, which nobody else writes."""
        return f"{self._name}-{number}"


class Consumer:
    """A client that reads every partition, each from offset to offset."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"c{number}"
        self._draws = draws
        self._partitions = parameters.partitions
        self._interval_ms = parameters.poll_interval_ms
        self._seek_one_in = parameters.seek_one_in
        self._positions: list[int | None] = [0] * len(parameters.partitions)  # None: begin at the earliest offset
        self._turn = number * len(parameters.partitions) // max(1, parameters.consumers)
        self._due_ms = 0
        self._to_end = False  # the open `latest` is a seek
        self._invocation_open: Invocation | None = None

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The consumer's next poll at its due time, or sometimes a request for the end offset (`latest`)."""
        assert self._invocation_open is None
        if phase == "final":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        low, high = (self._interval_ms + 1) // 2, self._interval_ms * 3 // 2
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", low, high)
        partition = self._partitions[self._turn]
        if self._draws.ratio(f"workload latest {self._name}", 1, LATEST_ONE_IN):
            self._invocation_open = _latest(partition)
        else:
            self._invocation_open = self._read(partition)
        return self._invocation_open

    def _read(self, partition: PartitionName) -> Invocation:
        """A poll at the consumer's position, or sometimes at a randomly drawn offset (R-036, R-136)."""
        position = self._positions[self._turn]
        one_in = self._seek_one_in
        seeks = position is not None and one_in > 0 and self._draws.ratio(f"workload seek {self._name}", 1, one_in)
        match self._draws.below(f"workload seek where {self._name}", 4) if seeks else -1:
            case 0:
                position = None
            case 1:
                self._to_end = True
                return _latest(partition)
            case 2:
                position = self._draws.below(f"workload seek back {self._name}", (position or 0) + 1)
            case 3:
                position = (position or 0) + BEYOND
            case _:
                pass
        self._positions[self._turn] = position
        if position is None:
            return Invocation(f="earliest", topic=partition.topic, partition=partition.partition)
        return _poll(partition, position)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Move the consumer's position; after a poll, turn to the next partition."""
        assert invocation is self._invocation_open
        self._invocation_open = None
        if invocation.f != "poll":
            if completion.offset is not None and (invocation.f == "earliest" or self._to_end):
                self._positions[self._turn] = completion.offset
            self._to_end = False
            return
        if completion.records:
            self._positions[self._turn] = completion.records[-1].offset + 1
        elif completion.error == "OFFSET_OUT_OF_RANGE":
            self._positions[self._turn] = None
        self._turn = (self._turn + 1) % len(self._partitions)


class FinalReader:
    """A client that reads partitions from offset 0 to their end after the faults; silent partitions come last."""

    def __init__(self, partitions: Sequence[PartitionName]) -> None:
        self._partitions = partitions
        self._readings_left: list[_Reading] | None = None  # until the final phase begins
        self._backing_off = False
        self._invocation_open: Invocation | None = None

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """Ask for the end offset of the first partition in the queue, then poll up to it."""
        assert self._invocation_open is None
        if phase != "final":
            return Done()
        if self._readings_left is None:
            self._readings_left = [_Reading(partition) for partition in self._partitions]
        if not self._readings_left:
            return Done()
        if self._backing_off:
            self._backing_off = False
            return Sleep(FINAL_BACKOFF_MS)
        reading = self._readings_left[0]
        self._invocation_open = _latest(reading.partition) if reading.end is None else _poll(reading.partition, reading.position)
        return self._invocation_open

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Go on reading the partition, or retry it after the others if it did not answer.

        A partition may have no leader until the end of the run (docs/promise.md SILENT-2). Each request to it times out, so
        retries in a row would use up the time for reading the others.
        """
        assert invocation is self._invocation_open
        assert self._readings_left
        self._invocation_open = None
        reading = self._readings_left.pop(0)
        if completion.type is OpType.OK and invocation.f == "latest" and completion.offset is not None:
            reading.end = completion.offset
            reading.attempts = 0
        elif completion.records:
            reading.position = completion.records[-1].offset + 1
            reading.attempts = 0
        else:
            reading.attempts += 1
            self._backing_off = True
        if reading.end is not None and reading.position >= reading.end:
            return
        if self._backing_off and reading.attempts < FINAL_ATTEMPTS_MAX:
            self._readings_left.append(reading)
        elif not self._backing_off:
            self._readings_left.insert(0, reading)


@dataclass(slots=True)
class _Reading:
    """The progress of a final reader in one partition."""

    partition: PartitionName
    position: int = 0
    end: int | None = None  # None until the latest offset is known
    attempts: int = 0  # consecutive ones without progress


def _poll(partition: PartitionName, offset: int) -> Invocation:
    return Invocation(f="poll", topic=partition.topic, partition=partition.partition, offset=offset)


def _latest(partition: PartitionName) -> Invocation:
    return Invocation(f="latest", topic=partition.topic, partition=partition.partition)
