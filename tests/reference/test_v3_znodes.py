"""V3's paths in ZooKeeper by their literal names and contents, as another tool finds or writes them."""

import json

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import AnyOp, Children, Create, Data, GetChildren, GetData
from reference.coordination.memory import Fired
from reference.effects import AnyEffect, ZkRequest
from reference.messages import LeaderAndIsr
from reference.replica.partition import Leader
from reference.types import NO_INCARNATION, BrokerId, topic_partition
from tests.reference.admin import T1
from tests.reference.lab import Lab
from tests.reference.moving import cluster, fetches_from, wait_until, write
from tests.reference.recorded import restart_leader, settled_cluster, shrink
from tests.reference.v3 import cluster_in_sync, crash_and_expire

U0 = topic_partition("u", 0)


def znode_at(lab: Lab, path: str) -> Data | None:
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(path),))
    return answer if isinstance(answer, Data) else None


def znode_json(lab: Lab, path: str) -> object:
    """The JSON in a znode."""
    znode = znode_at(lab, path)
    return None if znode is None else json.loads(znode.data)


def children_of(lab: Lab, path: str) -> tuple[str, ...]:
    (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(path),))
    return answer.names if isinstance(answer, Children) else ()


def leader_and_isr(lab: Lab, partition: str) -> object:
    """Leader and ISR of a partition in ZooKeeper."""
    topic, _, index = partition.rpartition("-")
    znode = znode_at(lab, f"/brokers/topics/{topic}/partitions/{index}/state")
    return None if znode is None else (json.loads(znode.data)["leader"], sorted(json.loads(znode.data)["isr"]))


# --- /controller ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_controller_znode_ends_with_the_session_of_its_broker(variant: str) -> None:
    """R-001: /controller is an ephemeral node that holds the id of the broker which created it; so is that of the next one."""
    lab = cluster_in_sync(variant)
    for i in (1, 2):
        znode = znode_at(lab, "/controller")

        assert znode_json(lab, "/controller") == {"version": 1, "brokerid": i}
        assert znode is not None
        assert znode.owner == lab.sessions[i]
        lab.crash(i)
        fired = lab.zk.expire(lab.sessions[i])
        assert znode_at(lab, "/controller") is None
        lab.deliver_watches(fired)
        lab.settle()


class Race(Lab):
    """Brokers whose requests to create /controller are still on their way to ZooKeeper, and perhaps the watches too."""

    late: dict[int, ZkRequest]
    late_watches: Fired | None = None

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        """Hold back a request to create /controller; perform every other effect."""
        claims = isinstance(effect, ZkRequest) and any(
            isinstance(op, Create) and op.path == paths.CONTROLLER for op in effect.ops
        )
        if isinstance(effect, ZkRequest) and claims:
            self.late[i] = effect
            return None
        return super()._perform(i, effect)

    def deliver_watches(self, fired: Fired) -> None:
        if self.late_watches is None:
            super().deliver_watches(fired)
        else:
            self.late_watches += fired

    def claim(self, i: int) -> None:
        """Perform the request of broker `i`."""
        super()._perform(i, self.late.pop(i))


@pytest.mark.parametrize("watch_first", [True, False])
@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_only_the_first_to_create_the_znode_is_controller(variant: str, watch_first: bool) -> None:
    """R-001, R-041: both saw no /controller and try to create it; the second one fails and goes on as a broker.

    It learns so by its watch, or by the answer to its request.
    """
    lab = Race(2, variant=VARIANTS[variant], start=False)
    lab.late = {}
    for i in lab.ids:
        lab.start(i)
    assert sorted(lab.late) == [1, 2]
    lab.late_watches = None if watch_first else []
    lab.claim(2)
    lab.claim(1)
    assert [lab.nodes[i].state.controller.step for i in lab.ids] == ["watching", "active"]
    late_watches, lab.late_watches = lab.late_watches, None
    lab.deliver_watches(late_watches or [])
    lab.settle()

    assert [lab.nodes[i].state.controller.step for i in lab.ids] == ["watching", "active"]
    assert znode_json(lab, "/controller") == {"version": 1, "brokerid": 2}


def test_every_broker_reads_there_who_is_controller() -> None:
    """R-001: it is where heartbeats and ISR changes go (R-185, R-192)."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 1)

    assert [lab.nodes[i].state.controller.elected for i in (2, 3)] == [2, 2]
    assert [lab.nodes[i].state.broker.membership.controller for i in (2, 3)] == [2, 2]


# --- /brokers/ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_each_live_broker_has_an_ephemeral_registration(variant: str) -> None:
    """R-002: /brokers/ids/[broker_id] has host and port, and ends with the broker's session, be it the first one or the next."""
    lab = cluster_in_sync(variant)
    lab.nodes[2].state.config = replace(lab.configs[2], host="two", port=9093)
    lab.expire(2)
    lab.settle()
    owners = {name: znode.owner for name in children_of(lab, "/brokers/ids") if (znode := znode_at(lab, f"/brokers/ids/{name}"))}
    registration = znode_json(lab, "/brokers/ids/2")

    assert owners == {str(i): lab.sessions[i] for i in lab.ids}
    assert isinstance(registration, dict)
    assert (registration["host"], registration["port"]) == ("two", 9093)
    crash_and_expire(lab, 2)
    assert children_of(lab, "/brokers/ids") == ("1", "3")


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_restarted_broker_registers_after_its_former_session(variant: str) -> None:
    """R-002: the node of its former life ends with that session, and a broker that relied on it would be taken for dead."""
    lab = cluster_in_sync(variant)
    former = lab.sessions[3]
    lab.crash(3)
    lab.start(3)
    lab.wait(1000)
    assert lab.nodes[3].state.broker.incarnation == NO_INCARNATION
    lab.deliver_watches(lab.zk.expire(former))
    lab.wait(1000)
    znode = znode_at(lab, "/brokers/ids/3")

    assert znode is not None
    assert (znode.owner, znode.czxid) == (lab.sessions[3], lab.nodes[3].state.broker.incarnation)


@pytest.mark.parametrize("variant", ["safe", "v3"])
def test_broker_without_a_session_registers_again(variant: str) -> None:
    """R-002: its process lives on, and the node of the session that has expired is gone."""
    lab = cluster_in_sync(variant)
    former = lab.sessions[3]
    lab.expire(3)
    lab.settle()
    znode = znode_at(lab, "/brokers/ids/3")

    assert znode is not None
    assert znode.owner == lab.sessions[3] > former


# --- /brokers/topics -----------------------------------------------------------------------------------------------------------


def test_topic_znode_lists_the_preferred_replica_first() -> None:
    """R-003, R-029: an administrator creates /brokers/topics/[topic]; the first replica of each leads while all are alive."""
    lab = cluster_in_sync()
    write(lab, Create("/brokers/topics/U.a-b_c", b'{"version":1,"partitions":{"0":[3,1,2],"1":[2,3]}}'))

    assert (leader_and_isr(lab, "U.a-b_c-0"), leader_and_isr(lab, "U.a-b_c-1")) == ((3, [1, 2, 3]), (2, [2, 3]))


def test_state_znode_is_written_whole_by_the_controller() -> None:
    """R-004: leader epoch, leader and ISR. The leader is not the first member of the ISR."""
    lab = settled_cluster()
    write(lab, Create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[4,3,2]}}'))
    before = znode_json(lab, "/brokers/topics/u/partitions/0/state")
    first = lab.leader(U0)
    crash_and_expire(lab, first)
    after, after_leader = znode_json(lab, "/brokers/topics/u/partitions/0/state"), lab.leader(U0)
    crash_and_expire(lab, lab.followers(U0)[0])

    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert leader_and_isr(lab, "u-0") == (lab.leader(U0), [lab.leader(U0)])
    assert (before["leader_epoch"], before["leader"], before["isr"]) == (0, first, [2, 3, 4])
    assert (after["leader_epoch"], after["leader"], after["isr"]) == (1, after_leader, sorted({2, 3, 4} - {first}))


@pytest.mark.parametrize("variant", ["isr-via-zookeeper", "v3"])
def test_leader_writes_nothing_but_the_isr(variant: str) -> None:
    """R-004: the leader is not the first member of the ISR, and its leader epoch not the first one."""
    lab = settled_cluster(variant)
    leader = restart_leader(lab)
    before = znode_json(lab, "/brokers/topics/t/partitions/0/state")
    shrink(lab, lab.followers()[-1], leader=leader)
    after = znode_json(lab, "/brokers/topics/t/partitions/0/state")

    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert (before["leader"], before["isr"], before["leader_epoch"] > 0) == (leader, [2, 3, 4], True)
    assert after["isr"] == [2, leader]
    lab.wait(3000)
    rejoined = znode_json(lab, "/brokers/topics/t/partitions/0/state")
    assert isinstance(rejoined, dict)
    assert rejoined["isr"] == [2, 3, 4]
    assert {key for key in before if not before[key] == after[key] == rejoined[key]} <= {"isr", "incarnations"}


def test_controller_keeps_a_first_state_that_it_did_not_write() -> None:
    """R-005, R-029: the state znode is created only if it is not there; what is there is read, and that is told."""
    lab = settled_cluster("v3")
    lab.delays_write = lambda *_: True
    write(lab, Create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[4,3,2]}}'))
    state = b'{"controller_epoch":1,"leader":3,"version":1,"leader_epoch":7,"isr":[3]}'
    write(lab, Create("/brokers/topics/u/partitions/0/state", state))
    lab.release_writes()
    lab.settle()
    known_state = lab.nodes[1].state.controller.states[topic_partition("u", 0)]
    told = {state.leader for _, _, message in lab.sent(LeaderAndIsr) for state in message.states if state.tp == U0}

    assert (known_state.leader, known_state.leader_epoch, told) == (3, 7, {3})
    assert isinstance(lab.nodes[3].state.broker.partitions[topic_partition("u", 0)].role, Leader)


# --- /admin --------------------------------------------------------------------------------------------------------------------


def create_request(lab: Lab, path: str, data: bytes = b"") -> None:
    """Create a request, and the znodes above it that are missing."""
    parts = path.split("/")
    above: list[AnyOp] = [Create("/".join(parts[:depth]), b"") for depth in range(2, len(parts))]
    write(lab, *above, Create(path, data))


def test_partition_is_moved_by_its_v3_path_which_then_goes() -> None:
    """R-006, R-054: /admin/partitions_reassigned/[topic]/[partition_id] is there until the new replicas have caught up."""
    lab = cluster(VARIANTS["v3"])
    lab.is_held = fetches_from(4, 5, 6)
    create_request(lab, "/admin/partitions_reassigned/t/0", b"[4,5,6]")
    lab.wait(3000)
    assert (children_of(lab, "/admin/partitions_reassigned/t"), lab.isr()) == (("0",), [1, 2, 3])
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: znode_at(lab, "/admin/partitions_reassigned/t/0") is None)
    assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {"0": [4, 5, 6]}}


def test_partition_is_added_by_its_path_which_then_goes() -> None:
    """R-003, R-007: /admin/partitions_add/[topic]/[partition_id] names the replicas, the preferred one first."""
    lab = cluster_in_sync()
    create_request(lab, "/admin/partitions_add/t/1", b"[3,2]")

    assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {"0": [1, 2, 3], "1": [3, 2]}}
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(3), BrokerId(1)),))))
    assert znode_json(lab, "/brokers/topics/u") == {"version": 1, "partitions": {"0": [3, 1]}}
    assert lab.leader(T1) in sorted(lab.isr(T1)) == [2, 3]
    assert children_of(lab, "/admin/partitions_add") == ()
    create_request(lab, "/admin/partitions_add/t/1", b"[1,2]")  # it is there already
    assert (leader_and_isr(lab, "t-1"), children_of(lab, "/admin/partitions_add")) == ((3, [2, 3]), ())


def test_all_requested_partitions_are_moved() -> None:
    """R-006: every partition below every topic of the path."""
    lab = cluster(VARIANTS["v3"])
    write(lab, Create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1,2],"10":[2,3]}}'))
    root = "/admin/partitions_reassigned"
    above = [Create(path, b"") for path in (root, f"{root}/t", f"{root}/u")]
    write(lab, *above, *(Create(f"{root}/{tp}", b"[4,5]") for tp in ("t/0", "u/0", "u/10")))

    assert wait_until(lab, lambda: children_of(lab, "/admin/partitions_reassigned") == ())
    assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {"0": [4, 5]}}
    assert znode_json(lab, "/brokers/topics/u") == {"version": 1, "partitions": {"0": [4, 5], "10": [4, 5]}}


def test_moved_partition_waits_for_no_other_one() -> None:
    """R-006: its request goes when it has moved, though another partition of the topic still moves."""
    lab = cluster(VARIANTS["v3"])
    write(lab, Create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1,2],"1":[2,3]}}'))
    lab.is_held = fetches_from(6)
    root = "/admin/partitions_reassigned"
    write(lab, Create(root, b""), Create(f"{root}/u", b""), Create(f"{root}/u/0", b"[4,5]"), Create(f"{root}/u/1", b"[5,6]"))

    assert wait_until(lab, lambda: children_of(lab, "/admin/partitions_reassigned/u") == ("1",))
    assert znode_json(lab, "/brokers/topics/u") == {"version": 1, "partitions": {"0": [4, 5], "1": [2, 3]}}


def test_all_requested_partitions_are_added_and_removed() -> None:
    """R-007, R-008, R-063: every partition below every topic of the path, by one request."""
    lab = cluster_in_sync()
    write(lab, Create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[1,2,3]}}'))
    for what, data in (("add", b"[3,2]"), ("remove", b"")):
        root = f"/admin/partitions_{what}"
        above = [Create(path, b"") for path in ("/admin", root, f"{root}/t", f"{root}/u")]
        write(lab, *above, *(Create(f"{root}/{tp}", data) for tp in ("t/1", "t/2", "u/1", "u/2")))
        assert children_of(lab, root) == ()
        listed = [znode_json(lab, f"/brokers/topics/{topic}") for topic in "tu"]
        more = {"1": [3, 2], "2": [3, 2]} if what == "add" else {}

        assert listed == [{"version": 1, "partitions": {"0": [1, 2, 3], **more}}] * 2


@pytest.mark.parametrize("replicas", [b"[2,2]", b"[1,2,2]", b"[2,1,2]", b"[]", b"2"])
def test_partition_is_not_added_with_invalid_replicas(replicas: bytes) -> None:
    """R-003, R-007: a partition has at most one replica on a broker."""
    lab = cluster_in_sync()
    create_request(lab, "/admin/partitions_add/t/1", replicas)

    assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {"0": [1, 2, 3]}}
    assert children_of(lab, "/admin/partitions_add") == ()


def test_partition_is_removed_by_its_path_which_then_goes() -> None:
    """R-008, R-063, R-064: /admin/partitions_remove/[topic]/[partition_id] has no value; the other partitions stay."""
    lab = cluster_in_sync()
    for index in (1, 2, 10):
        create_request(lab, f"/admin/partitions_add/t/{index}", b"[3,2]")
    for _ in range(2):  # the second time it is gone already
        create_request(lab, "/admin/partitions_remove/t/1")

        assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {"0": [1, 2, 3], "2": [3, 2], "10": [3, 2]}}
        assert (leader_and_isr(lab, "t-1"), leader_and_isr(lab, "t-0")) == (None, (1, [1, 2, 3]))
        assert children_of(lab, "/admin/partitions_remove") == ()
    for index in (10, 2, 0):
        create_request(lab, f"/admin/partitions_remove/t/{index}")
    assert znode_json(lab, "/brokers/topics/t") == {"version": 1, "partitions": {}}
