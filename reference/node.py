"""One broker process: session, broker and controller behind one `handle`. Pure; every backend drives this machine.

A restart keeps what the log directories hold (`reference.events.DirImage`) and nothing else.
"""

from hashlib import blake2b
from typing import Self, assert_never

import msgspec
from msgspec import Struct

from reference.broker import broker as brokers
from reference.broker import commands, heartbeats, isr_change, log_dirs, metadata, producer_ids, shutdown, startup, strays
from reference.broker.broker import Broker
from reference.config import BrokerConfig
from reference.controller import channel, outstanding
from reference.controller import controller as controllers
from reference.controller.context import Controller
from reference.controller.reassign import reassignment
from reference.coordination.api import AnyAnswer
from reference.effects import AnyEffect
from reference.events import (
    AnyEvent,
    Booted,
    ConnectionLost,
    DirFailed,
    DirImage,
    Flushed,
    Received,
    ShutDown,
    TimerFired,
    ZkReplied,
    ZkState,
    ZkWatch,
)
from reference.machine import Ids, Now, Tally, Turn
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    LogInfo,
    LogInfoReply,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    MetadataReply,
    Produce,
    ProduceReply,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.replica import follower
from reference.timers import Timer, timer_named
from reference.types import Address, BrokerId, TopicPartition, broker_at


class NodeState(Struct):
    """The whole state of a broker process as data, so that it can be cloned, compared and hashed."""

    config: BrokerConfig
    life: int
    image: tuple[DirImage, ...]  # what the directories held at the start of this life; dropped after the first event
    session: int = 0
    ids: Ids = msgspec.field(default_factory=Ids)
    broker: Broker = msgspec.field(default_factory=Broker)
    controller: Controller = msgspec.field(default_factory=Controller)


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(NodeState)


class Node:
    """The machine of one broker process: `handle` changes `state` and returns effects; `tally` counts, and a copy counts anew."""

    __slots__ = ("state", "tally")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.tally = Tally()

    @classmethod
    def boot(cls, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> Self:
        """A process that has just started on these log directories. Its first event must be Booted."""
        return cls(NodeState(config=config, life=life, image=image))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Make a broker machine from the bytes that `encode` returned."""
        return cls(_decoder.decode(data))

    def encode(self) -> bytes:
        """The state of a broker machine as canonical bytes: equal states, equal bytes."""
        return _encoder.encode(self.state)

    def clone(self) -> Self:
        """An independent copy of a broker machine."""
        return self.decode(self.encode())

    def fingerprint(self) -> bytes:
        """A hash of the broker machine's state, 16 bytes."""
        return blake2b(self.encode(), digest_size=16).digest()

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Let the broker handle one event; returns the effects to perform, in order."""
        state = self.state
        turn = Turn(now, state.ids, state.config, state.broker.incarnation, self.tally)
        if shutdown.ignores(state.broker, event):
            return turn.effects
        match event:
            case Received(source=source, message=message):
                self._receive(turn, source, message)
            case TimerFired(name=name):
                self._on_timer(turn, name)
            case Flushed(dir=dir_, id=id_):
                brokers.on_flushed(turn, state.broker, dir_, id_)
                shutdown.on_flushed(turn, state.broker)
            case ZkReplied(id=id_, answers=answers):
                self._on_zk_reply(turn, id_, answers)
            case ZkWatch(path=path):
                controllers.on_watch(turn, state.controller, path)
            case ZkState():
                self._on_session(turn, event)
            case Booted():
                heartbeats.arm_fence(turn)
                startup.boot(turn, state.broker, state.image)
                state.image = ()
            case DirFailed(dir=dir_, error=error, unanswered=unanswered):
                log_dirs.on_dir_failed(turn, state.broker, dir_, error)
                commands.answer_after_failure(turn, state.broker, unanswered)
            case ShutDown():
                shutdown.begin(turn, state.broker)
            case ConnectionLost(peer=peer):
                brokers.on_connection_lost(state.broker, peer)
            case _ as unreachable:
                assert_never(unreachable)
        elected = state.controller.elected
        if elected is not None and elected != state.broker.membership.controller:
            heartbeats.follow(turn, state.broker, elected)
            isr_change.ask_again(turn, state.broker, tuple(state.broker.partitions))
        isr_change.send_due(turn, state.broker)
        shutdown.end_of_turn(turn, state.broker)
        brokers.end_of_turn(turn, state.broker)
        return turn.effects

    def _receive(self, turn: Turn, source: Address, message: AnyMessage) -> None:
        """Dispatch a message to the broker or the controller; a fenced broker refuses its clients and followers."""
        broker, controller = self.state.broker, self.state.controller
        match message:
            case Fetch() | EpochEnd() | Produce() | InitProducerId() | ListOffsets() | Metadata() if heartbeats.is_fenced(broker):
                heartbeats.refuse(turn, source, message)
            case Fetch():
                brokers.on_fetch(turn, broker, source, message)
            case FetchReply() | EpochEndReply():
                brokers.on_leader_reply(turn, broker, message)
            case Produce():
                brokers.on_produce(turn, broker, source, message)
            case EpochEnd():
                brokers.on_epoch_end(turn, broker, source, message)
            case ListOffsets():
                brokers.on_list_offsets(turn, broker, source, message)
            case InitProducerId():
                producer_ids.on_request(turn, broker.producer_ids, source, message)
            case Metadata():
                metadata.on_metadata(turn, broker, source, message)
            case LeaderAndIsr():
                commands.on_leader_and_isr(turn, broker, source, message)
            case UpdateMetadata():
                metadata.on_update_metadata(turn, broker, source, message)
            case StopReplica():
                commands.on_stop_replica(turn, broker, source, message)
            case LogInfo():
                commands.on_log_info(turn, broker, source, message)
            case LeaderAndIsrReply() | UpdateMetadataReply() | StopReplicaReply() | LogInfoReply():
                controllers.on_reply(turn, controller, broker_at(source), message)
            case MetadataHeartbeat() | IsrChange():
                controllers.on_request(turn, controller, source, message)
            case MetadataHeartbeatReply():
                heartbeats.on_reply(turn, broker, message)
            case IsrChangeReply():
                isr_change.on_reply(turn, broker, message)
            case ProduceReply() | InitProducerIdReply() | ListOffsetsReply() | MetadataReply():
                pass  # a broker asks for none of these
            case _ as unreachable:
                assert_never(unreachable)

    def _on_timer(self, turn: Turn, name: str) -> None:
        """Dispatch a timer by the name under which it was armed."""
        broker, controller = self.state.broker, self.state.controller
        timer, about = timer_named(name)
        match timer:
            case Timer.FETCH:
                partition = broker.partitions.get(TopicPartition(about))
                if partition is not None:
                    follower.ask(turn, partition)
            case Timer.PARK:
                brokers.on_park_timer(turn, broker)
            case Timer.ISR:
                brokers.on_isr_timer(turn, broker)
            case Timer.ASK_ISR:
                isr_change.ask_again(turn, broker, (TopicPartition(about),))
            case Timer.HEARTBEAT:
                heartbeats.beat(turn, broker)
            case Timer.FENCE:
                heartbeats.on_fence_timer(turn, broker)
            case Timer.HAND_OVER:
                shutdown.on_timer(turn, broker)
            case Timer.SILENCE:
                controllers.on_silence(turn, controller, BrokerId(int(about)))
            case Timer.CHECKPOINT:
                brokers.on_checkpoint_timer(turn, broker)
            case Timer.REGISTER:
                startup.on_timer(turn, broker)
            case Timer.STRAYS:
                strays.ask(turn, broker)
            case Timer.DIR_EVENT:
                log_dirs.notify(turn, broker)
            case Timer.CONTROLLER_RETRY:
                controllers.on_timer(turn, controller)
            case Timer.REASSIGN:
                reassignment.wake(turn, controller)
            case Timer.CHANNEL:
                channel.on_timer(turn, controller, BrokerId(int(about)))
            case _ as unreachable:
                assert_never(unreachable)

    def _on_zk_reply(self, turn: Turn, request: int, answers: tuple[AnyAnswer, ...]) -> None:
        """Dispatch ZooKeeper's answer by its request id to the procedure that asked."""
        state = self.state
        if request == state.broker.registration_request:
            if startup.on_answer(turn, state.broker, answers, state.session):
                heartbeats.on_registered(turn, state.broker)
                controllers.on_registered(turn, state.controller)
        elif request == state.broker.producer_ids.request:
            producer_ids.on_answer(turn, state.broker.producer_ids, answers[0])
        elif request == state.broker.strays.request:
            strays.on_answer(turn, state.broker, answers)
        elif request == state.broker.dir_event_request:
            log_dirs.on_notified(turn, state.broker, answers)
        elif (sent := outstanding.sent_with(state.controller, request)) is not None:
            controllers.on_answer(turn, state.controller, sent, answers, state.session)
        else:  # a deletion that settles, or an ISR change: request ids are unique
            commands.on_settled(turn, state.broker, request, answers[0])
            brokers.on_isr_answer(turn, state.broker, request, answers[0])

    def _on_session(self, turn: Turn, event: ZkState) -> None:
        """React to the ZooKeeper session: it begins, is disconnected, is connected again, or has expired."""
        state = self.state
        match event.state:
            case "connected":
                if event.session == state.session:
                    brokers.on_reconnected(turn, state.broker)
                else:
                    state.session = event.session
                    startup.register(turn, state.broker)
            case "disconnected":
                pass  # the session lives on: a broker that is cut off goes on as leader or controller
            case "expired":
                controllers.on_expired(turn, state.controller)
                heartbeats.on_expired(turn, state.broker)
                startup.on_expired(turn, state.broker)
