"""A disk keeps everything through a crash, and flushed operations through a power loss."""

from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from highwater.backends.sim.disk import Disk, Mark, Refusal, _durable_end, end_of
from highwater.backends.sim.network import Acting
from history.seed import Draws
from reference.effects import Append, CreateReplica, DeleteReplica, MarkDir, Truncate, WriteCheckpoint
from reference.events import LogImage
from reference.messages import Batch
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Creation, Incarnation, LeaderEpoch, Offset, TopicId, TopicPartition

T0, T1 = TopicPartition("t-0"), TopicPartition("t-1")


def batch(base: int, *values: str, epoch: int = 0) -> Batch:
    return Batch(Offset(base), LeaderEpoch(epoch), values)


def disk_with(*batches: Batch, draws: int = 1) -> Disk:
    new_disk = Disk("b1", 1, Draws(draws), (1000, 1000))
    assert new_disk.perform(CreateReplica(0, T0)) is None
    append(new_disk, *batches)
    return new_disk


def append(to: Disk, *batches: Batch) -> None:
    assert to.perform(Append(0, T0, batches)) is None


def flush(of: Disk) -> None:
    of.flushed(0, of.flush_mark(0))


def logs(of: Disk) -> tuple[LogImage, ...]:
    return of.image()[0].logs


def content(of: Disk) -> list[Batch]:
    return [batch for log in logs(of) if log.tp == T0 for batch in log.batches]


def test_crash_keeps_the_page_cache() -> None:
    assert content(disk_with(batch(0, "a"), batch(1, "b"))) == [batch(0, "a"), batch(1, "b")]


def test_power_loss_cuts_logs_back_to_the_flush() -> None:
    disk = disk_with(batch(0, "a"))
    flush(disk)
    append(disk, batch(1, "b"), batch(2, "c"))
    wounds = disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert content(disk) == [batch(0, "a")]
    assert wounds == [(T0, NO_TOPIC_ID, 1)]


def test_durable_end_is_told_again_when_a_deletion_is_undone() -> None:
    disk = disk_with(batch(0, "a"))
    flush(disk)
    before = disk.durable_ends(0)
    disk.perform(DeleteReplica(0, T0))
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert before == disk.durable_ends(0) == [(T0, NO_TOPIC_ID, 1)]


def test_flush_makes_only_earlier_writes_durable() -> None:
    disk = disk_with(batch(0, "a"))
    mark = disk.flush_mark(0)
    append(disk, batch(1, "b"))
    disk.flushed(0, mark)
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert content(disk) == [batch(0, "a")]


def test_empty_log_survives_power_loss() -> None:
    """The creation of a log is durable at once, so that an empty replica differs from one that lost its records."""
    disk = disk_with(batch(0, "a"))
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert logs(disk) == (LogImage(T0, ()),)


def test_log_dir_keeps_its_first_registration_until_swapped() -> None:
    disk = disk_with()
    disk.perform(MarkDir(0, Incarnation(5), 1))
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)
    before = disk.image()[0].born
    disk.swap(0)

    assert (before, disk.image()[0].born) == (5, NO_INCARNATION)


def test_power_loss_may_undo_an_unflushed_deletion() -> None:
    disk = disk_with(batch(0, "a"))
    flush(disk)
    disk.perform(DeleteReplica(0, T0))
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert content(disk) == [batch(0, "a")]


def test_flushed_deletion_survives_power_loss() -> None:
    disk = disk_with(batch(0, "a"))
    flush(disk)
    disk.perform(DeleteReplica(0, T0))
    flush(disk)
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert logs(disk) == ()


def test_power_loss_may_undo_an_unflushed_truncation() -> None:
    disk = disk_with(batch(0, "a"), batch(1, "old"))
    flush(disk)
    disk.perform(Truncate(0, T0, Offset(1)))
    append(disk, batch(1, "new", epoch=1))
    wounds = disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert content(disk) == [batch(0, "a"), batch(1, "old")]
    assert wounds == [(T0, NO_TOPIC_ID, 1)]


def test_checkpoint_is_durable_at_once() -> None:
    disk = disk_with()
    disk.perform(WriteCheckpoint(0, ((T0, Offset(5)),)))
    disk.lose_unflushed(0, "test", torn=False, all_of_it=True)

    assert disk.image()[0].checkpoint == ((T0, 5),)


steps = st.lists(st.one_of(st.just("append"), st.just("flush"), st.integers(0, 6)), max_size=25)


@given(steps, st.integers(0, 2**32), st.booleans())
def test_power_loss_leaves_a_log_state_since_the_last_flush(story: list[str | int], draws: int, torn: bool) -> None:
    """Except for a torn batch at the end; the wound is the first offset whose record has changed."""
    disk = disk_with(draws=draws)
    flush(disk)
    since_flush: list[list[Batch]] = [[]]
    for number, step in enumerate(story):
        if step == "flush":
            flush(disk)
            since_flush = []
        elif step == "append":
            append(disk, batch(_end(content(disk)), f"v{number}", f"w{number}", epoch=number))
        elif 2 * int(step) < _end(content(disk)):
            disk.perform(Truncate(0, T0, Offset(2 * int(step))))
        since_flush.append(content(disk))
    before = content(disk)
    wounds = disk.lose_unflushed(0, "test", torn=torn, all_of_it=False)
    after = content(disk)

    whole = after if not after or after[-1].intact else after[:-1]
    assert whole in since_flush
    assert torn or whole == after
    same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), min(len(before), len(after)))
    assert wounds == ([(T0, NO_TOPIC_ID, before[same].base_offset)] if same < len(before) else [])
    again = disk.lose_unflushed(0, "again", torn=torn, all_of_it=True)
    assert again == []


def _end(batches: Iterable[Batch]) -> int:
    return max((end_of(batch_found) for batch_found in batches), default=0)


def test_power_loss_sometimes_tears_the_last_batch() -> None:
    torn = 0
    for draws in range(20):
        disk = disk_with(batch(0, "a"), batch(1, "b"), batch(2, "c"), draws=draws)
        disk.lose_unflushed(0, "test", torn=True, all_of_it=False)
        torn += any(not batch_found.intact for batch_found in content(disk))

    assert 0 < torn < 20


def test_swapped_log_dir_loses_the_records_of_all_its_logs() -> None:
    disk = disk_with(batch(0, "a"))
    flush(disk)

    assert disk.swap(0) == [(T0, NO_TOPIC_ID, 0)]
    assert logs(disk) == ()


def test_log_dir_swap_is_recorded_even_for_an_empty_log() -> None:
    """SILENT-2: the ISR may count on a replica without records, and later nothing shows that it had none."""
    disk = disk_with()

    assert disk.swap(0) == [(T0, NO_TOPIC_ID, 0)]


def test_swap_of_a_left_over_log_wounds_no_replica() -> None:
    """Seed 215611: a power loss had undone a deletion, and the replica was in another directory since."""
    disk = Disk("b1", 2, Draws(1), (1, 1))
    for dir_, number in ((1, 0), (0, 1)):
        disk.perform(CreateReplica(dir_, T0, NO_INCARNATION, TopicId(7), Creation(Incarnation(3), number)))

    assert disk.swap(1) == []
    assert disk.swap(0) == [(T0, 7, 0)]


def test_failed_log_dir_changes_nothing() -> None:
    disk = disk_with(batch(0, "a"))
    acting = Acting("f1", "b1")
    disk.dirs[0].refusals.append(Refusal(acting, "EIO", reads=False))

    assert disk.perform(Append(0, T0, (batch(1, "b"),))) == "EIO"
    assert disk.perform(Truncate(0, T0, Offset(0))) == "EIO"
    assert not disk.image()[0].readable
    assert acting.count == 3
    disk.dirs[0].refusals.clear()
    assert content(disk) == [batch(0, "a")]


def test_full_log_dir_still_truncates_and_reads() -> None:
    disk = disk_with(batch(0, "a"), batch(1, "b"))
    disk.dirs[0].refusals.append(Refusal(Acting("f1", "b1"), "ENOSPC", reads=True))

    assert disk.perform(Append(0, T0, (batch(2, "c"),))) == "ENOSPC"
    assert disk.perform(CreateReplica(0, T1)) == "ENOSPC"
    assert disk.perform(Truncate(0, T0, Offset(1))) is None
    assert content(disk) == [batch(0, "a")]


def test_slow_log_dir_takes_longer_to_flush() -> None:
    disk = disk_with()
    acting = Acting("f1", "b1")
    disk.dirs[0].slows.append((77, acting))

    assert disk.flush_delay_ns(0) == 1077
    assert acting.count == 1


STEPS = st.lists(st.sampled_from(["append", "truncate", "begin flush", "end flush"]), max_size=12)


@given(STEPS, st.integers(1, 50), st.booleans())
def test_no_power_loss_destroys_what_is_below_the_durable_end(steps: list[str], draws: int, all_of_it: bool) -> None:
    """The checker `flushes` takes the durable end for what survives; it is told once, and again after a truncation."""
    disk = disk_with(draws=draws)
    mark = disk.flush_mark(0)
    durable_ends: list[int] = []
    for number, step in enumerate(steps):
        batches = content(disk)
        match step:
            case "append":
                append(disk, batch(len(batches), f"v{number}"))
            case "truncate" if batches:
                assert disk.perform(Truncate(0, T0, Offset(len(batches) - 1))) is None
                durable_ends = [min(end, len(batches) - 1) for end in durable_ends]
            case "begin flush":
                mark = disk.flush_mark(0)
            case _:
                disk.flushed(0, mark)
                durable_ends += [end for _, _, end in disk.durable_ends(0)]
    before = content(disk)
    end = durable_ends[-1] if durable_ends else 0
    disk.lose_unflushed(0, "test", torn=False, all_of_it=all_of_it)

    assert content(disk)[:end] == before[:end]


_STEPS = ("append", "truncate", "begin a flush", "end a flush", "lose power", "delete", "create", "look")


@example(steps=[("append", 0), ("look", 0), ("lose power", 1)], draws=1)
@example(steps=[("append", 0), ("look", 0), ("lose power", 1)], draws=2)
@given(steps=st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 3)), max_size=40), draws=st.integers(0, 1000))
def test_durable_ends_tell_each_log_whose_end_moved(steps: list[tuple[str, int]], draws: int) -> None:
    """Checkers count a replica as flushed up to the end that was told last."""
    disk = disk_with(draws=draws)
    marks: list[Mark] = []
    for step, number in steps:
        held = disk.dirs[0].logs.get(T0)
        match step:
            case "append" if held is not None:
                append(disk, batch(end_of(held.batches[-1]) if held.batches else 0, "a", "b"))
            case "truncate" if held is not None and number < len(held.batches):
                disk.perform(Truncate(0, T0, Offset(held.batches[number].base_offset)))
            case "begin a flush":
                marks.append(disk.flush_mark(0))
            case "end a flush" if marks:
                disk.flushed(0, marks.pop(0))
            case "lose power":
                marks.clear()
                disk.lose_unflushed(0, f"loss {number}", torn=False, all_of_it=number == 0)
            case "delete" if held is not None:
                disk.perform(DeleteReplica(0, T0))
            case "create" if held is None:
                disk.perform(CreateReplica(0, T0))
            case "look":
                disk.durable_ends(0)
    disk.durable_ends(0)

    assert [log.told for log in disk.dirs[0].logs.values()] == [_durable_end(log) for log in disk.dirs[0].logs.values()]
