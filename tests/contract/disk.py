"""The contract of log directories, simulated or real: the effects of `reference.effects`, and what a power loss may undo.

A subclass provides a `bench`: a fresh disk with two directories. Batches are compared by their headers, which have the offset,
the leader epoch and the CRC of everything else.
"""

from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import strategies as st

from reference.effects import Append, CreateReplica, DeleteReplica, MarkClean, MarkDir, Truncate, WriteCheckpoint
from reference.events import DirImage, LogImage
from reference.log.log import recover
from reference.messages import Batch
from reference.sealed import count
from reference.types import Creation, Incarnation, Offset, TopicId, TopicPartition
from server.lab.power import Loss
from tests.server.runtime.batches import batch, header_only

DiskEffect = CreateReplica | MarkDir | MarkClean | DeleteReplica | Append | Truncate | WriteCheckpoint
T0, T1 = TopicPartition("t-0"), TopicPartition("t-1")
BORN = Incarnation(7)
TOPIC = TopicId(77)
CREATED = Creation(BORN, 3)
ALL = Loss(seed=1, lose_all=True)


class Bench(Protocol):
    """A disk, and the faults that the harness can inject."""

    def perform(self, effect: DiskEffect) -> str | None:
        """Perform an effect; returns the error if the directory fails, else None."""

    def begin_flush(self, dir_: int) -> Callable[[], None]:
        """Begin a flush; calling the result completes it."""

    def crash(self) -> None:
        """Kill the process and start another; the page cache survives."""

    def lose_power(self, loss: Loss) -> list[tuple[TopicPartition, int]]:
        """Lose power in all directories and start another process; returns each wounded log with its first lost offset."""

    def refuse(self, dir_: int, *, reads: bool) -> Callable[[], None]:
        """Fail every access to a directory, or with `reads` only writes, until the result is called."""

    def image(self) -> tuple[DirImage, ...]:
        """The disk as a process that starts now would find it."""


def logs(bench: Bench, dir_: int = 0) -> dict[TopicPartition, list[Batch]]:
    """The logs of a directory as a broker recovers them: up to the first batch that is not intact."""
    return {log.tp: [header_only(b) for b in recover(log, dir_)[0].batches] for log in bench.image()[dir_].logs}


def flush(bench: Bench, dir_: int = 0) -> None:
    bench.begin_flush(dir_)()


def bench_with_log(bench: Bench, *batches: Batch, tp: TopicPartition = T0) -> None:
    assert bench.perform(CreateReplica(0, tp, BORN, TOPIC, CREATED)) is None
    if batches:
        assert bench.perform(Append(0, tp, batches)) is None


A, B, C = batch(0, "a"), batch(1, "b", "c"), batch(3, "d", epoch=2)
X = batch(1, "x", epoch=4)


class DiskContract:
    """The tests."""

    @pytest.fixture
    def bench(self) -> Bench:
        """A fresh disk with two directories."""
        raise NotImplementedError

    def test_new_disk_is_empty(self, bench: Bench) -> None:
        assert bench.image() == (DirImage(0, readable=True), DirImage(1, readable=True))

    def test_process_crash_undoes_nothing(self, bench: Bench) -> None:
        bench_with_log(bench, A, B)
        bench.perform(Append(0, T0, (C,)))
        bench.perform(Truncate(0, T0, Offset(1)))
        bench.perform(Append(0, T0, (X,)))
        bench.crash()
        assert logs(bench) == {T0: [header_only(A), header_only(X)]}

    def test_checkpoints_and_new_replicas_are_durable_at_once(self, bench: Bench) -> None:
        bench_with_log(bench)
        bench.perform(MarkDir(0, BORN, 2))
        bench.perform(WriteCheckpoint(0, ((T0, Offset(5)),)))
        bench.perform(MarkClean(0, clean=True))
        bench.perform(MarkClean(1, clean=True))
        bench.perform(MarkClean(1, clean=False))
        bench.lose_power(ALL)
        first, second = bench.image()
        assert (first.born, first.dirs, first.clean, first.checkpoint) == (BORN, 2, True, ((T0, 5),))
        assert first.logs == (LogImage(T0, (), BORN, TOPIC, CREATED),)
        assert second == DirImage(1, readable=True)

    def test_checkpoint_replaces_the_one_before(self, bench: Bench) -> None:
        bench_with_log(bench)
        bench.perform(WriteCheckpoint(0, ((T0, Offset(5)),)))
        bench.perform(WriteCheckpoint(0, ((T0, Offset(2)), (T1, Offset(3)))))
        assert bench.image()[0].checkpoint == ((T0, 2), (T1, 3))

    def test_power_loss_leaves_flushed_batches(self, bench: Bench) -> None:
        bench_with_log(bench, A, B)
        flush(bench)
        bench.perform(Append(0, T0, (C,)))
        assert bench.lose_power(ALL) == [(T0, 3)]
        assert logs(bench) == {T0: [header_only(A), header_only(B)]}
        assert bench.lose_power(ALL) == []

    def test_flush_covers_writes_before_its_start_only(self, bench: Bench) -> None:
        bench_with_log(bench, A)
        done = bench.begin_flush(0)
        bench.perform(Append(0, T0, (B,)))
        done()
        bench.lose_power(ALL)
        assert logs(bench)[T0] == [header_only(A)]

    def test_flush_covers_one_directory_only(self, bench: Bench) -> None:
        bench_with_log(bench, A)
        bench.perform(CreateReplica(1, T1, BORN, TOPIC))
        bench.perform(Append(1, T1, (A,)))
        flush(bench, 1)
        assert bench.lose_power(ALL) == [(T0, 0)]
        assert logs(bench, 1) == {T1: [header_only(A)]}

    def test_power_loss_undoes_a_truncation_until_it_is_flushed(self, bench: Bench) -> None:
        """The old records come back, so a broker must wait for the flush before it relies on a truncation."""
        bench_with_log(bench, A, B)
        flush(bench)
        bench.perform(Truncate(0, T0, Offset(1)))
        bench.perform(Append(0, T0, (X,)))
        assert bench.lose_power(ALL) == [(T0, 1)]
        assert logs(bench)[T0] == [header_only(A), header_only(B)]
        bench.perform(Truncate(0, T0, Offset(1)))
        flush(bench)
        assert bench.lose_power(ALL) == []
        assert logs(bench)[T0] == [header_only(A)]

    def test_power_loss_undoes_a_deletion_until_it_is_flushed(self, bench: Bench) -> None:
        bench_with_log(bench, A)
        flush(bench)
        bench.perform(DeleteReplica(0, T0))
        assert logs(bench) == {}
        bench.lose_power(ALL)
        assert logs(bench) == {T0: [header_only(A)]}
        bench.perform(DeleteReplica(0, T0))
        flush(bench)
        bench.lose_power(ALL)
        assert logs(bench) == {}

    def test_deleted_log_that_comes_back_is_marked_as_the_earlier(self, bench: Bench) -> None:
        """Otherwise a broker could not know which of two logs of one replica it must keep."""
        bench_with_log(bench, A)
        flush(bench)
        bench.perform(DeleteReplica(0, T0))
        bench.perform(CreateReplica(1, T0, BORN, TOPIC, Creation(BORN, 4)))
        bench.lose_power(ALL)
        (earlier,), (later,) = (directory.logs for directory in bench.image())
        assert (earlier.created, later.created) == (CREATED, Creation(BORN, 4))

    def test_recreated_log_has_none_of_the_old_batches(self, bench: Bench) -> None:
        bench_with_log(bench, A, B)
        flush(bench)
        bench.perform(DeleteReplica(0, T0))
        bench.perform(CreateReplica(0, T0, Incarnation(9), TopicId(78)))
        bench.lose_power(ALL)
        (log,) = bench.image()[0].logs
        assert (log.born, log.topic_id, log.batches) == (9, 78, ())

    def test_failed_directory_changes_nothing_and_is_unreadable(self, bench: Bench) -> None:
        bench_with_log(bench, A)
        heal = bench.refuse(0, reads=False)
        for effect in (
            Append(0, T0, (B,)),
            Truncate(0, T0, Offset(0)),
            WriteCheckpoint(0, ()),
            MarkClean(0, clean=True),
            MarkDir(0, BORN, 1),
            CreateReplica(0, T1, BORN, TOPIC),
            DeleteReplica(0, T0),
        ):
            assert bench.perform(effect), effect
        assert bench.perform(CreateReplica(1, T1, BORN, TOPIC)) is None
        assert bench.image()[0] == DirImage(0, readable=False)
        heal()
        bench.crash()
        assert logs(bench) == {T0: [header_only(A)]}

    def test_full_directory_refuses_writes(self, bench: Bench) -> None:
        bench_with_log(bench, A, B)
        heal = bench.refuse(0, reads=True)
        for effect in (Append(0, T0, (C,)), WriteCheckpoint(0, ()), MarkDir(0, BORN, 1), CreateReplica(0, T1, BORN, TOPIC)):
            assert bench.perform(effect), effect
        assert bench.perform(Truncate(0, T0, Offset(1))) is None
        assert bench.image()[0].readable
        heal()
        assert bench.perform(Append(0, T0, (X,))) is None
        assert logs(bench) == {T0: [header_only(A), header_only(X)]}


STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 3))
    | st.tuples(st.just("truncate"), st.integers(0, 9))
    | st.tuples(st.sampled_from(["flush", "crash"]), st.just(0)),
    max_size=10,
)


@st.composite
def losses(draw: st.DrawFn) -> Loss:
    """Any kind of power loss."""
    return Loss(seed=draw(st.integers(0, 2**32)), torn=draw(st.booleans()), lose_all=draw(st.booleans()))


def check_that_power_undoes_a_suffix(bench: Bench, steps: list[tuple[str, int]], loss: Loss) -> None:
    """A power loss undoes some of the last changes to a log since its last flush, and nothing else.

    The contract sets no minimum: on real disks a truncation that removes segments is durable at once.
    """
    bench_with_log(bench)
    model: list[Batch] = []
    states: list[list[Batch]] = [[]]
    for number, (step, argument) in enumerate(steps):
        end = model[-1].base_offset + count(model[-1].values) if model else 0
        if step == "append":
            new = batch(end, *(f"{number}-{i}" for i in range(argument)), epoch=number)
            bench.perform(Append(0, T0, (new,)))
            model = [*model, header_only(new)]
            states.append(model)
        elif step == "truncate":
            to = max((b.base_offset for b in model if b.base_offset <= argument), default=Offset(0))
            bench.perform(Truncate(0, T0, to))
            model = [b for b in model if b.base_offset < to]
            states.append(model)
        elif step == "flush":
            flush(bench)
            states = [model]
        else:
            bench.crash()
    bench.lose_power(loss)
    assert logs(bench)[T0] in states
