"""What an administrator asks for at the same time about the same partition (V3 §F, §H, KIP-236): one must not undo the other."""

from collections import deque

from reference.broker.broker import Assigned
from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, NoNode, SetData, Unknown
from reference.events import Received, ZkReplied
from reference.messages import UpdateMetadata
from reference.replica.partition import Follower
from reference.types import Address, BrokerId, ControllerEpoch, LeaderEpoch, topic_partition
from tests.reference.lab import T0, Lab
from tests.reference.moving import Mortal, cluster, data, holders, ids, write

T1 = topic_partition("t", 1)
DELETE = Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",)))
ADD = (
    Create(paths.PARTITIONS_ADD, b""),
    Create(f"{paths.PARTITIONS_ADD}/t", b""),
    Create(paths.partition_add_path(T1), paths.replicas_payload(ids(4, 5, 6))),
)


def _quietly(lab: Lab, op: AnyOp) -> None:
    lab.zk.submit(lab.admin, (op,))


def at_once(lab: Lab, *ops: AnyOp) -> None:
    """The controller hears of all of it before ZooKeeper answers its first question."""
    lab.busy = True
    _, fired = lab.zk.submit(lab.admin, ops)
    lab.watches(fired)
    lab.busy = False
    lab.tell(*lab.told.pop())
    lab.settle()
    lab.wait(10_000)


def test_who_is_assigned_while_its_topic_is_deleted_is_told_to_stop_as_well() -> None:
    """R-149, C-12: AR was widened after the deletion had read it. Whoever starts just then would keep a stray replica."""
    lab = cluster()
    assignment = paths.partitions_payload({T0: ids(1, 2, 3, 4)})
    lab.before[f"gone: {paths.topic_path('t')}"] = lambda: _quietly(lab, SetData(paths.topic_path("t"), assignment))
    write(lab, DELETE)
    lab.wait(10_000)

    assert "delete b4" in lab.steps
    assert data(lab, paths.topic_path("t")) is None


def test_a_partition_that_is_added_while_its_topic_is_deleted_goes_with_it() -> None:
    """R-063, R-149: nobody asks for ever for a leader of a partition whose topic is gone."""
    lab = cluster()
    for i in (1, 2, 3):
        lab.crash(i)
        lab.expire(i)
    lab.settle()
    at_once(lab, *ADD, DELETE)

    assert (holders(lab, T1), data(lab, paths.topic_path("t"))) == ([], None)
    assert data(lab, paths.partition_add_path(T1)) is None


def test_a_partition_that_is_added_once_more_while_it_is_deleted_is_not_told_to_anybody() -> None:
    """V3 §H on_partitions_add step 2: listed already, it would be made again by those who have just deleted it."""
    lab = cluster()
    write(lab, *ADD)
    lab.wait(1000)
    assert holders(lab, T1) == [4, 5, 6]
    lab.crash(1)
    write(lab, DELETE, *ADD)
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(10_000)

    assert (holders(lab), holders(lab, T1), data(lab, paths.topic_path("t"))) == ([], [], None)


def test_who_registers_right_before_a_topic_goes_is_told_afterwards() -> None:
    """V3 §E step 4, docs/promise.md LIVE-2: it has read its assignment, and would keep a replica of a topic that is no more."""
    lab = cluster()
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    lab.before[f"gone: {paths.topic_path('t')}"] = lambda: _start_now(lab, 3)
    write(lab, DELETE)
    lab.wait(3000)

    assert (holders(lab), data(lab, paths.topic_path("t"))) == ([], None)


def _start_now(lab: Lab, i: int) -> None:
    """In the middle of what another one does."""
    lab.busy = False
    lab.start(i)
    lab.busy = True
    assert lab.nodes[i].state.broker.registration == "registered"


def _erased_behind_the_back_of(i: int, protocol: str = "safe") -> Mortal:
    """A topic is erased by a controller that dies of it, right after this broker has registered and read of the topic."""
    lab = cluster(VARIANTS[protocol])
    lab.crash(i)
    lab.expire(i)
    lab.settle()

    def dies() -> None:
        _start_now(lab, i)
        lab.left = 1
        lab.held = lambda letter: letter[0] == "b1"

    lab.before[f"gone: {paths.topic_path('t')}"] = dies
    write(lab, DELETE)
    lab.letters = deque(letter for letter in lab.letters if letter[0] != "b1")
    lab.held = lambda letter: False
    assert (lab.dead, data(lab, paths.topic_path("t")), holders(lab)) == (1, None, [i])
    return lab


def test_a_replica_of_which_the_next_controller_does_not_know_is_deleted() -> None:
    """V3 §E step 4, R-046: the controller died between erasing the topic and telling who had registered meanwhile."""
    lab = _erased_behind_the_back_of(3)
    lab.bury(1)

    assert holders(lab) == []
    assert _erased_behind_the_back_of_v3() == [3]


def _erased_behind_the_back_of_v3() -> list[int]:
    """V3 knows no topics by id, and looks when a broker starts and no more."""
    lab = _erased_behind_the_back_of(3, "no-topic-id")
    lab.bury(1)
    lab.wait(10_000)
    return holders(lab)


def test_who_asks_about_a_stray_replica_and_gets_no_answer_asks_again() -> None:
    """V3 §E step 4: a lost answer says nothing."""
    lab = _erased_behind_the_back_of(3)
    lab.muted.add(3)
    lab.bury(1)
    assert holders(lab) == [3]
    request = lab.nodes[3].state.broker.strays.request
    assert request > 0
    lab.muted.discard(3)
    lab.tell(3, ZkReplied(request, (Unknown(),)))
    lab.wait(2000)

    assert holders(lab) == []


def test_a_replica_that_is_not_listed_yet_and_is_assigned_stays() -> None:
    """U-11: the list of a new controller lacks what has no state yet; ZooKeeper says whose it is."""
    lab = cluster()
    node = lab.nodes[2].state.broker
    update = UpdateMetadata(99, BrokerId(3), ControllerEpoch(9), node.incarnation, ids(1, 2, 3), (), full=True, number=1)
    lab.tell(2, Received(Address("b3"), update))

    assert (node.strays.suspects, holders(lab)) == ((), [1, 2, 3])


def _while_it_starts(lab: Lab, i: int, *assigned: Assigned) -> int:
    """It registers anew, and has read these assignments. Returns the question whose answer it waits for."""
    broker = lab.nodes[i].state.broker
    broker.registration, broker.registration_request = "learning-states", 999
    broker.before_learning, broker.learning = (T0,), list(assigned)
    return broker.registration_request


def test_a_replica_that_an_old_controller_wakes_while_its_broker_starts_is_looked_up() -> None:
    """V3 §E step 4: a command may come from a controller that does not know that it is deposed."""
    lab = _erased_behind_the_back_of(3)
    assert isinstance(lab.nodes[3].state.broker.partitions[T0].role, Follower)
    lab.tell(3, ZkReplied(_while_it_starts(lab, 3), ()))
    lab.settle()

    assert holders(lab) == []


def test_what_a_new_reign_does_not_list_while_its_broker_starts_is_looked_up_afterwards() -> None:
    """V3 §E step 4: what is read of a topic may be older than its end, and the first full metadata come but once."""
    lab = _erased_behind_the_back_of(3)
    partition = lab.nodes[3].state.broker.partitions[T0]
    waits = _while_it_starts(lab, 3, Assigned(T0, ids(1, 2, 3), partition.log.topic_id))
    lab.bury(1)
    assert holders(lab) == [3]
    lab.tell(3, ZkReplied(waits, (NoNode(),)))
    lab.settle()

    assert holders(lab) == []


def test_a_replica_for_which_a_command_came_meanwhile_stays() -> None:
    """V3 §E step 4: the command is younger than the question."""
    lab = _erased_behind_the_back_of(3)
    lab.muted.add(3)
    lab.bury(1)
    broker = lab.nodes[3].state.broker
    broker.partitions[T0].leader_epoch = LeaderEpoch(broker.partitions[T0].leader_epoch + 1)
    lab.tell(3, ZkReplied(broker.strays.request, (NoNode(),)))

    assert holders(lab) == [3]
