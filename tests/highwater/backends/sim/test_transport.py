"""Requests reach processes; answers reach the life that sent the request."""

from highwater.backends.sim.network import Acting
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.transport import PacketLoss, kinds_named
from nemesis.faults import Packets
from reference.errors import ErrorCode
from reference.events import AnyEvent, ConnectionLost, Received
from reference.messages import LogInfo, LogInfoReply, Metadata, MetadataReply, Produce, ProduceReply
from reference.types import Address, BrokerId, ControllerEpoch, Incarnation, Millis, TopicPartition
from tests.highwater.backends.sim.simulations import simulation

T0 = TopicPartition("t-0")


class Process:
    """Keeps the events that it gets, and sends no answers by itself."""

    def __init__(self, on: Simulation, address: str) -> None:
        self.sim = on
        self.address = Address(address)
        self.life = 1
        self.up = True
        self.told: list[AnyEvent] = []
        on.transport.join(self)

    def take(self, source: str, event: AnyEvent) -> None:
        self.told.append(event)

    def messages(self) -> list[object]:
        return [event.message for event in self.told if isinstance(event, Received)]

    def send(self, to: "Process", message: Metadata | MetadataReply | Produce | ProduceReply | LogInfo | LogInfoReply) -> None:
        self.sim.transport.send(self, to.address, message)

    def correlation(self) -> int:
        """The correlation of the last request."""
        event = self.told[-1]
        assert isinstance(event, Received)
        return event.message.correlation

    def die(self) -> None:
        self.up = False
        self.sim.transport.ended(self.address, silent_ns=None)

    def live_again(self) -> None:
        self.up = True
        self.life += 1


def pair() -> tuple[Simulation, Process, Process]:
    on = simulation()
    return on, Process(on, "b1"), Process(on, "b2")


def run(on: Simulation, ms: int = 100) -> None:
    on.scheduler.run_until(on.scheduler.now + ms * MS)


def log_info(correlation: int) -> LogInfo:
    return LogInfo(correlation, BrokerId(1), ControllerEpoch(1), Incarnation(1), (T0,))


def test_answer_has_the_correlation_of_its_request() -> None:
    on, asker, server = pair()
    asker.send(server, Metadata(41))
    asker.send(server, Metadata(42))
    run(on)
    server.send(asker, MetadataReply(server.correlation(), (), ()))
    run(on)

    assert len(server.messages()) == 2
    assert asker.messages() == [MetadataReply(42, (), ())]


def test_second_answer_to_one_request_is_dropped() -> None:
    on, asker, server = pair()
    asker.send(server, Metadata(1))
    run(on)
    for _ in range(2):
        server.send(asker, MetadataReply(server.correlation(), (), ()))
    run(on)

    assert len(asker.messages()) == 1


def test_answer_is_lost_if_the_requester_restarted() -> None:
    """Both lives number their requests from 1, so the answer would match another request."""
    on, asker, server = pair()
    asker.send(server, Metadata(1))
    run(on)
    first = server.correlation()
    asker.die()
    asker.live_again()
    asker.send(server, Metadata(1))
    run(on)
    server.send(asker, MetadataReply(first, (BrokerId(1),), ()))
    run(on)
    assert asker.messages() == []

    server.send(asker, MetadataReply(server.correlation(), (), ()))
    run(on)
    assert asker.messages() == [MetadataReply(1, (), ())]


def test_peers_of_a_dead_process_learn_of_the_loss() -> None:
    on, asker, server = pair()
    asker.send(server, Metadata(1))
    run(on)
    server.die()
    run(on)

    assert asker.told == [ConnectionLost(server.address)]


def test_peers_of_a_host_without_power_notice_late() -> None:
    on, asker, server = pair()
    asker.send(server, Metadata(1))
    run(on)
    server.up = False
    on.transport.ended(server.address, silent_ns=2000 * MS)
    run(on, 1900)
    early = list(asker.told)
    run(on, 200)

    assert early == []
    assert asker.told == [ConnectionLost(server.address)]


def test_connection_to_a_stopped_process_is_refused() -> None:
    on, asker, server = pair()
    server.die()
    asker.send(server, Metadata(1))
    run(on)

    assert server.told == []
    assert asker.told == [ConnectionLost(server.address)]


def test_new_connection_reaches_the_restarted_process() -> None:
    on, asker, server = pair()
    asker.send(server, Metadata(1))
    run(on)
    server.die()
    run(on)
    server.live_again()
    asker.send(server, Metadata(2))
    run(on)
    server.send(asker, MetadataReply(server.correlation(), (), ()))
    run(on)

    assert asker.messages() == [MetadataReply(2, (), ())]


def lossy(on: Simulation, fault: Packets) -> Acting:
    acting = Acting("f1", "b1")
    on.transport.lose(on.network.link("b1", "b2"), PacketLoss(acting, fault))
    return acting


def test_packets_fault_drops_control_requests() -> None:
    on, asker, server = pair()
    acting = lossy(on, Packets(drop_per_mille=1000))
    asker.send(server, log_info(1))
    run(on)

    assert server.told == []
    assert acting.count == 1


def test_answers_to_both_copies_of_a_request_reach_its_sender() -> None:
    on, asker, server = pair()
    lossy(on, Packets(duplicate_per_mille=1000))
    asker.send(server, log_info(7))
    run(on, 10_000)
    first, second = (event.message.correlation for event in server.told if isinstance(event, Received))
    server.send(asker, LogInfoReply(first, ErrorCode.NONE))
    server.send(asker, LogInfoReply(second, ErrorCode.NONE))
    run(on)

    assert first != second
    assert asker.messages() == [LogInfoReply(7, ErrorCode.NONE)] * 2


def test_duplicated_request_may_reach_the_restarted_node() -> None:
    """Kafka's controllers repeat unanswered requests; a broker must check the incarnation to which they are sent."""
    on, asker, server = pair()
    lossy(on, Packets(duplicate_per_mille=1000))
    asker.send(server, log_info(1))
    run(on, 4)
    assert len(server.told) == 1
    server.die()
    server.live_again()
    run(on, 10_000)

    assert len(server.told) == 2


def test_request_copy_may_reach_a_node_after_many_restarts() -> None:
    """A life must refuse requests that were sent to an earlier life (KIP-380)."""
    on, asker, server = pair()
    lossy(on, Packets(duplicate_per_mille=1000, copy_late_ms_max=30_000))
    for correlation in range(20):
        asker.send(server, log_info(correlation))
    run(on, 5)
    server.die()
    server.live_again()
    before = len(server.told)
    run(on, 31_000)

    assert before == 20
    assert len(server.told) == 40


def test_packets_fault_reorders_messages() -> None:
    on, asker, server = pair()
    acting = lossy(on, Packets(reorder_per_mille=1000))
    for correlation in range(20):
        asker.send(server, LogInfo(correlation, BrokerId(1), ControllerEpoch(correlation), Incarnation(1), (T0,)))
    run(on, 10_000)
    order = [message.controller_epoch for message in server.messages() if isinstance(message, LogInfo)]

    assert sorted(order) == list(range(20))
    assert order != sorted(order)
    assert acting.count == 20


def test_packets_fault_never_touches_client_requests() -> None:
    on = simulation()
    asker, server, acting = Process(on, "c1"), Process(on, "b2"), Acting("f1", "b2")
    on.transport.lose(on.network.link("c1", "b2"), PacketLoss(acting, Packets(drop_per_mille=1000)))
    asker.send(server, Produce(1, T0, -1, ("v",), Millis(100)))
    run(on)

    assert len(server.told) == 1
    assert acting.count == 0


def test_message_kinds_are_named_as_in_plans() -> None:
    assert kinds_named(("log-info", "produce")) == frozenset({LogInfo, Produce})
