"""Commands in V3's layouts from the controller's queue to the broker that obeys, and its answers."""

from reference.config import SAFE, BrokerConfig
from reference.controller import channel
from reference.controller.context import Channel, Controller
from reference.effects import Send
from reference.errors import ErrorCode
from reference.events import Received
from reference.machine import Ids, Now, Turn
from reference.messages import LeaderAndIsr, LeaderAndIsrReply, StopPartition, StopReplica
from reference.types import (
    EPOCH_DURING_DELETE,
    NO_CONTROLLER_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
)
from server.wire.codec import NodeRequest, read_reply, read_request, reply_frame, request_frame
from server.wire.framing import FrameBuffer, read_request_header
from tests.reference.lab import T0
from tests.reference.v3 import OTHER, cluster_in_sync, crash_and_expire, next_state, send_leader_and_isr

ME, B2 = BrokerId(1), BrokerId(2)


def received(request: NodeRequest) -> NodeRequest:
    """The request as a broker reads it that got it in V3's layout."""
    (body,) = FrameBuffer(1 << 20).feed(request_frame(request, version=0))
    header, at = read_request_header(body)
    return read_request(header, body, at, lambda _: None)


def test_stop_replica_lists_all_that_the_controller_stops() -> None:
    """R-014: the replicas that lose their log, and those that only stop; and it names the controller that sends it."""
    stops = {tp: StopPartition(tp, LeaderEpoch(3), delete) for tp, delete in ((OTHER, True), (T0, False))}
    controller = Controller(epoch=ControllerEpoch(7), channels=[Channel(broker=B2, incarnation=Incarnation(12), stops=stops)])
    config = BrokerConfig(broker=ME, variant=SAFE, topics=())
    turn = Turn(Now(Millis(0), Millis(0)), Ids(), config, Incarnation(11))
    channel.pump(turn, controller)
    (sent,) = [effect.message for effect in turn.effects if isinstance(effect, Send)]
    assert isinstance(sent, StopReplica)
    command = received(sent)

    assert isinstance(command, StopReplica)
    assert (command.controller, [stop.tp for stop in command.partitions]) == (ME, [OTHER, T0])


def test_replica_stops_whatever_its_epoch() -> None:
    """R-014: V3's StopReplica has no epoch, and the replica was told a later one than the first."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 2)
    assert lab.partition(3).leader_epoch > 0
    stop = StopReplica(4, ME, ControllerEpoch(1), Incarnation(12), (StopPartition(T0, LeaderEpoch(0)),))
    command = received(stop)
    assert isinstance(command, StopReplica)
    lab.handle_event(3, Received(Address("b1"), command))

    assert (command.controller_epoch, command.partitions[0].leader_epoch) == (NO_CONTROLLER_EPOCH, EPOCH_DURING_DELETE)
    assert T0 not in lab.disks[3].logs


def test_each_partition_keeps_its_code_in_the_answer() -> None:
    """R-013: the code of a partition that was refused is not that of the one that was obeyed."""
    lab = cluster_in_sync()
    new, old = next_state(lab, 1, tp=OTHER), next_state(lab, 2, epoch_up=-1)
    reply = send_leader_and_isr(lab, 3, new, old)
    command = LeaderAndIsr(77, B2, ControllerEpoch(1), NO_INCARNATION, init=False, states=(new, old))
    answer = read_reply(command, 0, reply_frame(command, 0, reply)[4:])

    assert isinstance(answer, LeaderAndIsrReply)
    assert answer.errors == ((OTHER, ErrorCode.NONE), (T0, ErrorCode.FENCED_LEADER_EPOCH))
