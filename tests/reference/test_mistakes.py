"""Switches of replication and of the controller, each at both settings: the known mistake and its fix."""

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
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import cluster_in_sync, controllers, crash_and_expire, fetch, next_state, send_leader_and_isr


def with_switches(brokers: int = 2, **switches: object) -> Lab:
    """`safe` with these switches changed; all brokers are in the ISR, and b1 leads."""
    lab = Lab(brokers, variant=replace(SAFE, **switches))
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == (list(lab.ids), [1])
    return lab


def asked_by(lab: Lab, i: int) -> int:
    """The correlation id of the follower's outstanding request."""
    role = lab.partition(i).role
    assert isinstance(role, Follower)
    return role.outstanding


def answer(lab: Lab, i: int, *batches: Batch, hw: int = 0, error: ErrorCode = ErrorCode.NONE) -> None:
    """A leader's answer to the fetch of a follower."""
    epoch = lab.partition(i).leader_epoch
    lab.handle_event(i, Received(Address("b1"), FetchReply(asked_by(lab, i), T0, error, epoch, Offset(hw), batches)))


def append_stray(lab: Lab, i: int, *values: str) -> None:
    """Append records of the current epoch, which no other replica has, to a replica's log."""
    partition = lab.partition(i)
    log = partition.log
    lab.checks_rules = False  # no turn of the broker appended this
    batch = Batch(log.leo, partition.leader_epoch, values)
    log.batches.append(batch)
    epoch_cache.assign(log.epochs, batch.leader_epoch, batch.base_offset)
    log.leo = Offset(log.leo + len(values))
    lab.disks[i].logs[T0].append(batch)


# --- logs and their epochs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "values"), [(True, ["a", "b", "c"]), (False, ["a", "a", "b", "c"])])
def test_follower_drops_the_part_of_a_batch_it_already_has(check: bool, values: list[str]) -> None:
    """B-03, KAFKA-3919: if the whole batch is appended, offsets go backwards within the log."""
    lab = with_switches(append_check=check)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a",)))
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a", "b", "c")))

    assert lab.values(2) == values
    assert lab.partition(2).log.leo == 3


@pytest.mark.parametrize(("record", "values"), [(True, []), (False, ["stray"])])
def test_leader_records_its_epoch_start_before_any_append(record: bool, values: list[str]) -> None:
    """B-09, KAFKA-7415: otherwise it cannot say where the epoch before ended, and followers keep stray records."""
    lab = with_switches(3, record_epoch_start=record)
    append_stray(lab, 2, "stray")
    crash_and_expire(lab, 3)  # the next epoch

    assert lab.values(2) == values


@pytest.mark.parametrize(("recheck", "values"), [(True, ["x"]), (False, [])])
def test_follower_ignores_epoch_end_reply_of_an_old_request(recheck: bool, values: list[str]) -> None:
    """B-10, KAFKA-7786: the reply of an earlier epoch would truncate records of this one."""
    lab = with_switches(3, epoch_end_recheck=recheck)
    lab.produce(1, "x")
    lab.settle()
    lab.is_held = carries(EpochEndReply)
    crash_and_expire(lab, 3)
    lab.handle_event(2, Received(Address("b1"), EpochEndReply(10_000, T0, ErrorCode.NONE, LeaderEpoch(0), Offset(0))))

    assert lab.values(2) == values


@pytest.mark.parametrize(("strict", "end"), [(True, 10), (False, 3)])
def test_epoch_cache_replaces_an_empty_epoch_by_an_earlier_one(strict: bool, end: int) -> None:
    """B-11, KAFKA-10706: the replica led in epoch 5 and wrote nothing, then fetched records of epoch 4 from another leader."""
    entries = [EpochStart(LeaderEpoch(5), Offset(3))]
    epoch_cache.assign(entries, LeaderEpoch(4), Offset(3), strict=strict)

    assert epoch_cache.end_by_kip279(entries, LeaderEpoch(4), Offset(10)) == (4, end)


def test_follower_epoch_cache_obeys_the_protocol_variant() -> None:
    """B-11: the switch reaches the log of a follower."""
    for name, epochs in (("safe", [0]), ("epoch-cache-lazy", [5])):
        lab = cluster_in_sync(name)
        lab.partition(2).log.epochs[:] = [EpochStart(LeaderEpoch(5), Offset(0))]
        answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("a",)))

        assert [entry.epoch for entry in lab.partition(2).log.epochs] == epochs


@pytest.mark.parametrize(("resets", "values"), [(False, ["x"]), (True, [])])
def test_follower_out_of_range_truncates_by_epoch(resets: bool, values: list[str]) -> None:
    """B-16, KAFKA-2143: a follower that resets to empty loses its records, and may become leader a moment later."""
    lab = with_switches(out_of_range_resets=resets)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)))
    answer(lab, 2, error=ErrorCode.OFFSET_OUT_OF_RANGE)

    assert lab.values(2) == values


# --- truncation while fetching (KIP-595) -----------------------------------------------------------------------------------


def test_follower_truncates_by_the_answer_to_its_fetch() -> None:
    """KIP-595, U-01: truncation=fetch needs no EpochEnd request; the logs are equal in the end."""
    lab = with_switches(3, truncation="fetch")
    lab.produce(1, "a")
    lab.settle()
    append_stray(lab, 2, "stray", "more")
    crash_and_expire(lab, 3)
    lab.produce(1, "b", correlation=2)
    lab.settle()
    lab.wait(1000)

    assert lab.values(1) == lab.values(2) == ["a", "b"]


@pytest.mark.parametrize(("counted", "hw"), [(False, 0), (True, 1)])
def test_diverging_follower_does_not_advance_the_hw(counted: bool, hw: int) -> None:
    """B-12, KAFKA-13141: its fetch offset is the end of other records."""
    lab = with_switches(truncation="fetch", leo_of_diverging=counted)
    lab.is_held = carries(receiver="b2")
    lab.in_flight.clear()
    lab.produce(1, "x")
    incarnation = lab.nodes[2].state.broker.incarnation
    epoch = lab.partition(1).leader_epoch
    asking = Fetch(99, T0, BrokerId(2), incarnation, epoch, Offset(1), Millis(100), 10, last_epoch=LeaderEpoch(7))
    lab.handle_event(1, Received(Address("b2"), asking))
    replies = [
        message.diverging for _, _, message in lab.in_flight if isinstance(message, FetchReply) and message.correlation == 99
    ]

    assert replies == [Diverging(LeaderEpoch(0), Offset(1))]
    assert lab.partition(1).hw == hw


@pytest.mark.parametrize(("early", "seen"), [(False, []), (True, [1])])
def test_follower_truncates_before_it_adopts_the_hw(early: bool, seen: list[int]) -> None:
    """B-13, KAFKA-14704: otherwise records about to be truncated look committed for a moment."""
    lab = with_switches(truncation="fetch", hw_of_diverging=early)
    append_stray(lab, 2, "stray")
    lab.notes.clear()
    reply = FetchReply(
        asked_by(lab, 2), T0, ErrorCode.NONE, LeaderEpoch(0), Offset(1), diverging=Diverging(LeaderEpoch(0), Offset(0))
    )
    lab.handle_event(2, Received(Address("b1"), reply))

    assert [note.hw for i, note in lab.notes if i == 2 and note.kind == "hw"] == seen
    assert lab.values(2) == []


@pytest.mark.parametrize(("name", "refused"), [("safe", True), ("kip320-first-try", False), ("no-fetch-fencing", False)])
def test_fetch_of_an_older_leader_epoch_is_fenced(name: str, refused: bool) -> None:
    """B-06, B-14, U-12: a known last epoch does not show that the follower follows in the current one."""
    lab = cluster_in_sync(name)
    crash_and_expire(lab, 3)
    lab.produce(1, "x")
    reply = fetch(lab, 1, 0, replica=2, epoch=0)

    assert (reply is not None and reply.error is ErrorCode.FENCED_LEADER_EPOCH) is refused


def logs_after_alternating_leaders(variant: Variant) -> tuple[list[str], list[str]]:
    """The schedule of B-05: two replicas lead alone in turns, then both are up; returns both logs."""
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
        crash_and_expire(lab, i)

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


def test_logs_are_equal_after_unclean_elections() -> None:
    """B-05: they lose records, as acks=1 allows, but logs must not differ; with KIP-101 alone they do."""
    first_log, second_log = logs_after_alternating_leaders(replace(SAFE, unclean_election=True))
    assert first_log == second_log

    first_log, second_log = logs_after_alternating_leaders(replace(VARIANTS["kip101"], unclean_election=True))
    assert first_log != second_log


# --- high watermark --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clamp", "hw"), [(True, 1), (False, 9)])
def test_follower_hw_does_not_exceed_its_leo(clamp: bool, hw: int) -> None:
    """U-03, B-20: as a leader it would treat records as committed that no replica has."""
    lab = with_switches(hw_clamp=clamp)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)), hw=9)

    assert lab.partition(2).hw == hw


@pytest.mark.parametrize(("monotone", "hw"), [(True, 1), (False, 0)])
def test_hw_does_not_decrease_within_an_epoch(monotone: bool, hw: int) -> None:
    """U-04: a reordered answer, or a lagging replica that joins, would take back records that clients have read."""
    lab = with_switches(hw_monotone=monotone)
    answer(lab, 2, Batch(Offset(0), LeaderEpoch(0), ("x",)), hw=1)
    answer(lab, 2, hw=0)

    assert lab.partition(2).hw == hw


# --- controllers and registrations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "resigned"), [("safe", True), ("no-zk-guard", False)])
def test_controller_resigns_when_the_epoch_has_moved(name: str, resigned: bool) -> None:
    """B-44, U-08, KAFKA-6082: it may have been paused while another controller replaced it."""
    lab = cluster_in_sync(name)
    lab.zk.submit(lab.admin, (SetData(paths.CONTROLLER_EPOCH, b"7", -1),))
    lab.notes.clear()
    crash_and_expire(lab, 3)

    assert ("controller-resigned" in [note.kind for _, note in lab.notes]) is resigned


@pytest.mark.parametrize(
    ("name", "error"), [("safe", ErrorCode.STALE_CONTROLLER_EPOCH), ("no-controller-epoch-check", ErrorCode.NONE)]
)
def test_leader_and_isr_of_an_older_controller_is_refused(name: str, error: ErrorCode) -> None:
    """B-45, U-08, KAFKA-1188: the command was sent before the controller was replaced."""
    lab = cluster_in_sync(name)
    crash_and_expire(lab, 1)
    broker = lab.nodes[3].state.broker
    assert broker.controller_epoch == 2
    lab.in_flight.clear()
    late_command = LeaderAndIsr(5, BrokerId(1), ControllerEpoch(1), broker.incarnation, init=False, states=(lab.state(),))
    lab.handle_event(3, Received(Address("b1"), late_command))

    assert [message.error for _, to, message in lab.in_flight if to == "b1" and isinstance(message, LeaderAndIsrReply)] == [error]


@pytest.mark.parametrize(("persist", "epochs"), [(True, (1, 2)), (False, (1, 1))])
def test_each_controller_gets_its_own_controller_epoch(persist: bool, epochs: tuple[int, int]) -> None:
    """B-46: a controller that counts by itself would reuse the epoch of another one."""
    lab = with_switches(3, controller_epoch_persist=persist, zk_guard=persist)
    first = lab.nodes[1].state.controller.epoch
    crash_and_expire(lab, 1)

    assert (first, lab.nodes[2].state.controller.epoch) == epochs


@pytest.mark.parametrize(("name", "standing"), [("safe", [1]), ("controller-outlives-its-session", [])])
def test_controller_may_be_elected_again_after_session_expiry(name: str, standing: list[int]) -> None:
    """B-46, KAFKA-4360: otherwise the cluster has no controller if the last one does not stand for election again."""
    lab = Lab(1, variant=VARIANTS[name])
    lab.expire(1)
    lab.settle()
    lab.wait(3000)

    assert controllers(lab) == standing


@pytest.mark.parametrize(("early", "role"), [(False, Follower), (True, Idle)])
def test_repeated_leader_and_isr_completes_the_role_change(early: bool, role: type) -> None:
    """B-56, KAFKA-9307: the session ended in the middle of it; the same command must not be ignored as old."""
    lab = with_switches(3, epoch_before_transition=early)
    lab.partition(3).role = Idle()
    lab.checks_rules = False  # no turn of the broker gave the role up
    send_leader_and_isr(lab, 3, next_state(lab, 1, epoch_up=0))

    assert isinstance(lab.partition(3).role, role)


@pytest.mark.parametrize(("known", "changed"), [(True, [T0]), (False, [])])
def test_controller_detects_a_restart_between_two_reads(known: bool, changed: list[str]) -> None:
    """B-47, U-20, KAFKA-1120: the same broker ids are registered, one with another incarnation."""
    lab = cluster_in_sync("safe" if known else "no-broker-incarnation")
    node = lab.nodes[1].state
    bounced = tuple(LiveBroker(b.broker, Incarnation(b.incarnation + 100 * (b.broker == 3))) for b in node.controller.live)
    turn = Turn(Now(Millis(0), Millis(0)), node.ids, node.config, node.broker.incarnation)
    broker_change.on_broker_change(turn, node.controller, bounced)

    assert list(node.controller.changes) == changed


@pytest.mark.parametrize(("name", "error"), [("safe", ErrorCode.STALE_BROKER_EPOCH), ("no-broker-incarnation", ErrorCode.NONE)])
def test_leader_and_isr_for_an_old_incarnation_is_refused(name: str, error: ErrorCode) -> None:
    """B-48, U-09, KIP-380: the command was meant for a process that has ended."""
    lab = cluster_in_sync(name)
    broker = lab.nodes[3].state.broker
    lab.in_flight.clear()
    late_command = LeaderAndIsr(
        5, BrokerId(1), broker.controller_epoch, Incarnation(broker.incarnation - 1), init=False, states=(lab.state(),)
    )
    lab.handle_event(3, Received(Address("b1"), late_command))

    assert [message.error for _, to, message in lab.in_flight if to == "b1" and isinstance(message, LeaderAndIsrReply)] == [error]


def test_parked_produce_fails_when_the_leader_epoch_changes() -> None:
    """B-27, KAFKA-1148: another record may have taken the offset meanwhile."""
    for name, errors in (("safe", [ErrorCode.NOT_LEADER_OR_FOLLOWER]), ("no-purgatory-epoch-check", [])):
        lab = cluster_in_sync(name)
        lab.is_held = lambda envelope: envelope.receiver in ("b2", "b3")
        lab.produce(1, "x")
        lab.settle()
        send_leader_and_isr(lab, 1, next_state(lab, 2))

        assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == errors
        assert not isinstance(lab.partition(1).role, Leader)


def test_parked_requests_of_a_disconnected_client_are_dropped() -> None:
    """A client may ask for a wait of weeks, reconnect and ask again; requests of other clients and of followers stay."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: envelope.receiver in ("b2", "b3")
    assert fetch(lab, 1, 0) is None  # c9
    for gone in ("c8", "b2", "c9"):
        lab.handle_event(1, ConnectionLost(Address(gone)))
    fetchers = [parked.source for parked in lab.partition(1).fetches]
    lab.produce(1, "x")  # c1
    lab.handle_event(1, ConnectionLost(Address("c8")))
    producers = [parked.source for parked in lab.partition(1).produces]
    lab.handle_event(1, ConnectionLost(Address("c1")))

    assert (fetchers, producers) == (["b2", "b3"], ["c1"])
    assert lab.partition(1).produces == []


@pytest.mark.parametrize("fenced", [True, False])
def test_late_stop_replica_of_an_old_epoch_deletes_nothing(fenced: bool) -> None:
    """B-52, U-10, KIP-570: without an epoch of its own, a late StopReplica deletes a replica that was assigned again."""
    lab = with_switches(3, stop_replica_epoch=fenced)
    send_leader_and_isr(lab, 3, next_state(lab, 2, epoch_up=4))
    broker = lab.nodes[3].state.broker
    stops = (StopPartition(T0, LeaderEpoch(1)),)
    lab.handle_event(3, Received(Address("b2"), StopReplica(78, BrokerId(2), broker.controller_epoch, broker.incarnation, stops)))

    assert (T0 in broker.partitions) is fenced


@pytest.mark.parametrize(("deletes", "there"), [(False, True), (True, False)])
def test_incomplete_first_leader_and_isr_deletes_no_replica(deletes: bool, there: bool) -> None:
    """B-53, U-11: a controller that read only a part, or was deposed, would delete all other logs on every broker."""
    lab = with_switches(3, init_deletes=deletes)
    send_leader_and_isr(lab, 3, init=True)

    assert (T0 in lab.nodes[3].state.broker.partitions) is there


@pytest.mark.parametrize(
    ("behind", "error"),
    [(None, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.FENCED_LEADER_EPOCH), (-1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_epoch_end_request_without_epoch_is_not_fenced(behind: int | None, error: ErrorCode) -> None:
    """KIP-320: a current leader epoch of -1 means none; any other epoch than the leader's is refused."""
    lab = cluster_in_sync("safe")
    crash_and_expire(lab, 3)
    lab.produce(1, "x")
    lab.settle()
    epoch = lab.partition(1).leader_epoch
    current = NO_EPOCH if behind is None else LeaderEpoch(epoch - behind)
    lab.handle_event(1, Received(Address("c1"), EpochEnd(7, T0, BrokerId(-1), current, epoch)))
    lab.settle()
    (reply,) = [reply_found for reply_found in lab.client_replies if isinstance(reply_found, EpochEndReply)]

    assert (reply.error, reply.end_offset) == (error, 1 if error is ErrorCode.NONE else None)
