"""What a leader does with a replica's fetch, and what keeps it from committing too early (V3 §G, the 0.8 article)."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, VARIANTS
from reference.effects import AnyEffect, Flush
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import Fetch, FetchReply, ProduceReply
from reference.replica.partition import IsrChange, Leader, progress_of
from reference.types import Address, BrokerId, Millis, Offset
from tests.reference.lab import Lab, carries
from tests.reference.recorded import leader_of
from tests.reference.v3 import cluster_in_sync, crash_and_expire, fetch


def acknowledged(lab: Lab) -> list[int]:
    return [
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    ]


# --- a fetch of a replica ------------------------------------------------------------------------------------------------------


def test_leader_records_the_log_end_that_a_fetch_names() -> None:
    """R-056: getReplica(f.replica_id).leo = f.offset."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    lab.produce(1, "x", "y")
    lab.settle()
    for offset in (2, 1):  # a follower that truncated its log is behind again
        fetch(lab, 1, offset, replica=2, epoch=lab.partition(1).leader_epoch)
        follower_progress = progress_of(leader_of(lab, 1), BrokerId(2))

        assert follower_progress is not None
        assert follower_progress.leo == offset


def test_fetch_of_the_last_replica_commits_and_acknowledges() -> None:
    """R-056: the HW becomes the smallest log end of the ISR, and the produce that waited for it is acknowledged."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    lab.produce(1, "x", "y", correlation=7)
    lab.settle()
    epoch = lab.partition(1).leader_epoch
    fetch(lab, 1, 2, replica=2, epoch=epoch)
    assert (lab.partition(1).hw, acknowledged(lab)) == (0, [])
    fetch(lab, 1, 1, replica=3, epoch=epoch)
    assert (lab.partition(1).hw, acknowledged(lab)) == (1, [])
    leader_of(lab, 1).change = IsrChange(wanted=leader_of(lab, 1).isr)  # and no answer to it comes
    fetch(lab, 1, 2, replica=3, epoch=epoch)

    assert (lab.partition(1).hw, acknowledged(lab)) == (2, [7])


def test_fetch_is_answered_from_its_offset_with_the_hw() -> None:
    """R-016, R-056: response.messages begin at f.offset; response.hw is the HW that this fetch has moved."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    for value in "xyz":
        lab.produce(1, value, correlation=ord(value))
    lab.settle()
    epoch = lab.partition(1).leader_epoch
    fetch(lab, 1, 3, replica=2, epoch=epoch)
    reply = fetch(lab, 1, 1, replica=3, epoch=epoch)

    assert reply is not None
    assert [batch.base_offset for batch in reply.batches] == [1, 2]
    assert reply.hw == 1
    again = fetch(lab, 1, 0, replica=3, epoch=epoch)  # the HW stays, though it is above what this one asks for
    assert again is not None
    assert again.hw == 1


def test_batch_larger_than_the_limit_is_sent_alone() -> None:
    """R-016: a response carries records, or a follower with a small replica.fetch.max.bytes would ask for ever."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    for value in ("first", "second", "third"):
        lab.produce(1, value, correlation=len(value))
    lab.settle()
    lab.client_replies.clear()
    me, epoch = lab.nodes[3].state.broker.incarnation, lab.partition(1).leader_epoch
    request = Fetch(5, lab.partition(1).tp, BrokerId(3), me, epoch, Offset(1), Millis(100), 10, max_bytes=1)
    lab.handle_event(1, Received(Address("c9"), request))
    (reply,) = [message for message in lab.client_replies if isinstance(message, FetchReply)]

    assert [batch.base_offset for batch in reply.batches] == [1]


def test_fetch_above_the_hw_is_answered_from_its_offset() -> None:
    """R-016: a follower that is ahead of the HW gets what it lacks, and no record a second time."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    for value in "xyz":
        lab.produce(1, value, correlation=ord(value))
    lab.settle()
    reply = fetch(lab, 1, 2, replica=3, epoch=lab.partition(1).leader_epoch)

    assert reply is not None
    assert (reply.hw, [batch.base_offset for batch in reply.batches]) == (0, [2])


def test_fetch_at_the_log_end_asks_to_join_the_isr() -> None:
    """R-056: maybe_change_ISR() on the fetch itself; no timer has to run."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    lab.start(3)
    lab.is_held = carries(Fetch)
    lab.settle()
    assert lab.isr() == [1, 2]
    fetch(lab, 1, 0, replica=3, epoch=lab.partition(1).leader_epoch)
    lab.settle()

    assert lab.isr() == [1, 2, 3]


def test_replica_knows_its_log_its_hw_and_whether_it_leads() -> None:
    """R-009: the log end is one past the last record; the HW is that of the last committed one, at a follower too."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x", "y")
    lab.settle()
    lab.wait(600)
    replicas = [lab.partition(i) for i in lab.ids]
    behind = [(r.log.leo, r.hw, isinstance(r.role, Leader)) for r in replicas]
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(600)
    level = [(r.log.leo, r.hw, isinstance(r.role, Leader)) for r in map(lab.partition, lab.ids)]

    assert behind == [(2, 0, True), (2, 0, False), (0, 0, False)]
    assert level == [(2, 2, True), (2, 2, False), (2, 2, False)]


# --- which follower leaves the ISR (V3 §G maybe_change_ISR) --------------------------------------------------------------------

MAX_TIME_LAG_MS = 4000


def v3_isr(*, lag_max_records: int, lag_min_records: int = 1, brokers: int = 3) -> Lab:
    """Brokers under V3's rules, b1 leading; the others fetch only when a test says so, and hold no record."""
    variant = replace(SAFE, lag_rule="last_change", isr_join=VARIANTS["v3"].isr_join, heartbeat=False)
    lab = Lab(brokers, variant=variant)
    limits = {"lag_max_records": lag_max_records, "lag_min_records": lag_min_records}
    for i in lab.ids:
        lab.configs[i] = replace(lab.configs[i], **limits, replica_lag_time_max_ms=MAX_TIME_LAG_MS)
        lab.nodes[i].state.config = lab.configs[i]
    lab.wait(1000)
    assert lab.isr() == list(lab.ids)
    lab.is_held = carries(Fetch)
    lab.settle()
    return lab


def check_isr(lab: Lab, *, after_ms: int) -> list[int]:
    """The ISR when the leader checks it `after_ms` from now."""
    lab.now += after_ms
    lab.timers[1]["isr"] = lab.now
    lab.fire(1, "isr")
    lab.settle()
    return lab.isr()


def fetch_at(lab: Lab, b2: int, b3: int) -> None:
    """Let b2 and b3 fetch at these offsets."""
    epoch = lab.partition(1).leader_epoch
    fetch(lab, 1, b2, replica=2, epoch=epoch)
    fetch(lab, 1, b3, replica=3, epoch=epoch)


def test_v3_only_the_replica_with_the_smallest_leo_leaves() -> None:
    """R-057: both are too far behind; b3, which is last, leaves alone, and b2 at the next check."""
    lab = v3_isr(lag_max_records=2)
    lab.produce(1, *"abcdef")
    fetch_at(lab, 2, 1)

    assert check_isr(lab, after_ms=0) == [1, 2]
    assert check_isr(lab, after_ms=0) == [1]


def test_v3_replica_leaves_when_its_leo_stands_still_too_long() -> None:
    """R-057: few records behind, but no update of its LEO for more than MAX_TIME_LAG."""
    lab = v3_isr(lag_max_records=4000)
    lab.produce(1, *"abc")
    fetch_at(lab, 3, 1)

    assert check_isr(lab, after_ms=MAX_TIME_LAG_MS) == [1, 2, 3]
    assert check_isr(lab, after_ms=1) == [1, 2]
    lab = v3_isr(lag_max_records=4000)
    lab.produce(1, *"abc")
    fetch_at(lab, 3, 3)  # both have all: by V3's letter (B-41) the first of them leaves all the same
    assert check_isr(lab, after_ms=MAX_TIME_LAG_MS + 1) == [1, 3]


def test_v3_replica_whose_leo_moves_stays() -> None:
    """R-057: the time counts from the last update of the LEO, whatever is still missing."""
    lab = v3_isr(lag_max_records=4000)
    lab.produce(1, *"abc")
    for follower in leader_of(lab, 1).followers:
        follower.leo = None  # as after an election: the first fetch is an update, too
    lab.now += MAX_TIME_LAG_MS
    fetch_at(lab, 3, 2)

    assert check_isr(lab, after_ms=MAX_TIME_LAG_MS) == [1, 2, 3]


def test_v3_replica_that_fetches_in_place_leaves() -> None:
    """R-057: the time counts from the last move of the LEO; b3 asks for the same offset again and gets no further."""
    lab = v3_isr(lag_max_records=4000)
    lab.produce(1, *"abc")
    fetch_at(lab, 3, 1)
    lab.now += MAX_TIME_LAG_MS
    fetch_at(lab, 3, 1)

    assert check_isr(lab, after_ms=1) == [1, 2]


def test_v3_replica_leaves_only_beyond_the_largest_lag() -> None:
    """R-057, R-062: MAX_BYTES_LAG records behind is not too many yet, one more is."""
    lab = v3_isr(lag_max_records=2)
    lab.produce(1, *"abc")
    fetch_at(lab, 3, 1)
    assert check_isr(lab, after_ms=0) == [1, 2, 3]
    lab.produce(1, "d")

    assert check_isr(lab, after_ms=0) == [1, 2]


@pytest.mark.parametrize(
    ("min_lag", "leo", "isr"), [(1, 4, [1, 2, 3]), (1, 5, [1, 2]), (2, 5, [1, 2, 3]), (2, 6, [1, 2]), (1, 0, [1, 2, 3])]
)
def test_v3_replica_joins_below_min_bytes_lag_alone(min_lag: int, leo: int, isr: list[int]) -> None:
    """R-058, R-062, C-07: the lag is measured from leo_min, 4 here, so the replica that has all six records may stay outside."""
    lab = v3_isr(lag_max_records=2, lag_min_records=min_lag, brokers=4)
    lab.produce(1, *"abcd")
    fetch(lab, 1, 0, replica=4, epoch=lab.partition(1).leader_epoch)  # b4 stays behind, and does not count
    fetch_at(lab, 4, 1)
    assert [check_isr(lab, after_ms=0) for _ in range(2)] == [[1, 2, 3], [1, 2]]
    lab.produce(1, *"ef")
    fetch(lab, 1, leo, replica=3, epoch=lab.partition(1).leader_epoch)
    lab.settle()

    assert lab.isr() == isr


def test_v3_replica_joins_by_the_smallest_leo_of_the_isr() -> None:
    """R-058: leo_min is that of the ISR, 4 here; b4 is outside and at 1, but keeps nobody out."""
    lab = v3_isr(lag_max_records=2, brokers=4)
    epoch = lab.partition(1).leader_epoch
    lab.produce(1, *"abcd")
    fetch_at(lab, 4, 0)
    fetch(lab, 1, 1, replica=4, epoch=epoch)
    assert check_isr(lab, after_ms=0) == [1, 2, 4]
    assert check_isr(lab, after_ms=0) == [1, 2]
    fetch(lab, 1, 4, replica=3, epoch=epoch)
    lab.settle()

    assert lab.isr() == [1, 2, 3]


# --- when a record is committed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", [2, 3])
def test_record_is_not_acked_before_each_isr_member_has_it(slow: int) -> None:
    """R-141, R-143: the slow member may be the one that survives; a record that it lacks was promised to nobody."""
    lab = cluster_in_sync()
    lab.is_held = carries(FetchReply, receiver=f"b{slow}")
    lab.produce(1, "x", correlation=7)
    lab.settle()
    before = acknowledged(lab)
    for i in {1, 2, 3} - {slow}:
        crash_and_expire(lab, i)

    assert (lab.leaders(), lab.values(slow)) == ([slow], [])
    assert before == acknowledged(lab) == []


def test_new_leader_commits_nothing_before_it_hears_of_the_isr() -> None:
    """R-056, R-141, R-072: the follower is in the ISR of the new leader, and has not fetched from it yet."""
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch)
    crash_and_expire(lab, 1)
    assert lab.isr() == [2, 3]
    lab.produce(lab.leader(), "x", correlation=7)
    lab.settle()

    assert (lab.partition(lab.leader()).hw, acknowledged(lab)) == (0, [])
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(3000)
    assert lab.partition(lab.leader()).hw == 1


@pytest.mark.parametrize(("rule", "isr"), [("epoch_start", [2, 4]), ("hw_only", [2, 3, 4])])
def test_replica_without_committed_records_stays_outside(rule: str, isr: list[int]) -> None:
    """R-141, B-08: the HW of the new leader lags, so b3 is at the HW without the committed record; it must not lead."""
    lab = Lab(4, variant=replace(SAFE, isr_join=rule))
    lab.wait(1000)
    crash_and_expire(lab, 3)
    lab.wait(1000)
    lab.is_held = lambda envelope: (
        envelope.sender == "b1" and isinstance(envelope.message, FetchReply) and not envelope.message.batches
    )
    lab.produce(1, "x", correlation=7)
    lab.settle()
    assert (acknowledged(lab), lab.partition(2).hw) == ([7], 0)
    lab.is_held = carries(Fetch)
    crash_and_expire(lab, 1)
    assert lab.isr() == [2, 4]
    lab.is_held = lambda envelope: (
        isinstance(envelope.message, FetchReply) or (isinstance(envelope.message, Fetch) and envelope.sender != "b3")
    )
    lab.start(3)
    lab.settle()

    assert (lab.partition(lab.leader()).hw, lab.isr()) == (0, isr)


class Stalled(Lab):
    """No flush completes on the disks of the brokers in `stalled`."""

    stalled: frozenset[int] = frozenset()

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        return None if isinstance(effect, Flush) and i in self.stalled else super()._perform(i, effect)


@pytest.mark.parametrize("disk", [1, 2])
def test_one_stalled_disk_of_the_isr_holds_back_the_ack(disk: int) -> None:
    """R-134: the leader counts what it has flushed itself, and a follower fetches from what it has flushed.

    With both disks stalled either of the two would hide that the other counts unflushed records.
    """
    lab = Stalled(2, before_ack=True)
    lab.wait(3000)
    assert lab.isr() == [1, 2]
    lab.stalled = frozenset({disk})
    lab.produce(1, "x", correlation=7)
    lab.settle()
    lab.wait(600)

    assert lab.values(2) == ["x"]
    assert (lab.partition(1).hw, acknowledged(lab)) == (0, [])


def test_flushed_record_of_the_whole_isr_is_acknowledged() -> None:
    """R-134: the same cluster with both disks at work."""
    lab = Stalled(2, before_ack=True)
    lab.wait(3000)
    lab.produce(1, "x", correlation=7)
    lab.settle()
    lab.wait(600)

    assert (lab.partition(1).hw, acknowledged(lab)) == (1, [7])


def test_leader_counts_no_record_written_after_its_flush_began() -> None:
    """R-134: the flush that makes "x" durable says nothing about "y", which was appended while it ran."""
    lab = Lab(1, before_ack=True)
    lab.wait(3000)
    lab.held_flushes = True
    lab.produce(1, "x", correlation=7)
    lab.produce(1, "y", correlation=8)
    before = lab.partition(1).hw
    (flush,) = lab.flushes
    lab.flushes.clear()
    lab.handle_event(*flush)

    assert (before, lab.partition(1).hw, acknowledged(lab)) == (0, 1, [7])
