"""Claims of V3 outside of its procedures: state, messages, overview and discussions, by requirement number."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, Variant
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep, Offline
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, Data, Exists, SetData
from reference.effects import AnyEffect, Send, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied
from reference.messages import (
    Fetch,
    FetchReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
)
from reference.replica.partition import Follower, Leader
from reference.types import NO_EPOCH, Address, BrokerId, LeaderEpoch, topic_partition
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import (
    OTHER,
    add_topic,
    cluster_in_sync,
    crash_and_expire,
    fetch,
    isr_member,
    live_brokers,
    next_state,
    partition_state,
    send_leader_and_isr,
)


class Watched(Lab):
    """Records the requests of each broker to ZooKeeper, and its messages."""

    asked: list[tuple[int, tuple[AnyOp, ...]]]
    sent: list[tuple[int, str, object]]

    def _perform(self, i: int, effect: AnyEffect) -> None:
        if isinstance(effect, ZkRequest) and hasattr(self, "asked"):
            self.asked.append((i, effect.ops))
        if isinstance(effect, Send) and hasattr(self, "sent"):
            self.sent.append((i, effect.to, effect.message))
        super()._perform(i, effect)


def watched_cluster(brokers: int = 3, *, partitions: int = 1) -> Watched:
    """A `Watched` cluster at rest: all brokers are in the ISR of every partition of `t`, and b1 leads all."""
    lab = Watched(brokers, start=False)
    replicas = tuple(BrokerId(i) for i in range(1, brokers + 1))
    lab.zk.submit(lab.admin, (SetData(paths.topic_path("t"), paths.topic_payload((replicas,) * partitions), 0),))
    for i in lab.ids:
        lab.start(i)
    lab.settle()
    lab.wait(3000)
    lab.asked, lab.sent = [], []
    return lab


def state_writes(lab: Watched) -> list[tuple[int, SetData]]:
    return [(i, op) for i, ops in lab.asked for op in ops if isinstance(op, SetData) and op.path.endswith("/state")]


# --- messages --------------------------------------------------------------------------------------------------------------


def test_leader_and_isr_reply_has_an_error_for_each_partition() -> None:
    """R-013: a partition with an older epoch is refused, the others are obeyed."""
    lab = cluster_in_sync()
    new, old = next_state(lab, 1, tp=OTHER), next_state(lab, 2, epoch_up=-1)
    reply = send_leader_and_isr(lab, 3, new, old)

    assert reply.errors == ((OTHER, ErrorCode.NONE), (T0, ErrorCode.FENCED_LEADER_EPOCH))
    assert sorted(lab.nodes[3].state.broker.partitions) == [OTHER, T0]


def test_leader_and_isr_lists_all_partitions_in_one_message() -> None:
    """R-017, R-025, R-042, R-156: direct RPC with all partitions together, not a queue in ZooKeeper."""
    lab = watched_cluster(partitions=4)
    create_request(lab, paths.topic_path("u"), paths.topic_payload((tuple(BrokerId(i) for i in lab.ids),)))
    crash_and_expire(lab, 1)
    commands = [(to, message) for i, to, message in lab.sent if i == 2 and isinstance(message, LeaderAndIsr) and message.init]

    assert sorted(to for to, _ in commands) == ["b2", "b3"]
    assert [len(message.states) for _, message in commands] == [5, 5]


def test_refused_partition_does_not_stop_the_others() -> None:
    """R-013, R-080, R-082: each command of a request is processed independently; each replica has an epoch of its own."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 2)
    assert lab.partition(3).leader_epoch > 0
    old = next_state(lab, 2, epoch_up=-1)
    new = replace(next_state(lab, 2, tp=topic_partition("u", 0)), leader_epoch=LeaderEpoch(0))
    reply = send_leader_and_isr(lab, 3, old, new)

    assert reply.errors == ((T0, ErrorCode.FENCED_LEADER_EPOCH), (new.tp, ErrorCode.NONE))
    assert isinstance(lab.nodes[3].state.broker.partitions[new.tp].role, Follower)
    epoch = lab.partition(3).leader_epoch
    send_leader_and_isr(lab, 3, replace(new, leader_epoch=LeaderEpoch(99)))
    assert lab.partition(3).leader_epoch == epoch


def test_unanswered_leader_and_isr_is_repeated_after_timeout() -> None:
    """R-017, R-077: the controller's timeout finds brokers that do not answer; what came since goes with it."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    crash_and_expire(lab, 2)
    first = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, LeaderAndIsr)]
    add_topic(lab, "other", 1, 3)
    lab.fire(1, "channel:3")
    both = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, LeaderAndIsr)]

    assert (len(first), len(both)) == (1, 2)
    assert [state.tp for state in both[1].states] == [OTHER, T0]
    assert both[1].states[1:] == first[0].states


# --- elections -------------------------------------------------------------------------------------------------------------


def test_election_ignores_live_replicas_outside_the_isr() -> None:
    """R-021, R-144: only members of the ISR have all committed records."""
    choice = leader_selection.select(SAFE, partition_state(1, (1, 3)), live_brokers(2, 3))

    assert choice == Elect(isr_member(3), (isr_member(3),))


@pytest.mark.parametrize(
    ("unclean", "replicas", "expected"),
    [
        (True, (1, 3, 2), Elect(isr_member(3), (isr_member(3),))),
        (True, (1, 2, 3), Elect(isr_member(2), (isr_member(2),))),
        (False, (1, 3, 2), Offline((isr_member(1),))),
    ],
)
def test_dead_isr_is_replaced_only_with_unclean_election_enabled(
    unclean: bool, replicas: tuple[int, ...], expected: object
) -> None:
    """R-022, R-145, C-15, U-02: the first live replica of AR leads (data may be lost), or none does."""
    state = replace(partition_state(1, (1,)), replicas=tuple(map(BrokerId, replicas)))

    variant, live = Variant(unclean_election=unclean), live_brokers(2, 3)

    assert leader_selection.select(variant, state, live) == expected
    assert leader_selection.select(variant, replace(state, leader=None), live) == (expected if unclean else Keep())


@pytest.mark.parametrize(("empty", "isr"), [(False, (isr_member(1),)), (True, ())])
def test_isr_is_kept_when_no_replica_is_live(empty: bool, isr: tuple[object, ...]) -> None:
    """R-023, U-18, B-57 (KAFKA-708): with an empty ISR the controller forgets its members, and later elections are unclean."""
    assert leader_selection.select(Variant(empty_isr=empty), partition_state(1, (1,)), live_brokers()) == Offline(isr)  # type: ignore[arg-type]  # members


# --- controller and brokers ------------------------------------------------------------------------------------------------


def test_every_broker_watches_the_controller_znode() -> None:
    """R-040: one watch for each broker, whatever the number of partitions; the first to create the znode is controller."""
    lab = cluster_in_sync()
    fired = lab.zk.expire(lab.sessions[1])
    of = [session for session, path, _ in fired if path == paths.CONTROLLER]

    assert sorted(of) == sorted(lab.sessions[i] for i in (2, 3))


def test_leader_death_fires_only_controller_and_broker_watches() -> None:
    """R-146: brokers watch only the controller and the list of brokers, so the death of a leader causes no herd effect."""
    lab = watched_cluster(partitions=5)
    lab.crash(1)
    fired = lab.zk.expire(lab.sessions[1])

    # b1 was the controller, too, and had the only watch on the list of brokers
    assert [path for _, path, _ in fired] == [paths.CONTROLLER] * 2


def test_no_broker_watches_the_state_of_a_partition() -> None:
    """R-146: a watch on every partition would overload ZooKeeper; brokers hear of a leader from the controller."""
    lab = watched_cluster(partitions=5)
    crash_and_expire(lab, 3)
    lab.is_held = carries(Fetch, sender="b3")
    lab.start(3)  # it reads all states, which stay as they are
    lab.settle()
    watches = {**lab.zk.data_watches, **lab.zk.child_watches}

    assert len(lab.nodes[3].state.broker.partitions) == 5
    assert paths.CONTROLLER in watches
    assert [path for path in watches if path.startswith(f"{paths.TOPICS}/")] == []


@pytest.mark.parametrize("variant", ["safe", "v3", "article"])
def test_only_one_contender_becomes_controller(variant: str) -> None:
    """R-146: b2 and b3 both find no /controller; the first to create it elects, so that no two brokers do."""
    lab = cluster_in_sync(variant)
    lab.notes = []
    lab.crash(1)
    lab.is_handling = True
    lab.expire(1)
    lab.is_handling = False
    lab.handle_event(*lab.events.pop())  # the watches of both are on their way when the first of them looks
    lab.settle()

    assert {i for i, note in lab.notes if note.kind == "controller-elected"} == {2}
    assert [lab.nodes[i].state.controller.step for i in (2, 3)] == ["active", "watching"]
    assert len(lab.leaders()) == 1


def test_next_controller_repeats_undelivered_commands() -> None:
    """R-044: a command that was lost with the controller comes again with INIT."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr, sender="b1")
    crash_and_expire(lab, 3)
    missed = lab.state().leader_epoch
    assert lab.partition(2).leader_epoch < missed
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    crash_and_expire(lab, 1)

    assert lab.partition(2).leader_epoch > missed


def test_isr_change_is_conditional_and_keeps_the_leader() -> None:
    """R-065, R-004, R-005: every write is conditional, and a leader leaves leader and epoch as they are."""
    lab = watched_cluster()
    before = lab.state()
    lab.is_held = carries(Fetch, sender="b3")
    lab.produce(1, "x")
    lab.wait(9000)
    ((writer, op),) = state_writes(lab)
    after = lab.state()

    assert (writer, op.version) == (1, before.zk_version)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert [member.broker for member in after.isr] == [1, 2]


def test_restarted_broker_reads_missed_changes_from_zookeeper() -> None:
    """R-066, R-070: ZooKeeper is the truth; commands to a broker that is down may be lost."""
    lab = watched_cluster(partitions=2)
    create_request(lab, paths.topic_path("u"), paths.topic_payload((tuple(BrokerId(i) for i in lab.ids),)))
    lab.wait(1000)
    crash_and_expire(lab, 3)
    crash_and_expire(lab, 1)
    lab.is_held = carries(LeaderAndIsr)
    lab.start(3)
    lab.settle()
    roles = {tp: partition.role for tp, partition in lab.nodes[3].state.broker.partitions.items()}

    assert {tp: role.leader for tp, role in roles.items() if isinstance(role, Follower)} == {"t-0": 2, "t-1": 2, "u-0": 2}
    assert lab.partition(3).leader_epoch == lab.state().leader_epoch


def test_failover_costs_one_write_per_partition() -> None:
    """R-067, R-155: and one message for each live broker; the dead broker held replicas of six partitions."""
    lab = watched_cluster(4, partitions=6)
    crash_and_expire(lab, 3)
    lab.asked.clear()
    lab.sent.clear()
    lab.wait(100)  # no work is left
    assert state_writes(lab) == []
    lab.start(3)
    lab.settle()
    lab.wait(3000)
    lab.asked.clear()
    lab.sent.clear()
    crash_and_expire(lab, 2)
    writes = [op.path for i, op in state_writes(lab) if i == 1]
    commands = [to for i, to, message in lab.sent if i == 1 and isinstance(message, LeaderAndIsr)]

    assert sorted(writes) == sorted(set(writes))
    assert len(writes) == 6
    assert sorted(commands) == ["b1", "b3", "b4"]


class Slow(Watched):
    """ZooKeeper answers b1 in rounds: a round answers all requests that were open when it began."""

    def __init__(self, brokers: int) -> None:
        self.waiting: list[ZkRequest] | None = None
        super().__init__(brokers, start=False)

    def _perform(self, i: int, effect: AnyEffect) -> None:
        if i == 1 and isinstance(effect, ZkRequest) and self.waiting is not None:
            self.waiting.append(effect)
        else:
            super()._perform(i, effect)

    def rounds(self) -> int:
        """Answer until no request is left; returns the number of rounds."""
        count = 0
        while self.waiting:
            zk_requests, self.waiting = self.waiting, None
            later: list[ZkRequest] = []
            for request in zk_requests:
                answers, fired = self.zk.submit(self.sessions[1], request.ops, atomic=request.atomic)
                self.waiting = later
                self.handle_event(1, ZkReplied(request.id, answers))
                self.deliver_watches(fired)
            count += 1
        return count


@pytest.mark.parametrize("partitions", [1, 8])
def test_failover_writes_are_sent_in_parallel(partitions: int) -> None:
    """R-068: at 4 ms each, 10 000 sequential writes take 40 s; here all are in flight at once."""
    lab = Slow(3)
    replicas = tuple(BrokerId(i) for i in (1, 2, 3))
    lab.zk.submit(lab.admin, (SetData(paths.topic_path("t"), paths.topic_payload((replicas,) * partitions), 0),))
    for i in lab.ids:
        lab.start(i)
    lab.settle()
    lab.wait(3000)
    lab.crash(2)
    lab.waiting = []
    lab.expire(2)

    assert lab.rounds() == 4  # the list of brokers, their registrations, the states, the writes
    assert lab.isr() == [1, 3]


def test_leader_and_isr_costs_one_message_and_one_answer() -> None:
    """R-069, R-156: through a queue in ZooKeeper it would cost two writes, a watch and a read."""
    lab = watched_cluster()
    crash_and_expire(lab, 3)
    commands = [message for i, to, message in lab.sent if i == 1 and to == "b2" and isinstance(message, LeaderAndIsr)]
    answers = [message for i, to, message in lab.sent if i == 2 and to == "b1" and isinstance(message, LeaderAndIsrReply)]

    assert (len(commands), len(answers)) == (1, 1)
    assert [ops for i, ops in lab.asked if i == 2] == []


# --- two leaders -----------------------------------------------------------------------------------------------------------


def two_leaders() -> Lab:
    """b1 is cut off from ZooKeeper and the controller, and another broker has replaced it as leader."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    lab.is_held = carries(LeaderAndIsr, receiver="b1")
    lab.expire(1)
    lab.settle()
    return lab


def test_only_the_leader_in_zookeeper_commits() -> None:
    """R-072: two leaders append; the followers fetch from the new one only."""
    lab = two_leaders()
    old, new = lab.leaders()
    lab.produce(old, "old", correlation=8)
    lab.produce(new, "new", correlation=9)
    lab.settle()
    lab.wait(900)
    acknowledged = [
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    ]

    assert "old" in lab.values(old)
    assert acknowledged == [9]
    assert lab.partition(old).hw == 0


def test_replaced_leader_cannot_shrink_its_isr() -> None:
    """R-071, R-076: its write is conditional on a version that the controller's write has replaced."""
    lab = two_leaders()
    lab.cut_off_from_zk.discard(1)
    before = lab.state()
    lab.sessions[1] = lab.zk.connect(timeout_ms=6000)  # its earlier write, over a connection that still works
    lab.produce(1, "old")
    lab.wait(9000)
    after = lab.state()

    role = lab.partition(1).role
    assert isinstance(role, Leader)
    assert role.change is not None
    assert role.change.step == "superseded"
    assert (after.leader, after.zk_version) == (before.leader, before.zk_version)
    assert lab.partition(1).hw == 0


def test_controller_writes_zookeeper_before_it_sends_commands() -> None:
    """R-076: otherwise the old leader could remove the new one from the ISR before the new one leads."""
    lab = Slow(3)
    for i in lab.ids:
        lab.start(i)
    lab.settle()
    lab.wait(3000)
    lab.sent = []
    lab.asked = []
    lab.crash(2)
    lab.waiting = []
    lab.expire(2)
    for _ in range(3):  # the brokers, their registrations, the state; then the write is in flight
        zk_requests, lab.waiting = lab.waiting, []
        for request in zk_requests:
            answers, _ = lab.zk.submit(lab.sessions[1], request.ops, atomic=request.atomic)
            lab.handle_event(1, ZkReplied(request.id, answers))
    told_of = [message.states[0].leader_epoch for _, _, message in lab.sent if isinstance(message, LeaderAndIsr)]
    assert told_of == []
    lab.rounds()
    lab.waiting = None
    lab.settle()

    assert [message.states[0].leader_epoch for _, _, message in lab.sent if isinstance(message, LeaderAndIsr)] == [
        lab.state().leader_epoch
    ] * 2


@pytest.mark.parametrize("up", [-1, 0])
def test_leader_ignores_leader_and_isr_of_no_later_epoch(up: int) -> None:
    """R-080: its role begins again only with a larger epoch."""
    lab = cluster_in_sync()
    role = lab.partition(1).role
    state = next_state(lab, 1, epoch_up=up)
    send_leader_and_isr(lab, 1, replace(state, isr=state.isr[:1]))

    assert lab.partition(1).role == role
    send_leader_and_isr(lab, 1, next_state(lab, 2, epoch_up=up))
    assert isinstance(lab.partition(1).role, Leader)


@pytest.mark.parametrize("up", [-1, 0])
def test_follower_ignores_leader_and_isr_of_no_later_epoch(up: int) -> None:
    """R-080: reordered commands end with the latest."""
    lab = cluster_in_sync()
    before = lab.partition(3).leader_epoch
    send_leader_and_isr(lab, 3, next_state(lab, 2, epoch_up=up))
    role = lab.partition(3).role

    assert lab.partition(3).leader_epoch == before
    assert isinstance(role, Follower)
    assert role.leader == 1


# --- leading and fetching --------------------------------------------------------------------------------------------------


def test_new_leader_ignores_a_late_fetch_reply() -> None:
    """R-034, R-035, R-071: the records are not appended; ISR and version are those of the command."""
    lab = cluster_in_sync()
    lab.is_held = carries(FetchReply, receiver="b3")
    lab.produce(1, "x")
    lab.settle()
    (late_reply,) = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, FetchReply)]
    state_told = next_state(lab, 3)
    send_leader_and_isr(lab, 3, state_told)
    lab.handle_event(3, Received(Address("b1"), late_reply))
    role = lab.partition(3).role

    assert isinstance(role, Leader)
    assert (role.isr, role.zk_version) == (state_told.isr, state_told.zk_version)
    assert lab.values(3) == []


@pytest.mark.parametrize(("between", "error"), [("empty", None), ("out_of_range", ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_consumer_above_the_hw_of_a_new_leader_waits(between: str, error: ErrorCode | None) -> None:
    """R-036, R-078: the new leader cannot know yet that the offset is valid; only beyond the log end it is out of range."""
    lab = Lab(3, variant=replace(SAFE, fetch_between_hw_leo=between))
    lab.wait(3000)
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x", "y")
    lab.settle()
    reply = fetch(lab, 1, 1)
    beyond = fetch(lab, 1, 3)

    assert (None if reply is None else reply.error) == error
    assert beyond is not None
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_followers_hold_records_in_the_leaders_order() -> None:
    """R-131: every follower fetches one log in its order."""
    lab = cluster_in_sync()
    for values in ("ab", "c", "de"):
        lab.produce(1, *values, correlation=ord(values[0]))
    lab.settle()
    lab.wait(600)

    assert lab.values(1) == lab.values(2) == lab.values(3) == list("abcde")


def test_isr_change_takes_effect_only_after_the_write() -> None:
    """R-059: otherwise the leader would commit with an ISR that no election uses."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    lab.is_held = carries(Fetch, sender="b3")
    lab.produce(1, "x")
    lab.wait(9000)
    role = lab.partition(1).role

    assert isinstance(role, Leader)
    assert role.change is not None
    assert [member.broker for member in role.isr] == [1, 2, 3]
    assert lab.partition(1).hw == 0


@pytest.mark.parametrize(("look", "isr"), [("timer", [1]), ("fetch", [1, 2])])
def test_leader_needs_a_timer_to_notice_the_last_silent_follower(look: str, isr: list[int]) -> None:
    """R-060, U-15: if the leader checks only at a fetch, it never notices that the last follower is silent."""
    lab = Lab(2, variant=replace(SAFE, isr_shrink=look))
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b2")
    lab.produce(1, "x")
    lab.wait(20_000)

    assert lab.isr() == isr


def test_follower_below_the_hw_does_not_join_the_isr() -> None:
    """R-058, C-07, U-05: by V3's letter any lagging replica would join."""
    for rule, isr in (("epoch_start", [1]), ("hw_only", [1]), ("v3_literal", [1, 2])):
        lab = Lab(2, variant=replace(SAFE, isr_join=rule))
        crash_and_expire(lab, 2)
        lab.produce(1, "x")
        lab.is_held = carries(FetchReply)
        lab.start(2)
        lab.wait(1000)

        assert lab.isr() == isr


@pytest.mark.parametrize(("rule", "isr"), [("last_change", [1]), ("caught_up", [1, 2])])
def test_v3_follower_many_records_behind_leaves_the_isr(rule: str, isr: list[int]) -> None:
    """R-057, R-062, C-09: V3 counts records and the time since the LEO moved; `safe` only the time since it was caught up."""
    lab = Lab(2, variant=replace(SAFE, lag_rule=rule))
    lab.configs = {i: replace(c, lag_max_records=3, fetch_max_records=1) for i, c in lab.configs.items()}
    for i in lab.ids:
        lab.nodes[i].state.config = lab.configs[i]
    lab.wait(3000)
    lab.is_held = carries(Fetch, sender="b2")
    lab.produce(1, *"abcdef")
    lab.fire(1, "isr")
    lab.settle()

    assert lab.isr() == isr


@pytest.mark.parametrize("rule", ["last_change", "caught_up", "last_fetch"])
def test_leader_never_removes_itself_from_the_isr(rule: str) -> None:
    """C-09: on an idle partition the leader's log does not move either."""
    lab = Lab(1, variant=replace(SAFE, lag_rule=rule))
    lab.wait(20_000)

    assert (lab.isr(), lab.leaders()) == ([1], [1])


def test_latest_offset_is_unavailable_until_the_hw_is_known() -> None:
    """R-036, B-22, KIP-207: after an election the HW may be below what another consumer has read."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    lab.is_held = carries(Fetch)
    crash_and_expire(lab, 1)
    lab.client_replies.clear()
    lab.handle_event(lab.leader(), Received(Address("c1"), ListOffsets(3, T0, NO_EPOCH)))
    (reply,) = [m for m in lab.client_replies if isinstance(m, ListOffsetsReply)]

    assert reply.error is ErrorCode.OFFSET_NOT_AVAILABLE


# --- requests in ZooKeeper -------------------------------------------------------------------------------------------------


def create_request(lab: Lab, path: str, payload: bytes = b"") -> None:
    """Create a request znode and its parents, as an administrator does."""
    parts = path.split("/")
    for depth in range(2, len(parts)):
        _, fired = lab.zk.submit(lab.admin, (Create("/".join(parts[:depth]), b""),))
        lab.deliver_watches(fired)
    _, fired = lab.zk.submit(lab.admin, (Create(path, payload),))
    lab.deliver_watches(fired)
    lab.settle()


def exists(lab: Lab, path: str) -> bool:
    (answer,), _ = lab.zk.submit(lab.admin, (Exists(path),))
    return isinstance(answer, Data)


def test_partition_is_added_and_removed_by_request_znodes() -> None:
    """R-007, R-008: the first names its replicas, the second has no value; the controller deletes them when done."""
    lab = cluster_in_sync()
    added = topic_partition("t", 1)
    create_request(lab, paths.partition_add_path(added), b"[3,2]")
    assert exists(lab, paths.state_path(added))
    assert not exists(lab, paths.partition_add_path(added))
    create_request(lab, paths.partition_remove_path(added))

    assert not exists(lab, paths.state_path(added))
    assert not exists(lab, paths.partition_remove_path(added))


def test_delete_topics_request_is_deleted_with_the_topics() -> None:
    """R-149: the list names three topics, one of which does not exist."""
    lab = cluster_in_sync()
    add_topic(lab, "a", 2)
    create_request(lab, paths.DELETE_TOPICS, b'{"version":1,"topics":["nowhere","t","a"]}')

    assert not any(exists(lab, paths.topic_path(topic)) for topic in ("a", "t"))
    assert not exists(lab, paths.DELETE_TOPICS)
    assert [i for i in lab.ids if lab.disks[i].logs] == []


def test_stop_replica_reply_has_an_error_for_each_partition() -> None:
    """R-014, R-015, R-039: an older epoch is refused; a partition that does not exist counts as stopped."""
    lab = cluster_in_sync()
    send_leader_and_isr(lab, 3, next_state(lab, 2, epoch_up=4))
    lab.in_flight.clear()
    broker = lab.nodes[3].state.broker
    stops = (StopPartition(T0, LeaderEpoch(1)), StopPartition(topic_partition("t", 7), LeaderEpoch(1)))
    lab.handle_event(3, Received(Address("b2"), StopReplica(78, BrokerId(2), broker.controller_epoch, broker.incarnation, stops)))
    (reply,) = [message for _, _, message in lab.in_flight if isinstance(message, StopReplicaReply)]

    assert reply.errors == ((T0, ErrorCode.FENCED_LEADER_EPOCH), (topic_partition("t", 7), ErrorCode.NONE))
