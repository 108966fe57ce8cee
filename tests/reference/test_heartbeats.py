"""Heartbeats, broker states and fences (KIP-343) on the table-top cluster."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, VARIANTS, BrokerConfig
from reference.controller import standings
from reference.controller.context import BrokerList, ChangeStep, Controller, LeaderElection
from reference.coordination import paths
from reference.coordination.api import Children, Data, GetData, SetData
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied, ZkState, ZkWatch
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    LeaderAndIsr,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    MetadataReply,
    Produce,
    ProduceReply,
    StopPartition,
    StopReplica,
)
from reference.replica.partition import Follower, Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    BrokerState,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    ZkVersion,
)
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import crash_and_expire

INACTIVE, ACTIVE, STOPPING = BrokerState.INACTIVE, BrokerState.ACTIVE, BrokerState.STOPPING
CLIENT = Address("c1")


def cluster_in_sync(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """Three brokers in the ISR; b1 leads and is the controller."""
    lab = Lab(3, variant=VARIANTS[variant], min_isr=min_isr)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders(), controller_of(lab).step) == ([1, 2, 3], [1], "active")
    return lab


def controller_of(lab: Lab, i: int = 1) -> Controller:
    return lab.nodes[i].state.controller


def state_of(lab: Lab, i: int, at: int = 1) -> BrokerState | None:
    """The state of broker `i` in the memory of the controller on broker `at`."""
    standing = standings.of(controller_of(lab, at), BrokerId(i))
    return None if standing is None else standing.state


def incarnation_of(lab: Lab, i: int) -> Incarnation:
    return lab.nodes[i].state.broker.incarnation


def is_fenced(lab: Lab, i: int) -> bool:
    return lab.nodes[i].state.broker.membership.state is INACTIVE


def hold_heartbeats(lab: Lab, i: int) -> None:
    """Hold back the heartbeats of a broker."""
    lab.is_held = carries(MetadataHeartbeat, sender=f"b{i}")


def send_heartbeat(lab: Lab, at: int, request: MetadataHeartbeat) -> MetadataHeartbeatReply:
    """Deliver a heartbeat from an address outside the cluster to node `at`; return its reply."""
    lab.handle_event(at, Received(Address("c9"), request))
    reply = lab.client_replies[-1]
    assert isinstance(reply, MetadataHeartbeatReply)
    return reply


def test_broker_states_and_heartbeats_match_the_document() -> None:
    """R-193, R-194, R-195: BrokerState Enum, MetadataHeartbeatRequest and its response; the response has no ids (C-16)."""
    assert [(state.value, state.name) for state in BrokerState] == [
        (0, "INITIAL"),
        (1, "INACTIVE"),
        (2, "ACTIVE"),
        (3, "STOPPING"),
    ]
    assert MetadataHeartbeat.__struct_fields__ == ("correlation", "broker", "incarnation", "target_state")
    assert MetadataHeartbeatReply.__struct_fields__ == ("correlation", "error", "error_string", "current_state")


def test_incarnation_is_the_czxid_of_the_registration() -> None:
    """R-181, U-20: it tells two processes under one broker id apart, also if they run one after the other.

    It is not the mzxid: whoever writes there makes no other broker of it.
    """
    lab = cluster_in_sync()
    before = incarnation_of(lab, 2)
    path = paths.broker_path(BrokerId(2))
    (_, node), _ = lab.zk.submit(
        lab.admin, (SetData(path, paths.broker_payload(heartbeats=True, host="b2", port=9092)), GetData(path))
    )
    assert isinstance(node, Data)
    assert node.czxid == before
    lab.crash(2)
    lab.expire(2)
    lab.start(2)
    lab.settle()

    assert incarnation_of(lab, 2) > before


def test_brokers_are_inactive_when_the_cluster_is_initialised() -> None:
    """R-182: no broker leads before a broker has sent a heartbeat."""
    lab = Lab(3, start=False)
    lab.is_held = carries(MetadataHeartbeat)
    for i in lab.ids:
        lab.start(i)
    lab.settle()
    assert [state_of(lab, i) for i in lab.ids] == [INACTIVE] * 3
    assert lab.leaders() == []
    lab.is_held = lambda _: False
    lab.settle()

    assert [state_of(lab, i) for i in lab.ids] == [ACTIVE] * 3
    assert len(lab.leaders()) == 1


def test_new_controller_gives_each_broker_the_whole_timeout() -> None:
    """R-182: a failover of the controller must not take every partition from its leader."""
    lab = cluster_in_sync()
    lab.crash(1)
    lab.is_held = carries(MetadataHeartbeat)
    lab.expire(1)
    lab.wait(5000)
    (new,) = [i for i in (2, 3) if controller_of(lab, i).step == "active"]
    assert (state_of(lab, 2, new), state_of(lab, 3, new)) == (ACTIVE, ACTIVE)
    assert len(lab.leaders()) == 1
    lab.wait(1500)

    assert (state_of(lab, 2, new), state_of(lab, 3, new)) == (INACTIVE, INACTIVE)


def test_silent_broker_is_absent_until_its_next_heartbeat() -> None:
    """R-183, R-187: it leaves the ISR and the metadata although its registration still exists, and returns to both."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    lab.wait(7000)
    assert state_of(lab, 3) is INACTIVE
    assert lab.isr() == [1, 2]
    assert list(lab.nodes[2].state.broker.live_brokers) == [1, 2]
    assert [live.broker for live in controller_of(lab).live] == [1, 2, 3]
    lab.is_held = lambda _: False
    lab.settle()
    assert state_of(lab, 3) is ACTIVE
    lab.wait(3000)

    assert lab.isr() == [1, 2, 3]
    assert list(lab.nodes[2].state.broker.live_brokers) == [1, 2, 3]


def test_silent_broker_in_shutdown_is_absent_too() -> None:
    """R-187: each of its heartbeats begins the time anew; after the last one it counts as any other that is silent."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    heartbeat = MetadataHeartbeat(5, BrokerId(3), incarnation_of(lab, 3), BrokerState.STOPPING)
    for _ in range(2):
        send_heartbeat(lab, 1, heartbeat)
        lab.wait(5000)
    before = state_of(lab, 3)
    lab.wait(2000)

    assert (before, state_of(lab, 3)) == (BrokerState.STOPPING, INACTIVE)


def led_by_another(variant: str) -> Lab:
    """b1 is the controller and has no replica, b3 leads, b2 follows."""
    lab = Lab(3, variant=VARIANTS[variant], replicas=(3, 2), start=False)
    for i in (1, 3, 2):
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.leaders(), lab.isr(), controller_of(lab).step) == ([3], [2, 3], "active")
    return lab


def test_silent_leader_is_replaced() -> None:
    """R-183: the controller treats its partitions as leaderless."""
    lab = led_by_another("safe")
    hold_heartbeats(lab, 3)
    lab.wait(7000)

    assert (lab.state().leader, lab.isr()) == (2, [2])


def cluster_with_fenced_b3(variant: str = "safe") -> Lab:
    """b3 has not reached the controller for longer than broker.heartbeat.timeout.ms."""
    lab = cluster_in_sync(variant)
    hold_heartbeats(lab, 3)
    lab.wait(10_000)
    return lab


REFUSED = ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("client_request", "answer"),
    [
        (Produce(1, T0, -1, ("x",), Millis(1000)), ProduceReply(1, T0, REFUSED)),
        (
            Fetch(
                1,
                T0,
                replica=None,
                incarnation=NO_INCARNATION,
                leader_epoch=NO_EPOCH,
                offset=Offset(0),
                max_wait_ms=Millis(9),
                max_records=1,
            ),
            FetchReply(1, T0, REFUSED, NO_EPOCH, Offset(0)),
        ),
        (EpochEnd(1, T0, BrokerId(2), NO_EPOCH, LeaderEpoch(0)), EpochEndReply(1, T0, REFUSED, NO_EPOCH, end_offset=None)),
        (ListOffsets(1, T0, NO_EPOCH), ListOffsetsReply(1, T0, REFUSED)),
        (Metadata(1), MetadataReply(1, (), (), REFUSED)),
        (InitProducerId(1), InitProducerIdReply(1, REFUSED)),
    ],
)
def test_fenced_broker_refuses_new_requests(client_request: AnyMessage, answer: AnyMessage) -> None:
    """R-185, R-186: without the controller, the broker's knowledge may be out of date."""
    lab = cluster_with_fenced_b3()
    assert is_fenced(lab, 3)
    lab.handle_event(3, Received(CLIENT, client_request))

    assert lab.client_replies[-1] == answer


def test_fenced_broker_sends_no_reply_to_an_acks_0_produce() -> None:
    """R-186, R-140: the producer expects no reply."""
    lab = cluster_with_fenced_b3()
    before = len(lab.client_replies)
    lab.produce(3, "x", acks=0)

    assert len(lab.client_replies) == before


def test_isolated_broker_without_heartbeats_serves_old_metadata() -> None:
    """R-180, B-43: clients that ask this broker for metadata make no progress."""
    lab = cluster_in_sync("no-heartbeat")
    lab.is_held = lambda envelope: envelope.receiver == "b3" and envelope.sender != "b3"
    lab.crash(2)
    lab.expire(2)
    lab.wait(20_000)
    lab.handle_event(3, Received(CLIENT, Metadata(1)))

    reply = lab.client_replies[-1]
    assert isinstance(reply, MetadataReply)
    assert (reply.error, reply.brokers) == (ErrorCode.NONE, (1, 2, 3))


def test_parked_requests_complete_on_a_fenced_broker() -> None:
    """R-186: existing network requests will be completed."""
    lab = cluster_in_sync()
    lab.handle_event(
        1,
        Received(
            CLIENT,
            Fetch(
                7,
                T0,
                replica=None,
                incarnation=NO_INCARNATION,
                leader_epoch=NO_EPOCH,
                offset=Offset(0),
                max_wait_ms=Millis(60_000),
                max_records=10,
            ),
        ),
    )
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b1")
    lab.wait(10_000)
    assert is_fenced(lab, 1)
    assert not [reply for reply in lab.client_replies if isinstance(reply, FetchReply)]
    lab.wait(60_000)

    assert [(reply.correlation, reply.error) for reply in lab.client_replies if isinstance(reply, FetchReply)] == [
        (7, ErrorCode.NONE)
    ]


def test_fenced_broker_obeys_leader_and_isr() -> None:
    """R-186 concerns requests of others. The broker learns the state of its replicas from the controller's commands."""
    lab = cluster_with_fenced_b3()
    state = replace(lab.state(), leader_epoch=LeaderEpoch(40), replicas=(BrokerId(1), BrokerId(2), BrokerId(3)))
    command = LeaderAndIsr(9, BrokerId(1), controller_of(lab).epoch, incarnation_of(lab, 3), init=False, states=(state,))
    lab.handle_event(3, Received(Address("b1"), command))

    assert lab.partition(3).leader_epoch == 40


def test_accepted_heartbeat_ends_the_fence() -> None:
    """R-186: nodes go back and forth between fenced and unfenced as appropriate."""
    lab = cluster_with_fenced_b3()
    for _ in range(2):
        lab.is_held = lambda _: False
        lab.wait(2000)
        assert not is_fenced(lab, 3)
        hold_heartbeats(lab, 3)
        lab.wait(10_000)
        assert is_fenced(lab, 3)


def test_leader_fenced_by_heartbeats_does_not_shrink_its_isr() -> None:
    """R-186: it refused the fetch requests that would have kept its followers in sync."""
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b1")
    lab.wait(7000)
    lab.is_held = carries(Fetch, FetchReply, MetadataHeartbeatReply)
    lab.produce(1, "x")  # followers without it are not in sync
    lab.wait(2500)
    assert is_fenced(lab, 1)
    lab.in_flight.clear()
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b1")
    lab.wait(20_000)

    assert (lab.isr(), lab.partition(2).log.leo, lab.partition(1).log.leo) == ([1, 2, 3], 0, 1)


def test_broker_timeout_exceeds_the_controller_timeout() -> None:
    """R-188, R-204: a broker must not fence itself before the controller has declared it inactive."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    lab.wait(8000)
    assert (state_of(lab, 3), is_fenced(lab, 3)) == (INACTIVE, False)
    config = lab.configs[3]
    assert config.broker_heartbeat_timeout_ms > config.controller_heartbeat_timeout_ms
    with pytest.raises(ValueError, match="must exceed controller_heartbeat_timeout_ms"):
        BrokerConfig(
            broker=BrokerId(1),
            variant=SAFE,
            topics=(),
            controller_heartbeat_timeout_ms=Millis(5000),
            broker_heartbeat_timeout_ms=Millis(5000),
        )


def test_two_leaders_between_the_timeouts_but_one_commits() -> None:
    """U-19: the fence is no lease.

    The old leader accepts acks=1, which the new one never sees, but cannot acknowledge acks=all.
    """
    lab = cluster_in_sync(min_isr=2)
    lab.is_held = lambda envelope: (
        envelope.sender != envelope.receiver and "b1" in (envelope.sender, envelope.receiver) and envelope.receiver != CLIENT
    )
    lab.cut_off_from_zk.add(1)
    lab.expire(1)
    lab.wait(7000)
    (new,) = [i for i in lab.leaders() if i != 1]
    lab.nodes[1].state.broker.membership.state = ACTIVE
    lab.produce(1, "alone", acks=1, correlation=8)
    lab.produce(1, "all", acks=-1, correlation=9)
    lab.produce(new, "committed", correlation=10)
    lab.settle()

    acked = {
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    }
    assert acked == {8, 10}


def test_heartbeat_of_an_earlier_registration_is_refused() -> None:
    """R-190, R-196: it is a late copy, or its sender does not know that it was replaced."""
    lab = cluster_in_sync()
    reply = send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(2), Incarnation(incarnation_of(lab, 2) - 1), ACTIVE))

    assert (reply.error, reply.current_state) == (ErrorCode.INVALID_INCARNATION_ID, INACTIVE)
    assert reply.error_string is not None
    over = incarnation_of(lab, 3)
    crash_and_expire(lab, 3)
    late = send_heartbeat(lab, 1, MetadataHeartbeat(6, BrokerId(3), Incarnation(over - 1), ACTIVE))

    assert late.error is ErrorCode.INVALID_INCARNATION_ID


def test_heartbeat_of_a_later_registration_is_accepted_at_once() -> None:
    """R-190, B-47, U-20: the watch on /brokers/ids may fire later, or show no difference at all."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)  # the controller is cut off from ZooKeeper
    later = Incarnation(incarnation_of(lab, 2) + 1000)
    reply = send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(2), later, ACTIVE))

    assert (reply.error, reply.current_state) == (ErrorCode.NONE, ACTIVE)
    assert later in [live.incarnation for live in controller_of(lab).live]
    assert [c.incarnation for c in controller_of(lab).channels if c.broker == 2] == [later]


def test_older_list_does_not_undo_the_adoption() -> None:
    """R-190, C-05: the list was read before the broker registered; it is told everything once, not again by the next list."""
    lab = cluster_in_sync()
    older = tuple(lab.zk.submit(lab.admin, (GetData(f"{paths.BROKER_IDS}/{name}"),))[0][0] for name in ("1", "3"))
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, ZkWatch(paths.BROKER_IDS, "children"))
    later = Incarnation(incarnation_of(lab, 2) + 1000)
    send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(2), later, ACTIVE))
    (channel_to_2,) = [channel for channel in controller_of(lab).channels if channel.broker == 2]
    for answers in ((Children(("1", "3")),), older):
        (outstanding,) = [request for request in controller_of(lab).outstanding if request.pending == BrokerList()]
        lab.handle_event(1, ZkReplied(outstanding.request, answers))

    assert [live.incarnation for live in controller_of(lab).live if live.broker == 2] == [later]
    assert [channel for channel in controller_of(lab).channels if channel.broker == 2] == [channel_to_2]


def test_adopted_broker_is_no_news_of_other_brokers() -> None:
    """V3 §A step 1: b3 registered before b2 did, and the list that names both is still being read (seed 218258)."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, ZkWatch(paths.BROKER_IDS, "children"))
    joined, adopted = Incarnation(incarnation_of(lab, 3) + 1000), Incarnation(incarnation_of(lab, 2) + 2000)
    send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(2), adopted, ACTIVE))
    isr = tuple(replace(member, incarnation=joined) if member.broker == 3 else member for member in lab.state().isr)
    found = Data(paths.state_payload(replace(lab.state(), isr=isr)), ZkVersion(9), 5)
    (asked,) = [request for request in controller_of(lab).outstanding if request.pending == LeaderElection(T0)]
    lab.handle_event(1, ZkReplied(asked.request, (found,)))

    assert controller_of(lab).changes[T0].step is ChangeStep.READING


def test_controller_looks_up_the_registration_a_heartbeat_names() -> None:
    """R-190: the heartbeat may have been in flight for longer than its registration lasted."""
    lab = cluster_in_sync()
    reply = send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(7), Incarnation(999), ACTIVE))
    lab.settle()
    assert reply.error is ErrorCode.NONE
    assert [live.broker for live in controller_of(lab).live] == [1, 2, 3]

    second_reply = send_heartbeat(lab, 1, MetadataHeartbeat(6, BrokerId(7), Incarnation(999), ACTIVE))
    assert second_reply.error is ErrorCode.INVALID_INCARNATION_ID


def test_heartbeat_sets_the_target_and_returns_the_actual_state() -> None:
    """R-187, R-189, R-191: the broker enters its target state; stopping lasts for this process, despite late heartbeats."""
    lab = cluster_in_sync()
    me, incarnation = BrokerId(3), incarnation_of(lab, 3)
    hold_heartbeats(lab, 3)
    lab.wait(7000)
    answers = [
        send_heartbeat(lab, 1, MetadataHeartbeat(n, me, incarnation, target))
        for n, target in enumerate((ACTIVE, STOPPING, ACTIVE))
    ]

    assert [answer.current_state for answer in answers] == [ACTIVE, STOPPING, STOPPING]
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    lab.wait(7000)
    assert state_of(lab, 3) is INACTIVE
    stopped = send_heartbeat(lab, 1, MetadataHeartbeat(9, me, incarnation_of(lab, 3), STOPPING))

    assert stopped.current_state is STOPPING


@pytest.mark.parametrize(("broker", "target"), [(-1, ACTIVE), (2, BrokerState.INITIAL), (2, INACTIVE)])
def test_invalid_heartbeat_is_refused(broker: int, target: BrokerState) -> None:
    """R-196: INVALID_REQUEST. The request has no "endpoint fields" (C-16)."""
    lab = cluster_in_sync()

    assert (
        send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(broker), Incarnation(1), target)).error is ErrorCode.INVALID_REQUEST
    )


def test_non_controller_refuses_heartbeats() -> None:
    """R-185: the broker then sends its heartbeat to the actual controller; b1 was it, and its session is over."""
    lab = cluster_in_sync()
    heartbeat = MetadataHeartbeat(5, BrokerId(3), incarnation_of(lab, 3), ACTIVE)
    assert send_heartbeat(lab, 2, heartbeat).error is ErrorCode.NOT_CONTROLLER
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, ZkState("expired"))

    assert send_heartbeat(lab, 1, heartbeat).error is ErrorCode.NOT_CONTROLLER


def test_brokers_send_heartbeats_to_a_new_controller_at_once() -> None:
    """R-185: the new controller must hear of them before the timeout, so they do not wait for their heartbeat timer."""
    lab = cluster_in_sync()
    lab.crash(1)
    lab.expire(1)
    (office,) = [i for i in (2, 3) if controller_of(lab, i).step == "active"]

    shown_addresses = [
        envelope.sender
        for envelope in lab.in_flight
        if isinstance(envelope.message, MetadataHeartbeat) and envelope.receiver == f"b{office}"
    ]
    assert sorted(shown_addresses) == ["b2", "b3"]


def cluster_with_deposed_b3(variant: str) -> Lab:
    """b3 was the leader; its session expired, another broker leads, and b3 cannot reach ZooKeeper."""
    lab = led_by_another(variant)
    lab.cut_off_from_zk.add(3)
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    lab.expire(3)
    lab.wait(3000)
    assert lab.state().leader != 3
    return lab


def test_leader_cut_off_from_zookeeper_is_fenced_by_a_heartbeat() -> None:
    """B-43, R-190: the reply to its next heartbeat says that its registration is over, and it fences itself."""
    lab = cluster_with_deposed_b3("safe")
    lab.produce(3, "late", acks=1, correlation=9)

    assert is_fenced(lab, 3)
    assert lab.client_replies[-1] == ProduceReply(9, T0, ErrorCode.BROKER_NOT_AVAILABLE)


def test_deposed_leader_without_heartbeats_accepts_acks_1() -> None:
    """B-43: it acknowledges acks=1 records, and loses them when it truncates."""
    lab = cluster_with_deposed_b3("no-heartbeat")
    lab.produce(3, "late", acks=1, correlation=9)

    reply = lab.client_replies[-1]
    assert isinstance(reply, ProduceReply)
    assert reply.error is ErrorCode.NONE


# --- mixed versions during the double roll -----------------------------------------------------------------------------------


def mixed_version_cluster(*legacy: int) -> Lab:
    """A cluster in the middle of the second roll: the brokers `legacy` still speak the older protocol."""
    lab = Lab(3, start=False)
    for i in legacy:
        lab.configs[i] = replace(lab.configs[i], inter_broker_protocol="legacy")
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    return lab


def test_registration_version_tells_if_a_broker_heartbeats() -> None:
    """R-206: BrokerInfo version 5 with heartbeats, also in KIP-343's own layouts, version 4 without."""
    lab = mixed_version_cluster(3)
    answers, _ = lab.zk.submit(lab.admin, tuple(GetData(paths.broker_path(BrokerId(i))) for i in lab.ids))

    assert [b'"version":5' in a.data for a in answers if isinstance(a, Data)] == [True, True, False]
    lab = Lab(1, start=False)
    lab.configs[1] = replace(lab.configs[1], inter_broker_protocol="kip343_v0")
    lab.start(1)
    (znode,), _ = lab.zk.submit(lab.admin, (GetData(paths.broker_path(BrokerId(1))),))
    assert isinstance(znode, Data)
    assert b'"version":5' in znode.data


def test_legacy_broker_is_always_active_and_never_fenced() -> None:
    """R-205, R-206: it sends no heartbeats, and the controller expects none."""
    lab = mixed_version_cluster(3)
    lab.wait(30_000)

    assert (state_of(lab, 3), is_fenced(lab, 3)) == (None, False)
    assert lab.isr() == [1, 2, 3]
    assert not [name for name in lab.timers[3] if name in ("heartbeat", "fence")]


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [(1,), (2,), (3,), (1, 2), (1, 2, 3)])
def test_mixed_cluster_survives_restarts_and_fills_the_isr(legacy: tuple[int, ...]) -> None:
    """R-205: a rolled leader asks the controller for ISR changes, another writes them to ZooKeeper. Either may be controller."""
    lab = mixed_version_cluster(*legacy)
    for i in (1, 2, 3, 1):
        lab.crash(i)
        lab.expire(i)
        lab.wait(3000)
        (leader,) = lab.leaders()
        assert len(lab.isr()) == 2
        lab.produce(leader, "x", correlation=i)
        lab.settle()
        lab.start(i)
        lab.wait(12_000)

    assert lab.isr() == [1, 2, 3]
    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE] * 4


def test_broker_that_rolled_back_is_legacy_again() -> None:
    """R-205, R-206: its old state as a broker with heartbeats must not make it inactive."""
    lab = cluster_in_sync()
    lab.crash(3)
    lab.expire(3)
    lab.configs[3] = replace(lab.configs[3], inter_broker_protocol="legacy")
    lab.start(3)
    lab.wait(12_000)

    assert state_of(lab, 3) is None
    assert lab.isr() == [1, 2, 3]


# --- requests for an earlier incarnation -------------------------------------------------------------------------------------


def stale_stop(variant: str) -> bool:
    """Deliver a StopReplica for the earlier incarnation of b3 after b3 restarted. Returns whether the replica survives."""
    lab = cluster_in_sync(variant)
    before = incarnation_of(lab, 3)
    lab.crash(3)
    lab.expire(3)
    lab.start(3)
    lab.wait(3000)
    stop = StopPartition(T0, LeaderEpoch(1000), delete=True, topic_id=lab.partition(3).log.topic_id)
    command = StopReplica(9, BrokerId(1), controller_of(lab).epoch, before, (stop,))
    lab.handle_event(3, Received(Address("b1"), command))
    return T0 in lab.nodes[3].state.broker.partitions


def test_stop_replica_for_an_earlier_incarnation_is_refused() -> None:
    """B-48, U-09, KIP-380: otherwise the restarted broker loses a replica that is assigned to it."""
    assert stale_stop("safe")
    assert not stale_stop("no-broker-incarnation")


def stale_stopping(variant: str) -> BrokerState | None:
    """Deliver b3's last heartbeat of a controlled shutdown after b3 restarted. Returns b3's state at the controller."""
    lab = cluster_in_sync(variant)
    late_heartbeat = MetadataHeartbeat(5, BrokerId(3), incarnation_of(lab, 3), STOPPING)
    lab.crash(3)
    lab.expire(3)
    lab.start(3)
    lab.wait(3000)
    send_heartbeat(lab, 1, late_heartbeat)
    return state_of(lab, 3)


def test_stopping_heartbeat_of_an_earlier_incarnation_is_refused() -> None:
    """B-49, KIP-380: a late retry must not move leaderships away from a healthy broker."""
    assert stale_stopping("safe") is ACTIVE
    assert stale_stopping("no-broker-incarnation") is STOPPING


def test_followers_resume_when_the_leaders_fence_ends() -> None:
    """R-186: they back off, and continue when the fence ends."""
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b1")
    lab.wait(12_000)
    assert is_fenced(lab, 1)
    lab.is_held = lambda _: False
    lab.wait(4000)
    lab.produce(1, "x", correlation=3)
    lab.settle()

    assert isinstance(lab.partition(1).role, Leader)
    assert isinstance(lab.partition(2).role, Follower)
    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]
