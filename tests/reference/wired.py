"""A table-top cluster whose brokers write to each other over the wire, and that tells what all of its processes do.

A message to another broker goes through the bytes of the layout that its sender speaks, there and back, as between real nodes, so
it loses what the layout lacks. Records are bytes. A transcript needs no survival, so neither promises nor rules are judged here.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Protocol as Port

from msgspec.structs import replace

from history.seed import Rng
from monitors.engine import Watch
from reference.config import NEWEST, SAFE, BrokerConfig, Protocol, layouts_of
from reference.effects import AnyEffect, Note, Send, ZkConnect, ZkRequest
from reference.events import AnyEvent, Received, ZkReplied, ZkState, ZkWatch
from reference.messages import AnyMessage, FetchReply, LeaderAndIsr, Produce, Reply, StopReplica
from reference.replica.partition import Partition
from reference.sealed import count
from reference.types import Address, BrokerId, TopicPartition, broker_at
from server.wire.clients.exchange import Heard
from server.wire.codec import NodeReply, NodeRequest, read_reply, read_request, reply_frame, request_frame, version_of
from server.wire.control import Sender
from server.wire.framing import WireError, read_request_header
from server.wire.records import LENGTH_FROM, sealed
from tests.reference.lab import Directory, Envelope
from tests.reference.suffering import Cluster, Promises

CLIENT = Address("c3")  # of the program with `reference.client`
CONNECTION = "k"  # and a number: of a connection of a Kafka client
PAST_MAX = 300  # messages that may arrive once more
DIRS_MAX = 3
# Drawn for each storm: the largest and smallest of a size, and the shortest times, come into play, too.
SETTINGS: dict[str, tuple[int | None, ...]] = {
    "fetch_max_bytes": (None, 300),  # three or four batches
    "fetch_max_records": (3, 500),
    "lag_max_records": (2, 4000),
    "lag_min_records": (1, 2),
    "producer_id_block_size": (2, 1000),
    "replica_lag_time_max_ms": (1500, 4000),
    "reassign_interval_ms": (1000, 4000),
    "controlled_shutdown_max_retries": (1, 3),
}
_FRAME_LENGTH_BYTES = 4
_WRITTEN_BY_BROKERS = LENGTH_FROM + 4  # the first bytes of a batch, with base offset and leader epoch


class Recorder(Port):
    """Takes what happens, in order: who, the kind, the data, and the bytes of the wire if it was a message between brokers."""

    def __call__(self, who: str, kind: str, what: object, frame: bytes = b"") -> None: ...


class _Unjudged(Promises):
    """Judges nothing."""

    def look(self, i: int, life: int, partitions: Mapping[TopicPartition, Partition]) -> None:
        pass


class _Blind(Watch):
    """Sees nothing. Rules may assume what holds between right brokers, such as that an answer is one to its request."""

    def __init__(self) -> None:
        pass

    def turn(self, event: AnyEvent, effects: Sequence[AnyEffect]) -> list[Note]:
        return []


class WiredCluster(Cluster):
    """`upgrades`: at each start it is drawn anew whether a broker speaks `speaks` or the newest protocol."""

    def watch_of(self, i: int) -> Watch:
        return _Blind()

    def __init__(
        self, rng: Rng, protocol: str, log_dirs: int, speaks: Protocol, *, recorder: Recorder, upgrades: bool = False
    ) -> None:
        self.record = recorder
        self.spoken = (speaks, NEWEST) if upgrades else (speaks,)
        self.past: deque[Envelope] = deque(maxlen=PAST_MAX)
        self.versions: dict[tuple[Address, Address, int], int] = {}  # of requests, by sender, receiver and correlation
        self.received: dict[tuple[Address, Address, int], tuple[NodeRequest, int]] = {}  # the last one, by the same
        self.topic_names: dict[int, str] = {}
        self.opened: dict[bytes, tuple[str, ...]] = {}  # the values of each batch that a client sent
        self.replies: deque[tuple[Address, AnyMessage]] = deque()  # on their way to CLIENT
        self.answers: deque[tuple[Address, Heard]] = deque()  # on their way to a connection of a Kafka client
        self.late: dict[int, deque[ZkRequest]] = {}  # by broker whose requests to ZooKeeper take time: those on their way
        self.unused: defaultdict[int, list[Directory]] = defaultdict(list)  # directories that are not configured now
        self.settings = {name: rng.pick(values) for name, values in SETTINGS.items()}
        super().__init__(rng, protocol, log_dirs, speaks)
        self.promises = _Unjudged()

    def start(self, i: int) -> None:
        """Start a process, perhaps with other directories, another release or another protocol than its last one."""
        if self.process_numbers[i] and self.rng.ratio(1, 6):
            self._change_directories(i)
        speaks = self.rng.pick(self.spoken)
        oldest = NEWEST if speaks == "legacy" else speaks
        self.configs[i] = replace(
            self.configs[i],
            **self.settings,
            inter_broker_protocol=speaks,
            release=oldest if self.rng.ratio(1, 4) else NEWEST,
            port=9000 + i,
            log_dirs=len(self.disks[i].dirs),
        )
        self.record(f"b{i}", "settings", (self.configs[i], BrokerConfig(broker=BrokerId(i), variant=SAFE, topics=())))
        super().start(i)

    def _change_directories(self, i: int) -> None:
        """Configure one directory more, a new one or one from before, or one less."""
        dirs, unused = self.disks[i].dirs, self.unused[i]
        if len(dirs) > 1 and self.rng.ratio(1, 2):
            unused.append(dirs.pop(self.rng.below(len(dirs))))
        elif len(dirs) < DIRS_MAX:
            dirs.append(unused.pop() if unused and self.rng.ratio(3, 4) else Directory())
        self.durable = {place: batches for place, batches in self.durable.items() if place[0] != i}
        self.durable |= {(i, n, tp): len(log) for n, directory in enumerate(dirs) for tp, log in directory.logs.items()}

    def serve(self, i: int) -> None:
        """Let the oldest request of a slow broker arrive at ZooKeeper."""
        if self.late[i]:
            super()._do(i, self.late[i].popleft())

    def quicken(self, i: int) -> None:
        """End the delay of a broker's requests; those on their way arrive in their order."""
        while self.late.get(i):
            self.serve(i)
        self.late.pop(i, None)

    def expire(self, i: int) -> None:
        self.quicken(i)
        super().expire(i)

    def cut_off(self, i: int) -> None:
        super().cut_off(i)
        self.quicken(i)  # it is cut off, so nobody hears whether they arrived

    def crash(self, i: int) -> None:
        for request in self.late.pop(i, ()):
            if self.rng.ratio(1, 2):  # it was sent before the end
                _, fired = self.zk.submit(self.sessions[i], request.ops, atomic=request.atomic)
                self.deliver_watches(fired)
        super().crash(i)

    def handle_event(self, i: int, event: AnyEvent) -> None:
        match event:
            case Received(source=source, message=Produce(values=tuple() as values) as produce):
                identity = (produce.producer_id, produce.producer_epoch, produce.base_sequence)
                batch = sealed(values, producer_id=identity[0], producer_epoch=identity[1], base_sequence=identity[2])
                self.opened[batch[_WRITTEN_BY_BROKERS:]] = values
                event = Received(source, replace(produce, values=batch))
            case Received(message=Produce(values=bytes() as sealed_values)):
                self.opened[sealed_values[_WRITTEN_BY_BROKERS:]] = ("of a Kafka client",) * count(sealed_values)
            case ZkReplied() | ZkWatch() | ZkState():
                self.record(f"b{i}", "", event)
            case _:
                pass
        super().handle_event(i, event)

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if not isinstance(effect, Send) or not effect.to.startswith("b"):
            self.record(f"b{i}", "", effect)
        return super()._perform(i, effect)

    def _do(self, i: int, effect: AnyEffect) -> None:
        match effect:
            case Send(to=to, message=message) if to.startswith("b"):
                read = self._over_the_wire(Address(f"b{i}"), to, message)
                if read is not None:
                    super()._do(i, Send(to, read))
                    self.past.append(self.in_flight[-1])
            case Send(to=to, message=message) if to == CLIENT:
                self.replies.append((Address(f"b{i}"), self._opened(message)))
            case Send(to=to, message=message) if to.startswith(CONNECTION):
                assert isinstance(message, Reply)
                self.answers.append((to, message))
            case ZkRequest() if i in self.late and i not in self.cut_off_from_zk:
                self.late[i].append(effect)
            case ZkConnect():
                self.quicken(i)
                super()._do(i, effect)
            case _:
                super()._do(i, effect)

    def _hand_over(self, envelope: Envelope) -> None:
        sender, receiver, message = envelope
        key = (sender, receiver, message.correlation)
        if isinstance(message, NodeRequest) and key in self.versions:
            self.received[key] = (message, self.versions[key])
        super()._hand_over(envelope)

    def _opened(self, message: AnyMessage) -> AnyMessage:
        """A reply to a program, whose batches a consumer has opened."""
        if not isinstance(message, FetchReply):
            return message
        opened = (
            replace(batch, values=self.opened[batch.values[_WRITTEN_BY_BROKERS:]])
            for batch in message.batches
            if isinstance(batch.values, bytes)
        )
        return replace(message, batches=tuple(opened))

    # --- the wire -------------------------------------------------------------------------------------------------------------

    def _over_the_wire(self, sender: Address, receiver: Address, message: AnyMessage) -> AnyMessage | None:
        """A message between brokers as its receiver reads it; None if its release does not know the layout.

        A process hands messages to itself as they are.
        """
        if sender == receiver:
            self.record(sender, "", Send(receiver, message))
            return message
        if isinstance(message, NodeRequest):
            return self._request_over_the_wire(sender, receiver, message)
        assert isinstance(message, NodeReply)
        asked = self.received.get((receiver, sender, message.correlation))
        if asked is None or type(message).__name__ != f"{type(asked[0]).__name__}Reply":
            # The request was of an earlier life, whose connection has ended.
            self.record(sender, "", Send(receiver, message))
            return message
        frame = reply_frame(*asked, message)
        read = read_reply(*asked, frame[_FRAME_LENGTH_BYTES:])
        self.record(sender, "", Send(receiver, message), frame)
        if reply_frame(*asked, read) != frame:
            self.record(sender, f"{type(message).__name__} read otherwise", Send(receiver, read))
        return read

    def _request_over_the_wire(self, sender: Address, receiver: Address, request: NodeRequest) -> NodeRequest | None:
        config = self.configs[broker_at(sender)]
        addresses = {BrokerId(i): (each.host, each.port) for i, each in self.configs.items()}
        beside = Sender(ack_timeout_ms=config.request_timeout_ms, addresses=addresses)
        version = version_of(request, layouts_of(config))
        frame = request_frame(request, version=version, client_id=sender, sender=beside)
        body = frame[_FRAME_LENGTH_BYTES:]
        header, at = read_request_header(body)
        release = self.configs[broker_at(receiver)].release
        self.versions[sender, receiver, request.correlation] = version
        self.record(sender, "", Send(receiver, request), frame)
        try:
            read = read_request(header, body, at, self._topic_of, release)
        except WireError as error:
            self.record(receiver, "requests that a release does not know", str(error))
            return None
        again = request_frame(read, version=version, client_id=sender, sender=beside)
        if isinstance(read, LeaderAndIsr | StopReplica) and isinstance(request, LeaderAndIsr | StopReplica):
            read = replace(read, number=request.number)  # the position in a channel, which no layout has
        if again != frame or (version == version_of(request, NEWEST) and read != request):
            self.record(sender, f"{type(request).__name__} read otherwise", Send(receiver, read))
        return read

    def _topic_of(self, topic_id: int) -> str | None:
        """The topic that has or had this id."""
        if topic_id not in self.topic_names:
            for name, znode in self.topics().items():
                self.topic_names[znode.czxid] = name
        return self.topic_names.get(topic_id)
