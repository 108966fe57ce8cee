"""What V3 says beside its procedures: state, messages, and the claims of its overview and discussions, by number."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, BrokerConfig, Variant
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Offline
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
    PartitionState,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
)
from reference.replica.partition import Follower, Leader, Partition
from reference.types import NO_EPOCH, Address, BrokerId, LeaderEpoch, topic_partition
from tests.reference.lab import T0, Lab
from tests.reference.test_v3 import add_topic, command, die, fetch, full, live, member, state, told


class Watched(Lab):
    """Remembers what each broker asked of ZooKeeper and of the others."""

    asked: list[tuple[int, tuple[AnyOp, ...]]]
    sent: list[tuple[int, str, object]]

    def _perform(self, i: int, effect: AnyEffect) -> None:
        if isinstance(effect, ZkRequest) and hasattr(self, "asked"):
            self.asked.append((i, effect.ops))
        if isinstance(effect, Send) and hasattr(self, "sent"):
            self.sent.append((i, effect.to, effect.message))
        super()._perform(i, effect)


def watched(brokers: int = 3, *, partitions: int = 1) -> Watched:
    """All in the ISR of every partition of `t`, b1 leading all; from here on remembered."""
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


# --- state and messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("struct", "fields"),
    [
        (Partition, {"tp", "log", "hw", "role", "replicas"}),
        (Leader, {"isr", "zk_version"}),
        (LeaderAndIsr, {"controller", "init", "states"}),
        (PartitionState, {"tp", "leader", "leader_epoch", "isr", "zk_version"}),
        (LeaderAndIsrReply, {"errors"}),
        (Fetch, {"tp", "replica", "offset"}),
        (FetchReply, {"hw", "batches"}),
    ],
)
def test_state_and_messages_have_the_fields_of_the_document(struct: type, fields: set[str]) -> None:
    """R-009, R-010, R-011, R-012, R-013, R-016: what one of them lacked could not be said (the timeout is the channel's)."""
    assert fields <= set(struct.__struct_fields__)  # type: ignore[attr-defined]  # a Struct


def test_the_answer_to_a_command_has_a_code_for_each_partition() -> None:
    """R-013: one that is behind is told so, the others are obeyed."""
    lab = full()
    old = told(lab, 2, epoch_up=-1)
    reply = command(lab, 3, old)

    assert reply.errors == ((T0, ErrorCode.FENCED_LEADER_EPOCH),)


def test_commands_go_to_each_broker_in_one_message() -> None:
    """R-017, R-025, R-156: direct RPC with all partitions together, not a queue in ZooKeeper."""
    lab = watched(partitions=4)
    die(lab, 1)
    commands = [(to, m) for i, to, m in lab.sent if i == 2 and isinstance(m, LeaderAndIsr) and m.init]

    assert sorted(to for to, _ in commands) == ["b2", "b3"]
    assert [len(m.states) for _, m in commands] == [4, 4]


def test_a_command_without_an_answer_runs_into_the_timeout_and_is_sent_again() -> None:
    """R-017, R-077: whoever takes too long is found out by the controller's timeout."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b3" and isinstance(letter[2], LeaderAndIsr)
    die(lab, 2)
    first = [m for _, to, m in lab.letters if to == "b3" and isinstance(m, LeaderAndIsr)]
    lab.fire(1, "channel:3")
    both = [m for _, to, m in lab.letters if to == "b3" and isinstance(m, LeaderAndIsr)]

    assert (len(first), len(both)) == (1, 2)
    assert both[1].states == first[0].states


# --- choosing --------------------------------------------------------------------------------------------------------------


def test_the_leader_and_the_isr_come_from_the_live_isr() -> None:
    """R-021, R-144: whoever is elected has all that is committed, since only members of the ISR are."""
    choice = leader_selection.select(SAFE, state(1, (1, 3)), live(2, 3))

    assert choice == Elect(member(3), (member(3),))


@pytest.mark.parametrize(("unclean", "expected"), [(True, Elect(member(2), (member(2),))), (False, Offline((member(1),)))])
def test_a_dead_isr_is_waited_for_or_passed_over_as_the_switch_says(unclean: bool, expected: object) -> None:
    """R-022, R-145, C-15, U-02: the first live replica leads (data may be lost), or none does."""
    variant = Variant(unclean_election=unclean)

    assert leader_selection.select(variant, state(1, (1,)), live(2, 3)) == expected


@pytest.mark.parametrize(("empty", "isr"), [(False, (member(1),)), (True, ())])
def test_with_nobody_alive_the_leader_is_none_and_the_isr_is_kept(empty: bool, isr: tuple[object, ...]) -> None:
    """R-023, U-18, B-57 (KAFKA-708): an empty ISR forgets whom to wait for, and every later election is unclean."""
    assert leader_selection.select(Variant(empty_isr=empty), state(1, (1,)), live()) == Offline(isr)  # type: ignore[arg-type]  # members


# --- controller and brokers ------------------------------------------------------------------------------------------------


def test_every_broker_watches_for_the_end_of_the_controller() -> None:
    """R-040: one watch for each broker, whatever the number of partitions; who wakes up first leads all."""
    lab = full()
    fired = lab.zk.expire(lab.sessions[1])
    of = [session for session, path, _ in fired if path == paths.CONTROLLER]

    assert sorted(of) == sorted(lab.sessions[i] for i in (2, 3))


def test_one_controller_elects_and_no_replica_watches_its_partition() -> None:
    """R-146: nothing but the controller and the list of brokers is watched, so the death of a leader wakes no herd."""
    lab = watched(partitions=5)
    lab.crash(1)
    fired = lab.zk.expire(lab.sessions[1])

    assert {path for _, path, _ in fired} <= {paths.CONTROLLER, paths.BROKER_IDS}
    assert len(fired) <= len(lab.ids) + 2


def test_what_a_dead_controller_did_not_deliver_is_delivered_by_the_next() -> None:
    """R-044: a command that was lost with the controller comes again with INIT."""
    lab = full()
    lab.held = lambda letter: letter[0] == "b1" and isinstance(letter[2], LeaderAndIsr)
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    missed = lab.state().leader_epoch
    assert lab.partition(2).leader_epoch < missed
    lab.letters.clear()
    lab.held = lambda _: False
    die(lab, 1)

    assert lab.partition(2).leader_epoch > missed


def test_the_controller_alone_changes_leaders_and_the_leader_its_isr() -> None:
    """R-065, R-004, R-005: every write is conditional, and a leader leaves leader and epoch as they are."""
    lab = watched()
    before = lab.state()
    lab.held = lambda letter: letter[0] == "b3" and isinstance(letter[2], Fetch)
    lab.produce(1, "x")
    lab.wait(9000)
    ((writer, op),) = state_writes(lab)
    after = lab.state()

    assert (writer, op.version) == (1, before.zk_version)
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert [m.broker for m in after.isr] == [1, 2]


def test_a_broker_that_was_away_learns_from_zookeeper_what_it_missed() -> None:
    """R-066, R-070: ZooKeeper is the truth; a command to a broker that is down is lost, and need not be kept."""
    lab = full()
    die(lab, 3)
    die(lab, 1)
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    lab.start(3)
    lab.settle()
    role = lab.partition(3).role

    assert isinstance(role, Follower)
    assert (role.leader, lab.partition(3).leader_epoch) == (2, lab.state().leader_epoch)


def test_a_failover_costs_one_write_for_each_partition_and_one_message_for_each_broker() -> None:
    """R-067: the broker that died led six partitions."""
    lab = watched(4, partitions=6)
    die(lab, 3)
    lab.asked.clear()
    lab.sent.clear()
    lab.wait(100)  # nothing is left over
    assert state_writes(lab) == []
    lab.start(3)
    lab.settle()
    lab.wait(3000)
    lab.asked.clear()
    lab.sent.clear()
    die(lab, 2)
    writes = [op.path for i, op in state_writes(lab) if i == 1]
    commands = [to for i, to, m in lab.sent if i == 1 and isinstance(m, LeaderAndIsr)]

    assert sorted(writes) == sorted(set(writes))
    assert len(writes) == 6
    assert set(commands) == {"b1", "b3", "b4"}


class Slow(Watched):
    """ZooKeeper takes its time with what b1 asks: all that is asked while it does is answered in one round."""

    def __init__(self, brokers: int) -> None:
        self.waiting: list[ZkRequest] | None = None
        super().__init__(brokers, start=False)

    def _perform(self, i: int, effect: AnyEffect) -> None:
        if i == 1 and isinstance(effect, ZkRequest) and self.waiting is not None:
            self.waiting.append(effect)
        else:
            super()._perform(i, effect)

    def rounds(self) -> int:
        """Answer until nothing is asked any more; how often that took."""
        count = 0
        while self.waiting:
            asked, self.waiting = self.waiting, None
            later: list[ZkRequest] = []
            for request in asked:
                answers, fired = self.zk.submit(self.sessions[1], request.ops, atomic=request.atomic)
                self.waiting = later
                self.tell(1, ZkReplied(request.id, answers))
                self.watches(fired)
            count += 1
        return count


@pytest.mark.parametrize("partitions", [1, 8])
def test_the_writes_of_a_failover_do_not_wait_for_one_another(partitions: int) -> None:
    """R-068: with 4 ms for each of 10 000 writes one after the other takes 40 s; here they are all under way at once."""
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


def test_a_command_costs_one_message_and_one_answer() -> None:
    """R-069: through a queue in ZooKeeper it would cost two writes, a watch and a read."""
    lab = watched()
    die(lab, 3)
    commands = [m for i, to, m in lab.sent if i == 1 and to == "b2" and isinstance(m, LeaderAndIsr)]
    answers = [m for i, to, m in lab.sent if i == 2 and to == "b1" and isinstance(m, LeaderAndIsrReply)]

    assert (len(commands), len(answers)) == (1, 1)
    assert [ops for i, ops in lab.asked if i == 2] == []


# --- two leaders -----------------------------------------------------------------------------------------------------------


def two_leaders() -> Lab:
    """b1 stands still for ZooKeeper and the controller, and has been replaced by b2."""
    lab = full()
    lab.muted.add(1)
    lab.held = lambda letter: letter[1] == "b1" and isinstance(letter[2], LeaderAndIsr)
    lab.expire(1)
    lab.settle()
    return lab


def test_of_two_leaders_only_the_one_in_zookeeper_commits() -> None:
    """R-072: both append; the old one's followers have left it."""
    lab = two_leaders()
    assert lab.leaders() == [1, 2]
    lab.produce(1, "old", correlation=8)
    lab.produce(2, "new", correlation=9)
    lab.settle()
    lab.wait(900)
    acknowledged = [m.correlation for m in lab.inbox if isinstance(m, ProduceReply) and m.error is ErrorCode.NONE]

    assert "old" in lab.values(1)
    assert acknowledged == [9]
    assert lab.partition(1).hw == 0


def test_a_leader_that_was_replaced_cannot_shrink_its_isr() -> None:
    """R-071, R-076: its write is conditional on a version that the controller's has passed."""
    lab = two_leaders()
    lab.muted.discard(1)
    before = lab.state()
    lab.sessions[1] = lab.zk.connect(timeout_ms=6000)  # what was sent before the end, over a connection that lives
    lab.produce(1, "old")
    lab.wait(9000)
    after = lab.state()

    role = lab.partition(1).role
    assert isinstance(role, Leader)
    assert role.change is not None
    assert role.change.step == "superseded"
    assert (after.leader, after.zk_version) == (2, before.zk_version)
    assert lab.partition(1).hw == 0


def test_zookeeper_is_written_before_anybody_is_told() -> None:
    """R-076: else the old leader could take the new one out of the ISR before the new one leads."""
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
    for _ in range(3):  # the brokers, their registrations, the state; the write is under way
        asked, lab.waiting = lab.waiting, []
        for request in asked:
            answers, _ = lab.zk.submit(lab.sessions[1], request.ops, atomic=request.atomic)
            lab.tell(1, ZkReplied(request.id, answers))
    told_of = [m.states[0].leader_epoch for _, _, m in lab.sent if isinstance(m, LeaderAndIsr)]
    assert told_of == []
    lab.rounds()
    lab.waiting = None
    lab.settle()

    assert [m.states[0].leader_epoch for _, _, m in lab.sent if isinstance(m, LeaderAndIsr)] == [lab.state().leader_epoch] * 2


@pytest.mark.parametrize("up", [-1, 0])
def test_a_replica_follows_only_a_later_epoch(up: int) -> None:
    """R-080: commands that overtook each other end with the latest."""
    lab = full()
    before = lab.partition(3).leader_epoch
    command(lab, 3, told(lab, 2, epoch_up=up))
    role = lab.partition(3).role

    assert lab.partition(3).leader_epoch == before
    assert isinstance(role, Follower)
    assert role.leader == 1


# --- leading and fetching --------------------------------------------------------------------------------------------------


def test_a_new_leader_takes_nothing_more_from_the_old_one() -> None:
    """R-034, R-035: an answer that was under way is not appended, and ISR and version are those of the command."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b3" and isinstance(letter[2], FetchReply)
    lab.produce(1, "x")
    lab.settle()
    (late,) = [m for _, to, m in lab.letters if to == "b3" and isinstance(m, FetchReply)]
    state_told = told(lab, 3)
    command(lab, 3, state_told)
    lab.tell(3, Received(Address("b1"), late))
    role = lab.partition(3).role

    assert isinstance(role, Leader)
    assert (role.isr, role.zk_version) == (state_told.isr, state_told.zk_version)
    assert lab.values(3) == []


@pytest.mark.parametrize(("between", "error"), [("empty", None), ("out_of_range", ErrorCode.OFFSET_OUT_OF_RANGE)])
def test_a_consumer_above_the_high_watermark_of_a_new_leader_waits(between: str, error: ErrorCode | None) -> None:
    """R-036, R-078: what it asks for is valid though the new leader cannot know it; out of range is what the log lacks."""
    lab = Lab(3, variant=replace(SAFE, fetch_between_hw_leo=between))
    lab.wait(3000)
    lab.held = lambda letter: letter[1] == "b3"
    lab.produce(1, "x", "y")
    lab.settle()
    reply = fetch(lab, 1, 1)
    beyond = fetch(lab, 1, 3)

    assert (None if reply is None else reply.error) == error
    assert beyond is not None
    assert beyond.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_only_the_leader_answers_a_fetch() -> None:
    """R-055, R-131: a follower's log may hold what is never committed."""
    lab = full()
    for i in (2, 3):
        reply = fetch(lab, i, 0)

        assert reply is not None
        assert reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_hold_the_records_in_the_order_of_the_leader() -> None:
    """R-131: they pull one after the other from one log."""
    lab = full()
    for value in "abcde":
        lab.produce(1, value, correlation=ord(value))
    lab.settle()
    lab.wait(600)

    assert lab.values(1) == lab.values(2) == lab.values(3) == list("abcde")


def test_an_isr_counts_only_once_zookeeper_has_it() -> None:
    """R-059: a leader that believed in its wish would commit with an ISR that nobody elects from."""
    lab = full()
    lab.muted.add(1)
    lab.held = lambda letter: letter[0] == "b3" and isinstance(letter[2], Fetch)
    lab.produce(1, "x")
    lab.wait(9000)
    role = lab.partition(1).role

    assert isinstance(role, Leader)
    assert role.change is not None
    assert [m.broker for m in role.isr] == [1, 2, 3]
    assert lab.partition(1).hw == 0


@pytest.mark.parametrize(("look", "isr"), [("timer", [1]), ("fetch", [1, 2])])
def test_somebody_looks_for_followers_that_are_silent(look: str, isr: list[int]) -> None:
    """R-060, U-15: where only a fetch makes the leader look, the last follower that falls silent is never found out."""
    lab = Lab(2, variant=replace(SAFE, isr_shrink=look))
    lab.wait(3000)
    lab.held = lambda letter: letter[0] == "b2" and isinstance(letter[2], Fetch)
    lab.produce(1, "x")
    lab.wait(20_000)

    assert lab.isr() == isr


def test_a_follower_below_the_high_watermark_stays_outside() -> None:
    """R-058, C-07, U-05: to V3's letter any replica that is behind would join."""
    for rule, isr in (("epoch_start", [1]), ("hw_only", [1]), ("v3_literal", [1, 2])):
        lab = Lab(2, variant=replace(SAFE, isr_join=rule))
        lab.crash(2)
        lab.expire(2)
        lab.settle()
        lab.produce(1, "x")
        lab.held = lambda letter: isinstance(letter[2], FetchReply)
        lab.start(2)
        lab.wait(1000)

        assert lab.isr() == isr


@pytest.mark.parametrize(("rule", "isr"), [("last_change", [1]), ("caught_up", [1, 2])])
def test_the_one_that_is_too_many_messages_behind_leaves(rule: str, isr: list[int]) -> None:
    """R-057, C-09: V3 counts messages and the time since the log end moved; `safe` only the time since it had everything."""
    lab = Lab(2, variant=replace(SAFE, lag_rule=rule))
    lab.configs = {i: replace(c, lag_max_records=3, fetch_max_records=1) for i, c in lab.configs.items()}
    for i in lab.ids:
        lab.nodes[i].state.config = lab.configs[i]
    lab.wait(3000)
    lab.held = lambda letter: letter[0] == "b2" and isinstance(letter[2], Fetch)
    lab.produce(1, *"abcdef")
    lab.fire(1, "isr")
    lab.settle()

    assert lab.isr() == isr


@pytest.mark.parametrize("rule", ["last_change", "caught_up", "last_fetch"])
def test_a_leader_never_takes_itself_out_of_the_isr(rule: str) -> None:
    """C-09: on an idle partition the leader is as silent as everybody."""
    lab = Lab(1, variant=replace(SAFE, lag_rule=rule))
    lab.wait(20_000)

    assert (lab.isr(), lab.leaders()) == ([1], [1])


def test_limits_of_lag_and_intervals_are_configuration() -> None:
    """R-062: V3 names them and gives no numbers."""
    names = {"lag_max_records", "replica_lag_time_max_ms", "checkpoint_interval_ms", "fetch_max_records"}

    assert names <= set(BrokerConfig.__struct_fields__)


def test_a_latest_offset_is_not_told_before_it_is_known() -> None:
    """R-036, B-22, KIP-207: right after an election the high watermark may lie below what another consumer has read."""
    lab = full()
    lab.produce(1, "x")
    lab.settle()
    lab.held = lambda letter: isinstance(letter[2], Fetch)
    die(lab, 1)
    lab.inbox.clear()
    lab.tell(2, Received(Address("c1"), ListOffsets(3, T0, NO_EPOCH)))
    (reply,) = [m for m in lab.inbox if isinstance(m, ListOffsetsReply)]

    assert reply.error is ErrorCode.OFFSET_NOT_AVAILABLE


# --- what is asked for in ZooKeeper ----------------------------------------------------------------------------------------


def asked_for(lab: Lab, path: str, payload: bytes = b"") -> None:
    """An administrator writes a request, and the nodes above it."""
    parts = path.split("/")
    for depth in range(2, len(parts)):
        _, fired = lab.zk.submit(lab.admin, (Create("/".join(parts[:depth]), b""),))
        lab.watches(fired)
    _, fired = lab.zk.submit(lab.admin, (Create(path, payload),))
    lab.watches(fired)
    lab.settle()


def exists(lab: Lab, path: str) -> bool:
    (answer,), _ = lab.zk.submit(lab.admin, (Exists(path),))
    return isinstance(answer, Data)


def test_a_partition_is_added_and_removed_by_a_node_that_goes_when_it_is_done() -> None:
    """R-007, R-008: the first names its replicas, the second has no value."""
    lab = full()
    added = topic_partition("t", 1)
    asked_for(lab, paths.partition_add_path(added), b"[3,2]")
    assert exists(lab, paths.state_path(added))
    assert not exists(lab, paths.partition_add_path(added))
    asked_for(lab, paths.partition_remove_path(added))

    assert not exists(lab, paths.state_path(added))
    assert not exists(lab, paths.partition_remove_path(added))


def test_a_request_to_delete_topics_goes_with_the_topics() -> None:
    """R-149: the list names two, one of which is not there."""
    lab = full()
    asked_for(lab, paths.DELETE_TOPICS, b'{"version":1,"topics":["nowhere","t"]}')

    assert not exists(lab, paths.topic_path("t"))
    assert not exists(lab, paths.DELETE_TOPICS)
    assert [i for i in lab.ids if lab.disks[i].logs] == []


def test_the_controller_keeps_the_list_of_topics() -> None:
    """R-026: what is new and what is gone is told by the difference."""
    lab = full()
    add_topic(lab, "other", 2, 3)

    assert lab.nodes[1].state.controller.topics == ("other", "t")


def test_a_stop_is_answered_with_a_code_for_each_partition() -> None:
    """R-014, R-015: the one that was overtaken is refused, the one that is not there is stopped already."""
    lab = full()
    command(lab, 3, told(lab, 2, epoch_up=4))
    lab.letters.clear()
    broker = lab.nodes[3].state.broker
    stops = (StopPartition(T0, LeaderEpoch(1)), StopPartition(topic_partition("t", 7), LeaderEpoch(1)))
    lab.tell(3, Received(Address("b2"), StopReplica(78, BrokerId(2), broker.controller_epoch, broker.incarnation, stops)))
    (reply,) = [m for _, _, m in lab.letters if isinstance(m, StopReplicaReply)]

    assert reply.errors == ((T0, ErrorCode.FENCED_LEADER_EPOCH), (topic_partition("t", 7), ErrorCode.NONE))
