"""Switches of replication and of the controller, each at both of its settings: the mistake that history made, and the fix."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, VARIANTS, Variant
from reference.controller import broker_change
from reference.controller.context import LiveBroker
from reference.coordination import paths
from reference.coordination.api import SetData
from reference.errors import ErrorCode
from reference.events import ConnectionLost, Received
from reference.log import epoch_cache
from reference.log.epoch_cache import EpochStart
from reference.machine import Now, Turn
from reference.messages import (
    Batch,
    Diverging,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ProduceReply,
    StopPartition,
    StopReplica,
)
from reference.replica.partition import Follower, Idle, Leader
from reference.types import NO_EPOCH, Address, BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, Millis, Offset
from tests.reference.lab import T0, Lab
from tests.reference.test_v3 import command, controllers, die, fetch, full, told


def with_switches(brokers: int = 2, **switches: object) -> Lab:
    """`safe` but for these; all brokers in the ISR, b1 leading."""
    lab = Lab(brokers, variant=replace(SAFE, **switches))
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == (list(lab.ids), [1])
    return lab


def asked_by(lab: Lab, i: int) -> int:
    """The correlation of what a follower waits for."""
    role = lab.partition(i).role
    assert isinstance(role, Follower)
    return role.outstanding


def answer(lab: Lab, i: int, *batches: Batch, hw: int = 0, error: ErrorCode = ErrorCode.NONE) -> None:
    """A leader's answer to the fetch of a follower."""
    epoch = lab.partition(i).leader_epoch
    lab.tell(i, Received(Address("b1"), FetchReply(asked_by(lab, i), T0, error, epoch, Offset(hw), batches)))


def stray(lab: Lab, i: int, *values: str) -> None:
    """Records of the present epoch that nobody else has, at the end of a replica's log."""
    partition = lab.partition(i)
    log = partition.log
    batch = Batch(log.leo, partition.leader_epoch, values)
    log.batches.append(batch)
    epoch_cache.assign(log.epochs, batch.leader_epoch, batch.base_offset)
    log.leo = Offset(log.leo + len(values))
    lab.disks[i].logs[T0].append(batch)


# --- logs and their epochs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "values"), [(True, ["a", "b", "c"]), (False, ["a", "a", "b", "c"])])
def test_a_batch_that_begins_below_the_log_end_is_cut_to_fit(check: bool, values: list[str]) -> None:
    """B-03, KAFKA-3919: appended whole, its offsets go backwards within the log."""
    lab = with_switches(append_check=check)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a",)))
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a", "b", "c")))

    assert lab.values(2) == values
    assert lab.partition(2).log.leo == 3


@pytest.mark.parametrize(("record", "values"), [(True, []), (False, ["stray"])])
def test_a_leader_knows_where_its_epoch_starts_before_it_has_written(record: bool, values: list[str]) -> None:
    """B-09, KAFKA-7415: else it cannot say where the epoch before ended, and nobody cuts what it never had."""
    lab = with_switches(3, record_epoch_start=record)
    stray(lab, 2, "stray")
    die(lab, 3)  # the next epoch

    assert lab.values(2) == values


@pytest.mark.parametrize(("recheck", "values"), [(True, ["x"]), (False, [])])
def test_an_answer_about_epochs_counts_only_for_the_question_in_flight(recheck: bool, values: list[str]) -> None:
    """B-10, KAFKA-7786: the answer of an earlier epoch cuts what this one has."""
    lab = with_switches(3, epoch_end_recheck=recheck)
    lab.produce(1, "x")
    lab.settle()
    lab.held = lambda letter: isinstance(letter[2], EpochEndReply)
    die(lab, 3)
    lab.tell(2, Received(Address("b1"), EpochEndReply(10_000, T0, ErrorCode.NONE, LeaderEpoch(0), Offset(0))))

    assert lab.values(2) == values


@pytest.mark.parametrize(("strict", "end"), [(True, 10), (False, 3)])
def test_an_epoch_without_records_gives_way_to_the_records_of_an_earlier_one(strict: bool, end: int) -> None:
    """B-11, KAFKA-10706: led in epoch 5 and wrote nothing; then took records of epoch 4 from another leader."""
    entries = [EpochStart(LeaderEpoch(5), Offset(3))]
    epoch_cache.assign(entries, LeaderEpoch(4), Offset(3), strict=strict)

    assert epoch_cache.end_by_kip279(entries, LeaderEpoch(4), Offset(10)) == (4, end)


def test_the_epoch_cache_is_kept_as_the_switch_says() -> None:
    """B-11: the switch reaches the log of a follower."""
    for name, epochs in (("safe", [0]), ("epoch-cache-lazy", [5])):
        lab = full(name)
        lab.partition(2).log.epochs[:] = [EpochStart(LeaderEpoch(5), Offset(0))]
        answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a",)))

        assert [entry.epoch for entry in lab.partition(2).log.epochs] == epochs


@pytest.mark.parametrize(("resets", "values"), [(False, ["x"]), (True, [])])
def test_a_follower_out_of_range_looks_for_the_place_to_cut(resets: bool, values: list[str]) -> None:
    """B-16, KAFKA-2143: who begins anew from nothing has lost what it held, and may lead a moment later."""
    lab = with_switches(out_of_range_resets=resets)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)))
    answer(lab, 2, error=ErrorCode.OFFSET_OUT_OF_RANGE)

    assert lab.values(2) == values


# --- truncation while fetching (KIP-595) -----------------------------------------------------------------------------------


def test_a_follower_is_told_by_the_answer_to_its_fetch_where_to_cut() -> None:
    """KIP-595, U-01: with truncation=fetch there is no question of its own; the logs are the same in the end."""
    lab = with_switches(3, truncation="fetch")
    lab.produce(1, "a")
    lab.settle()
    stray(lab, 2, "stray", "more")
    die(lab, 3)
    lab.produce(1, "b", correlation=2)
    lab.settle()
    lab.wait(1000)

    assert lab.values(1) == lab.values(2) == ["a", "b"]


@pytest.mark.parametrize(("counted", "hw"), [(False, 0), (True, 1)])
def test_who_has_yet_to_truncate_counts_for_nothing(counted: bool, hw: int) -> None:
    """B-12, KAFKA-13141: the end that it fetches from is the end of other records."""
    lab = with_switches(truncation="fetch", leo_of_diverging=counted)
    lab.held = lambda letter: letter[1] == "b2"
    lab.letters.clear()
    lab.produce(1, "x")
    incarnation = lab.nodes[2].state.broker.incarnation
    epoch = lab.partition(1).leader_epoch
    asking = Fetch(99, T0, BrokerId(2), incarnation, epoch, Offset(1), Millis(100), 10, last_epoch=LeaderEpoch(7))
    lab.tell(1, Received(Address("b2"), asking))
    replies = [m.diverging for _, _, m in lab.letters if isinstance(m, FetchReply) and m.correlation == 99]

    assert replies == [Diverging(LeaderEpoch(0), Offset(1))]
    assert lab.partition(1).hw == hw


@pytest.mark.parametrize(("early", "seen"), [(False, []), (True, [1])])
def test_a_follower_truncates_before_it_takes_the_high_watermark(early: bool, seen: list[int]) -> None:
    """B-13, KAFKA-14704: for a moment the records that are about to go pass for committed."""
    lab = with_switches(truncation="fetch", hw_of_diverging=early)
    stray(lab, 2, "stray")
    lab.notes.clear()
    reply = FetchReply(
        asked_by(lab, 2), T0, ErrorCode.NONE, LeaderEpoch(0), Offset(1), diverging=Diverging(LeaderEpoch(0), Offset(0))
    )
    lab.tell(2, Received(Address("b1"), reply))

    assert [note.hw for i, note in lab.notes if i == 2 and note.kind == "hw"] == seen
    assert lab.values(2) == []


@pytest.mark.parametrize(("name", "refused"), [("safe", True), ("kip320-first-try", False), ("no-fetch-fencing", False)])
def test_a_follower_of_an_older_epoch_is_refused(name: str, refused: bool) -> None:
    """B-06, B-14, U-12: that its last record is of a known epoch does not say that it follows in the present one."""
    lab = full(name)
    die(lab, 3)
    lab.produce(1, "x")
    reply = fetch(lab, 1, 0, replica=2, epoch=0)

    assert (reply is not None and reply.error is ErrorCode.FENCED_LEADER_EPOCH) is refused


def alternating(variant: Variant) -> tuple[list[str], list[str]]:
    """B-05's schedule: two replicas take turns at leading alone, then both are up."""
    lab = Lab(2, variant=variant)
    lab.wait(3000)
    count = 0

    def write(i: int, times: int) -> None:
        nonlocal count
        for _ in range(times):
            count += 1
            lab.produce(i, f"m{count}", acks=1, correlation=count)
        lab.settle()

    def stop(i: int) -> None:
        lab.crash(i)
        lab.expire(i)
        lab.settle()

    def start(i: int) -> None:
        lab.start(i)
        lab.settle()

    write(1, 1)
    stop(1)
    write(2, 1)
    stop(2)
    start(1)
    write(1, 3)
    stop(1)
    start(2)
    write(2, 1)
    start(1)
    lab.wait(1000)
    stop(1)
    write(2, 2)
    start(1)
    lab.wait(3000)
    return lab.values(1), lab.values(2)


def test_logs_are_the_same_after_unclean_elections() -> None:
    """B-05: records are lost by them, as acks=1 allows, but two logs never differ; by KIP-101 alone they do."""
    one, other = alternating(replace(SAFE, unclean_election=True))
    assert one == other

    one, other = alternating(replace(VARIANTS["kip101"], unclean_election=True))
    assert one != other


# --- high watermark --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clamp", "hw"), [(True, 1), (False, 9)])
def test_a_follower_believes_in_nothing_above_its_log_end(clamp: bool, hw: int) -> None:
    """U-03, B-20: if it led with it, records that nobody has would pass for committed."""
    lab = with_switches(hw_clamp=clamp)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)), hw=9)

    assert lab.partition(2).hw == hw


@pytest.mark.parametrize(("monotone", "hw"), [(True, 1), (False, 0)])
def test_a_high_watermark_does_not_fall_within_an_epoch(monotone: bool, hw: int) -> None:
    """U-04: an answer that was overtaken, or a replica that joined behind, would take back what was read."""
    lab = with_switches(hw_monotone=monotone)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)), hw=1)
    answer(lab, 2, hw=0)

    assert lab.partition(2).hw == hw


# --- controllers and registrations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "resigned"), [("safe", True), ("no-zk-guard", False)])
def test_a_controller_writes_nothing_once_the_epoch_has_moved(name: str, resigned: bool) -> None:
    """B-44, U-08, KAFKA-6082: it may have slept through its own replacement."""
    lab = full(name)
    lab.zk.submit(lab.admin, (SetData(paths.CONTROLLER_EPOCH, b"7", -1),))
    lab.notes.clear()
    die(lab, 3)

    assert ("controller-resigned" in [note.kind for _, note in lab.notes]) is resigned


@pytest.mark.parametrize(
    ("name", "error"), [("safe", ErrorCode.STALE_CONTROLLER_EPOCH), ("no-controller-epoch-check", ErrorCode.NONE)]
)
def test_a_command_of_an_older_controller_is_refused(name: str, error: ErrorCode) -> None:
    """B-45, U-08, KAFKA-1188: it was sent before the controller was replaced."""
    lab = full(name)
    die(lab, 1)
    broker = lab.nodes[3].state.broker
    assert broker.controller_epoch == 2
    lab.letters.clear()
    late = LeaderAndIsr(5, BrokerId(1), ControllerEpoch(1), broker.incarnation, False, (lab.state(),))
    lab.tell(3, Received(Address("b1"), late))

    assert [m.error for _, to, m in lab.letters if to == "b1" and isinstance(m, LeaderAndIsrReply)] == [error]


@pytest.mark.parametrize(("persist", "epochs"), [(True, (1, 2)), (False, (1, 1))])
def test_two_reigns_have_two_epochs(persist: bool, epochs: tuple[int, int]) -> None:
    """B-46: a controller that counts for itself gives an epoch that another one had."""
    lab = with_switches(3, controller_epoch_persist=persist, zk_guard=persist)
    first = lab.nodes[1].state.controller.epoch
    die(lab, 1)

    assert (first, lab.nodes[2].state.controller.epoch) == epochs


@pytest.mark.parametrize(("name", "standing"), [("safe", [1]), ("controller-outlives-its-session", [])])
def test_a_controller_whose_session_ended_stands_again(name: str, standing: list[int]) -> None:
    """B-46, KAFKA-4360: else the last one to have been controller leaves a cluster without any."""
    lab = Lab(1, variant=VARIANTS[name])
    lab.expire(1)
    lab.settle()
    lab.wait(3000)

    assert controllers(lab) == standing


@pytest.mark.parametrize(("early", "role"), [(False, Follower), (True, Idle)])
def test_a_transition_that_was_cut_off_is_done_again(early: bool, role: type) -> None:
    """B-56, KAFKA-9307: the session ended in the middle of it; the same command must not pass for an old one."""
    lab = with_switches(3, epoch_before_transition=early)
    lab.partition(3).role = Idle()
    command(lab, 3, told(lab, 1, epoch_up=0))

    assert isinstance(lab.partition(3).role, role)


@pytest.mark.parametrize(("known", "changed"), [(True, [T0]), (False, [])])
def test_a_bounce_between_two_looks_is_seen(known: bool, changed: list[str]) -> None:
    """B-47, U-20, KAFKA-1120: the same ids are there, one of them under another registration."""
    lab = full("safe" if known else "no-broker-incarnation")
    node = lab.nodes[1].state
    bounced = tuple(LiveBroker(b.broker, Incarnation(b.incarnation + 100 * (b.broker == 3))) for b in node.controller.live)
    turn = Turn(Now(Millis(0), Millis(0)), node.ids, node.config, node.broker.incarnation)
    broker_change.on_broker_change(turn, node.controller, bounced)

    assert list(node.controller.changes) == changed


@pytest.mark.parametrize(("name", "error"), [("safe", ErrorCode.STALE_BROKER_EPOCH), ("no-broker-incarnation", ErrorCode.NONE)])
def test_a_command_for_the_life_before_is_refused(name: str, error: ErrorCode) -> None:
    """B-48, U-09, KIP-380: it was meant for a process that is no more."""
    lab = full(name)
    broker = lab.nodes[3].state.broker
    lab.letters.clear()
    late = LeaderAndIsr(5, BrokerId(1), broker.controller_epoch, Incarnation(broker.incarnation - 1), False, (lab.state(),))
    lab.tell(3, Received(Address("b1"), late))

    assert [m.error for _, to, m in lab.letters if to == "b1" and isinstance(m, LeaderAndIsrReply)] == [error]


def test_an_acknowledgement_does_not_outlive_the_epoch_that_appended() -> None:
    """B-27, KAFKA-1148: the record may have gone and come back as another."""
    for name, errors in (("safe", [ErrorCode.NOT_LEADER_OR_FOLLOWER]), ("no-purgatory-epoch-check", [])):
        lab = full(name)
        lab.held = lambda letter: letter[1] in ("b2", "b3")
        lab.produce(1, "x")
        lab.settle()
        command(lab, 1, told(lab, 2))

        assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == errors
        assert not isinstance(lab.partition(1).role, Leader)


def test_nothing_waits_for_a_client_that_is_gone() -> None:
    """It may have named a wait of weeks, and come again over another connection, and again. Others wait on, followers too."""
    lab = full()
    lab.held = lambda letter: letter[1] in ("b2", "b3")
    assert fetch(lab, 1, 0) is None  # c9
    for gone in ("c8", "b2", "c9"):
        lab.tell(1, ConnectionLost(Address(gone)))
    fetchers = [parked.source for parked in lab.partition(1).fetches]
    lab.produce(1, "x")  # c1
    lab.tell(1, ConnectionLost(Address("c8")))
    producers = [parked.source for parked in lab.partition(1).produces]
    lab.tell(1, ConnectionLost(Address("c1")))

    assert (fetchers, producers) == (["b2", "b3"], ["c1"])
    assert lab.partition(1).produces == []


@pytest.mark.parametrize(("fenced", "there"), [(True, True), (False, False)])
def test_a_stop_behind_the_command_that_gives_the_replica_back_deletes_nothing(fenced: bool, there: bool) -> None:
    """B-52, U-10, KIP-570: without an epoch of its own the late one deletes a replica that is in use."""
    lab = with_switches(3, stop_replica_epoch=fenced)
    command(lab, 3, told(lab, 2, epoch_up=4))
    broker = lab.nodes[3].state.broker
    stops = (StopPartition(T0, LeaderEpoch(1)),)
    lab.tell(3, Received(Address("b2"), StopReplica(78, BrokerId(2), broker.controller_epoch, broker.incarnation, stops)))

    assert (T0 in broker.partitions) is there


@pytest.mark.parametrize(("deletes", "there"), [(False, True), (True, False)])
def test_a_first_command_that_lists_too_little_deletes_nothing(deletes: bool, there: bool) -> None:
    """B-53, U-11: a controller that has read a part, or is none any more, takes every other log on every broker."""
    lab = with_switches(3, init_deletes=deletes)
    command(lab, 3, init=True)

    assert (T0 in lab.nodes[3].state.broker.partitions) is there


@pytest.mark.parametrize(
    ("behind", "error"),
    [(None, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.FENCED_LEADER_EPOCH), (-1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_who_believes_in_no_epoch_asks_unfenced_where_one_ended(behind: int | None, error: ErrorCode) -> None:
    """KIP-320: a current leader epoch of -1 is none; another one than the leader's is fenced."""
    lab = full("safe")
    die(lab, 3)
    lab.produce(1, "x")
    lab.settle()
    epoch = lab.partition(1).leader_epoch
    current = NO_EPOCH if behind is None else LeaderEpoch(epoch - behind)
    lab.tell(1, Received(Address("c1"), EpochEnd(7, T0, BrokerId(-1), current, epoch)))
    lab.settle()
    (reply,) = [one for one in lab.inbox if isinstance(one, EpochEndReply)]

    assert (reply.error, reply.end_offset) == (error, 1 if error is ErrorCode.NONE else None)
