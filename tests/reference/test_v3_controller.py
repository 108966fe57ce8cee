"""What the controller reads, writes and sends in V3 §A, §B and §D, as recorded."""

import json

import pytest

from reference.config import SAFE, V3, VARIANTS, Variant
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep, Offline
from reference.coordination import paths
from reference.coordination.api import Create, Delete, GetData, SetData
from reference.effects import Send
from reference.messages import Fetch, LeaderAndIsr, StopReplica, UpdateMetadata
from reference.types import BrokerId, TopicPartition, topic_partition
from tests.reference.lab import T0, Lab, carries
from tests.reference.moving import broker_ids, write, znode_data
from tests.reference.recorded import STATE, LateAnswers, Recorded, settled_cluster, shrink
from tests.reference.v3 import crash_and_expire, isr_member, live_brokers, partition_state


def create_topic(lab: Lab, topic: str, *assignment: tuple[int, ...]) -> None:
    """Create a topic as an administrator does."""
    write(lab, Create(paths.topic_path(topic), paths.topic_payload(tuple(broker_ids(*replicas) for replicas in assignment))))


def delete_topic_znodes(lab: Lab, topic: str, *, partitions: int) -> None:
    """Delete a topic's znodes as an administrator does."""
    for index in range(partitions):
        tp = topic_partition(topic, index)
        lab.zk.submit(lab.admin, (Delete(paths.state_path(tp)), Delete(paths.state_parents(tp)[1])))
    write(lab, Delete(paths.state_parents(topic_partition(topic, 0))[0]), Delete(paths.topic_path(topic)))


def stopped(lab: Recorded) -> list[tuple[str, tuple[TopicPartition, ...]]]:
    """Which broker was told to stop which replicas, by broker."""
    return sorted((to, tuple(stop.tp for stop in m.partitions)) for _, to, m in lab.sent(StopReplica) if m.controller == 1)


# --- A: failover during broker failure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_controller_sees_each_registration_and_each_death(variant: str) -> None:
    """R-018: the watch of /brokers/ids is set again after it has fired."""
    lab = settled_cluster(variant, brokers=5)
    broker_sets = []
    for i in (5, 4):
        crash_and_expire(lab, i)
        broker_sets.append([b.broker for b in lab.nodes[1].state.controller.live])
    lab.start(5)
    lab.settle()

    assert broker_sets == [[1, 2, 3, 4], [1, 2, 3]]
    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 3, 5]


def test_brokers_list_partitions_in_order_however_they_came() -> None:
    """The checkpoint, the metadata for clients and the fetchers are written in this order: it must not tell the history."""
    lab = settled_cluster("safe")
    for topic in ("u", "s", "v"):
        create_topic(lab, topic, (1, 2, 3), (2, 3, 1))
        lab.wait(2000)

    expected = sorted(topic_partition(topic, index) for topic in ("s", "u", "v") for index in (0, 1))
    for broker in (lab.nodes[i].state.broker for i in (1, 2, 3)):
        assert [tp for tp in broker.metadata if tp != T0] == expected
        assert [tp for tp in broker.partitions if tp != T0] == expected
        assert list(broker.metadata) == sorted(broker.metadata)
        assert list(broker.partitions) == sorted(broker.partitions)


def test_broker_that_comes_while_the_list_is_read_is_seen() -> None:
    """R-018: the answer on its way does not name b4, and its registration is the last event."""
    lab = LateAnswers(5, variant=V3)
    for i in (1, 2, 3, 5):
        lab.start(i)
        lab.settle()
    lab.late, lab.answers = paths.BROKER_IDS, []
    crash_and_expire(lab, 5)
    lab.start(4)
    lab.settle()
    assert len(lab.answers) == 1
    lab.answer_now()

    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 3, 4]
    crash_and_expire(lab, 4)  # that read has set the watch again
    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 3]
    lab.late, lab.answers = f"{paths.BROKER_IDS}/", []
    crash_and_expire(lab, 3)
    lab.start(4)  # the names are read, and their registrations on the way
    lab.settle()
    assert len(lab.answers) == 1
    lab.answer_now()
    assert [b.broker for b in lab.nodes[1].state.controller.live] == [1, 2, 4]


def test_topic_that_comes_while_the_list_is_read_is_seen() -> None:
    """R-026: the answer on its way does not name w; the read that follows sets the watch again, which shows x."""
    lab = LateAnswers(4, variant=V3)
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.late, lab.answers = paths.TOPICS, []
    for topic in ("u", "w"):
        create_topic(lab, topic, (3, 2))
    assert len(lab.answers) == 1
    lab.answer_now()
    seen = lab.nodes[1].state.controller.topics
    create_topic(lab, "x", (3, 2))

    assert (seen, lab.nodes[1].state.controller.topics) == (("t", "u", "w"), ("t", "u", "w", "x"))


def test_death_of_a_broker_without_replicas_reads_no_state() -> None:
    """R-019: a partition is not in set_p if neither its leader nor its ISR changes."""
    lab = settled_cluster("safe", brokers=5)
    crash_and_expire(lab, 5)

    assert [i for i, op in lab.log if isinstance(op, GetData) and op.path == STATE] == []


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_dead_leader_is_replaced_by_a_live_isr_member(variant: str) -> None:
    """R-019, R-021: its partition is in set_p; the new ISR is what of the old one is alive."""
    lab = settled_cluster(variant)
    crash_and_expire(lab, 2)

    assert (lab.state().leader, lab.isr()) == (3, [3, 4])


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_isr_loses_a_dead_follower(variant: str) -> None:
    """R-019, R-021: the leader stays, and the partition is in set_p because its ISR changes."""
    lab = settled_cluster(variant)
    crash_and_expire(lab, 3)

    assert (lab.state().leader, lab.isr()) == (2, [2, 4])


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_each_partition_of_a_dead_broker_changes(variant: str) -> None:
    """R-019: those that it led and those that it followed, of all topics."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (3, 2), (2, 3), (4, 3))
    crash_and_expire(lab, 3)

    assert [lab.leader(topic_partition("u", i)) for i in range(3)] == [2, 2, 4]
    assert (lab.state().leader, lab.isr()) == (2, [2, 4])


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_each_partition_of_two_dead_brokers_changes(variant: str) -> None:
    """R-019: the controller sees both deaths in one read of the list; each of the two held a partition without the other."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (2, 3), (2, 4))
    lab.crash(3)
    lab.crash(4)
    lab.deliver_watches([*lab.zk.expire(lab.sessions[3]), *lab.zk.expire(lab.sessions[4])])
    lab.settle()

    assert [lab.isr(tp) for tp in (T0, topic_partition("u", 0), topic_partition("u", 1))] == [[2], [2], [2]]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_that_dies_during_an_election_is_noticed(variant: str) -> None:
    """R-019: while the write after the death of b4 is on its way, b3 dies."""
    lab = settled_cluster(variant)
    lab.delays_write = lambda i, _: i == 1
    for i in (4, 3):
        crash_and_expire(lab, i)
    lab.release_writes()
    lab.settle()

    assert lab.isr() == [2]


def test_unclean_leader_is_an_assigned_replica() -> None:
    """R-022: one of the live brokers in AR, alone in the ISR; brokers 4 and 5 hold no replica."""
    state_found = partition_state(1, (1,))

    assert leader_selection.select(V3, state_found, live_brokers(3, 4, 5)) == Elect(isr_member(3), (isr_member(3),))
    assert leader_selection.select(V3, state_found, live_brokers(4, 5)) == Offline((isr_member(1),))


@pytest.mark.parametrize("variant", [SAFE, V3])
def test_leader_in_the_isr_is_no_unclean_election(variant: Variant) -> None:
    """R-021, R-022: live replicas outside the ISR change nothing while one of its members is alive."""
    assert leader_selection.select(variant, partition_state(1, (1,)), live_brokers(1, 2, 3)) == Keep()


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_partition_without_live_replicas_has_leader_minus_one(variant: str) -> None:
    """R-023, R-025: the state znode says so, in a new epoch; b1 stays controller, and without a replica it gets no command."""
    lab = settled_cluster(variant)
    for i in (4, 3):
        crash_and_expire(lab, i)
    before = lab.state().leader_epoch
    crash_and_expire(lab, 2)
    found = json.loads(znode_data(lab, STATE) or b"")

    assert (found["leader"], found["leader_epoch"]) == (-1, before + 1)
    assert lab.state().leader is None
    assert {to for _, to, _ in lab.sent(LeaderAndIsr)} == {"b2", "b3"}


@pytest.mark.parametrize(("variant", "leader", "isr"), [("v3", 3, [3]), ("safe", None, [2])])
def test_v3_partition_is_led_by_whoever_returns(variant: str, leader: int | None, isr: list[int]) -> None:
    """R-022, C-15: b3 returns, and the last member of the ISR, b2, does not; `safe` waits for b2."""
    lab = settled_cluster(variant)
    for i in (4, 3, 2):
        crash_and_expire(lab, i)
    lab.start(3)
    lab.settle()

    assert (lab.state().leader, lab.isr()) == (leader, isr)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_every_election_writes_the_next_epoch(variant: str) -> None:
    """R-012, R-024: with another leader and with the same one, with none and with the first one after that."""
    lab = settled_cluster(variant)
    epochs = [lab.state().leader_epoch]
    for i in (4, 2, 3):
        crash_and_expire(lab, i)
        epochs.append(lab.state().leader_epoch)
    lab.start(3)
    lab.settle()

    assert lab.leader() == 3
    assert [*epochs, lab.state().leader_epoch] == [epochs[0] + n for n in range(5)]


@pytest.mark.parametrize("variant", ["safe", "isr-via-zookeeper", "v3"])
def test_command_carries_leader_isr_and_version_of_its_write(variant: str) -> None:
    """R-012, R-025: to each replica that is alive. A leader needs the version for its next ISR change."""
    lab = settled_cluster(variant)
    crash_and_expire(lab, 4)
    now = lab.state()
    state_by_receiver = {
        to: (state.leader, state.isr, state.leader_epoch, state.zk_version)
        for _, to, message in lab.sent(LeaderAndIsr)
        for state in message.states
    }

    assert state_by_receiver == dict.fromkeys(["b2", "b3"], (now.leader, now.isr, now.leader_epoch, now.zk_version))


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_only_the_first_command_of_a_controller_has_the_flag(variant: str) -> None:
    """R-011, R-042: isInit says whether this is the first command issued by a controller."""
    lab = settled_cluster(variant)
    crash_and_expire(lab, 4)
    lab.start(4)  # nor is the first command to a broker that comes later the first one of the controller
    lab.settle()
    later = {(to, message.controller, message.init) for _, to, message in lab.sent(LeaderAndIsr)}
    senders = {message.controller for _, _, message in lab.sent(UpdateMetadata)}
    lab.clear_record()
    crash_and_expire(lab, 1)
    first = {to: (message.controller, message.init) for _, to, message in reversed(lab.sent(LeaderAndIsr))}

    assert (later, senders) == ({("b2", 1, False), ("b3", 1, False), ("b4", 1, False)}, {1})
    assert {to: first[to] for to in ("b2", "b3")} == {"b2": (2, True), "b3": (2, True)}


# --- B: creating and deleting topics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_controller_keeps_a_list_of_topics(variant: str) -> None:
    """R-026: the watch of /brokers/topics is set again after it has fired."""
    lab = settled_cluster(variant)
    topics_seen = [lab.nodes[1].state.controller.topics]
    for topic in ("u", "w"):
        create_topic(lab, topic, (2, 3))
        topics_seen.append(lab.nodes[1].state.controller.topics)
    delete_topic_znodes(lab, "u", partitions=1)
    topics_seen.append(lab.nodes[1].state.controller.topics)
    partitions = sorted(lab.nodes[1].state.controller.assignments)
    crash_and_expire(lab, 1)
    topics_seen.append(lab.nodes[2].state.controller.topics)

    assert topics_seen == [("t",), ("t", "u"), ("t", "u", "w"), ("t", "w"), ("t", "w")]
    assert partitions == ["t-0", "w-0"]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_topics_deleted_at_once_all_leave_the_list(variant: str) -> None:
    """R-026: the watch fires once for all of them."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (2, 3))
    create_topic(lab, "w", (2, 3))
    for tp in (topic_partition("u", 0), topic_partition("w", 0)):
        upper, lower = paths.state_parents(tp)
        lab.zk.submit(lab.admin, (Delete(paths.state_path(tp)), Delete(lower), Delete(upper)))
    write(lab, Delete(paths.topic_path("u")), Delete(paths.topic_path("w")))

    assert (lab.nodes[1].state.controller.topics, sorted(lab.nodes[1].state.controller.assignments)) == (("t",), [T0])
    delete_topic_znodes(lab, "t", partitions=1)  # no topic is left
    assert (lab.nodes[1].state.controller.topics, lab.nodes[1].state.controller.assignments) == ((), {})


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_each_partition_of_a_new_topic_gets_a_leader(variant: str) -> None:
    """R-027, R-029: a live replica leads, and all live replicas are the ISR; b4 is dead."""
    lab = settled_cluster(variant)
    crash_and_expire(lab, 4)
    lab.is_held = carries(Fetch)  # nobody joins the ISR by itself
    create_topic(lab, "u", (3, 2), (4, 2, 3), (2, 4))
    created = [topic_partition("u", i) for i in range(3)]

    assert [lab.leader(tp) in lab.isr(tp) for tp in created] == [True] * 3
    assert [lab.isr(tp) for tp in created] == [[2, 3], [2, 3], [2]]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_topics_created_at_once_all_get_leaders(variant: str) -> None:
    """R-027: the watch fires once for all of them."""
    lab = settled_cluster(variant)
    write(lab, *(Create(paths.topic_path(topic), paths.topic_payload((broker_ids(3, 2),))) for topic in ("u", "w", "x")))

    assert [len(lab.leaders(topic_partition(topic, 0))) for topic in ("u", "w", "x")] == [1, 1, 1]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_first_command_follows_the_first_state(variant: str) -> None:
    """R-029: while the creation of the state znode is on its way, no replica is told to lead or follow."""
    lab = settled_cluster(variant)
    lab.delays_write = lambda *_: True
    create_topic(lab, "u", (3, 2))
    early = lab.sent(LeaderAndIsr)
    lab.release_writes()
    lab.settle()

    assert early == []
    assert sorted(
        to for _, to, message in lab.sent(LeaderAndIsr) for state in message.states if state.tp == topic_partition("u", 0)
    ) == ["b2", "b3"]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_stop_replica_waits_for_the_command_in_flight(variant: str) -> None:
    """R-017, R-028: b3 has not answered the command that creates its replica when the topic is deleted."""
    lab = settled_cluster(variant)
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    create_topic(lab, "u", (3, 2))
    delete_topic_znodes(lab, "u", partitions=1)
    assert [to for _, to, message in lab.sent(StopReplica)] == ["b2"]
    lab.is_held = lambda _: False
    lab.settle()

    assert [to for _, to, message in lab.sent(StopReplica)] == ["b2", "b3"]
    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == []
    lab.is_held = carries(UpdateMetadata, receiver="b3")
    create_topic(lab, "w", (3, 2))
    delete_topic_znodes(lab, "w", partitions=1)
    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == [3]
    lab.is_held = lambda _: False
    lab.settle()  # nothing else reaches the controller
    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == []
    lab.is_held = carries(StopReplica, receiver="b3")
    for topic in ("x", "y"):
        create_topic(lab, topic, (3, 2))
    for topic in ("x", "y"):  # the second one waits for the first, which is lost
        delete_topic_znodes(lab, topic, partitions=1)
    lab.drop(carries(StopReplica, receiver="b3"))
    lab.is_held = lambda _: False
    lab.fire(1, "channel:3")
    lab.settle()

    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == []


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_deleted_topic_stops_each_of_its_replicas_at_once(variant: str) -> None:
    """R-014, R-017, R-028, R-039: one StopReplicaCommand for each affected broker, with all partitions; b1 hears nothing."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (3, 2), (2, 3), (3, 4))
    lab.clear_record()
    delete_topic_znodes(lab, "u", partitions=3)
    assert stopped(lab) == [("b2", ("u-0", "u-1")), ("b3", ("u-0", "u-1", "u-2")), ("b4", ("u-2",))]
    create_topic(lab, "w", (3, 2), (2, 3), (3, 4))
    lab.clear_record()
    write(lab, Create("/admin", b""), Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("w",))))

    assert stopped(lab) == [("b2", ("w-0", "w-1")), ("b3", ("w-0", "w-1", "w-2")), ("b4", ("w-2",))]
    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == []


@pytest.mark.parametrize("variant", ["isr-via-zookeeper", "v3"])
def test_deleted_topic_stops_each_assigned_replica(variant: str) -> None:
    """R-028: b3 and b4 joined the ISR by the leader's own writes, which the controller need not have read."""
    lab = settled_cluster(variant)
    delete_topic_znodes(lab, "t", partitions=1)

    assert sorted(to for _, to, _ in lab.sent(StopReplica)) == ["b2", "b3", "b4"]
    assert [i for i in lab.ids if lab.disks[i].logs] == []


def test_deleted_topic_stops_replicas_without_a_leader() -> None:
    """R-028: b3, the last in sync, is dead; b2 holds a replica of each partition and waits for it."""
    lab = settled_cluster("safe")
    create_topic(lab, "u", (3, 2), (3, 2))
    for i in (2, 3):
        crash_and_expire(lab, i)
    lab.start(2)
    lab.settle()
    assert [lab.state(topic_partition("u", i)).leader for i in range(2)] == [None, None]
    delete_topic_znodes(lab, "u", partitions=2)

    assert [tp for tp in lab.disks[2].logs if tp != T0] == []


# --- D: controller failure -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remains", [[T0], []])
@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_stop_replica_lost_with_the_controller_is_made_up_for(variant: str, remains: list[TopicPartition]) -> None:
    """R-044: the next controller lists what exists: with INIT in V3 (R-033), in the first full metadata in `safe`."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (3, 2))
    lab.is_held = carries(StopReplica)
    delete_topic_znodes(lab, "u", partitions=1)
    if not remains:
        delete_topic_znodes(lab, "t", partitions=1)
    assert [i for i in lab.ids for tp in lab.disks[i].logs if tp != T0] == [2, 3]
    lab.in_flight.clear()
    crash_and_expire(lab, 1)

    assert sorted({tp for i in lab.ids for tp in lab.disks[i].logs}) == remains


@pytest.mark.parametrize("variant", ["isr-via-zookeeper", "v3"])
def test_new_controller_tells_replicas_outside_the_isr(variant: str) -> None:
    """R-042: b4 is no member of the ISR, and one of the brokers of the partition all the same."""
    lab = settled_cluster(variant)
    lab.is_held = carries(Fetch, sender="b4")
    shrink(lab, 4)
    assert lab.isr() == [2, 3]
    lab.clear_record()
    crash_and_expire(lab, 1)
    first = next(message for _, to, message in lab.sent(LeaderAndIsr) if to == "b4")

    assert (first.init, [s.tp for s in first.states]) == (True, [T0])


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_init_without_an_answer_is_repeated_with_its_flag(variant: str) -> None:
    """R-042, R-044: the first command to b3 is lost, and with it what only INIT says."""
    lab = settled_cluster(variant)
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    crash_and_expire(lab, 1)
    lab.wait(lab.configs[2].request_timeout_ms)
    create_topic(lab, "u", (3, 2))
    lab.wait(lab.configs[2].request_timeout_ms)
    to_b3 = [(message.init, [state.tp for state in message.states]) for _, to, message in lab.sent(LeaderAndIsr) if to == "b3"]

    assert to_b3 == [(True, [T0]), (True, [T0]), (True, [T0, "u-0"])]


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_new_controller_sends_states_it_has_no_replica_of(variant: str) -> None:
    """R-042: it reads the state of every partition, and its first command to each replica has the state."""
    lab = Recorded(5, variant=VARIANTS[variant], replicas=(3, 4, 5))
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    lab.clear_record()
    crash_and_expire(lab, 1)
    first: dict[str, tuple[bool, tuple[TopicPartition, ...]]] = {}
    for i, step in lab.log:
        if i == 2 and isinstance(step, Send) and isinstance(step.message, LeaderAndIsr):
            first.setdefault(step.to, (step.message.init, tuple(s.tp for s in step.message.states)))

    assert first == {"b2": (True, ()), **{f"b{i}": (True, (T0,)) for i in (3, 4, 5)}}
    assert lab.nodes[2].state.controller.states[T0].leader == BrokerId(3)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_new_controller_tells_others_of_no_leaderless_partition(variant: str) -> None:
    """R-042: t-0 has no leader, and none of its replicas is alive; b3 hears of its own u-0 alone."""
    lab = Recorded(5, variant=VARIANTS[variant], replicas=(4, 5))
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    create_topic(lab, "u", (3, 2))
    for i in (4, 5):
        crash_and_expire(lab, i)
    assert lab.state().leader is None
    lab.clear_record()
    crash_and_expire(lab, 1)
    told = {to: {s.tp for s in message.states} for _, to, message in reversed(lab.sent(LeaderAndIsr)) if message.init}

    assert told == {"b2": {topic_partition("u", 0)}, "b3": {topic_partition("u", 0)}}


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_failover_writes_each_state_once(variant: str) -> None:
    """R-067: one write per partition, whoever guards it."""
    lab = settled_cluster(variant)
    create_topic(lab, "u", (3, 2))
    lab.clear_record()
    crash_and_expire(lab, 3)
    writes = [op.path for i, op in lab.log if i == 1 and isinstance(op, SetData) and op.path.endswith("/state")]

    assert sorted(writes) == sorted([STATE, paths.state_path(topic_partition("u", 0))])
