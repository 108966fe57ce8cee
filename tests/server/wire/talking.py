"""One client connection against a machine that answers from a table, for the tests of client APIs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import (
    Batch,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    IsrMember,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    PartitionState,
    Produce,
    ProduceReply,
)
from reference.types import (
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicPartition,
    ZkVersion,
)
from server.wire.clients.exchange import Ask, Facing, Heard
from server.wire.clients.session import Session
from server.wire.clients.tasks import Directory, Dirs, Done, ListDirs, ListMoves, Moves, Pause, PendingMove
from server.wire.entities import read_response, write_request
from server.wire.framing import RequestHeader, encode_frame, encode_request_header, read_correlation, response_body_at
from server.wire.records import sealed

S = TypeVar("S", bound=Struct)
ME, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
ORDERS = TopicPartition("orders-0")
FACING = Facing(
    broker=ME,
    advertised={ME: ("one", 9092), OTHER: ("two", 9092), THIRD: ("three", 9092)},
    batch_bytes_max=2000,
    response_bytes_max=10_000,
)
SEALED = sealed(["a", "b"])


def state(tp: TopicPartition, leader: BrokerId | None = ME, *, offline: tuple[BrokerId, ...] = ()) -> PartitionState:
    """A partition on brokers 1 and 2."""
    isr = tuple(IsrMember(broker, Incarnation(7)) for broker in (ME, OTHER) if broker not in offline)
    return PartitionState(
        tp,
        leader,
        Incarnation(7),
        LeaderEpoch(4),
        isr,
        ControllerEpoch(1),
        ZkVersion(3),
        (ME, OTHER),
        offline=offline,
    )


def cluster(*states: PartitionState, controller: BrokerId | None = ME) -> Callable[[Ask], Heard]:
    """A table that answers as the leader of all these partitions; each log holds only SEALED at offset 0."""

    def answer(ask: Ask) -> Heard:
        match ask:
            case Metadata(n):
                return MetadataReply(n, (ME, OTHER, THIRD), states, controller=controller)
            case Produce(n, tp=tp):
                return ProduceReply(n, tp, ErrorCode.NONE, Offset(10), LeaderEpoch(4))
            case Fetch(n, tp=tp, offset=offset):
                batches = () if offset >= 2 else (Batch(Offset(0), LeaderEpoch(4), SEALED),)
                return FetchReply(n, tp, ErrorCode.NONE, LeaderEpoch(4), Offset(2), batches)
            case ListOffsets(n, tp=tp):
                return ListOffsetsReply(n, tp, ErrorCode.NONE, Offset(2), LeaderEpoch(4))
            case EpochEnd(n, tp=tp):
                return EpochEndReply(n, tp, ErrorCode.NONE, LeaderEpoch(3), Offset(2))
            case InitProducerId(n):
                return InitProducerIdReply(n, ErrorCode.NONE, ProducerId(77))
            case ListMoves(n):
                return Moves(n, ErrorCode.NONE, (PendingMove(ORDERS, (ME, THIRD), (ME, OTHER)),))
            case ListDirs(n):
                return Dirs(n, (Directory("/a", online=True, sizes=((ORDERS, 120),)), Directory("/b", online=False)))
            case _:
                return Done(ask.correlation)

    return answer


class Connection:
    """The connection. `answer_all` answers the asks from the table; a test may answer them one by one instead."""

    def __init__(
        self, table: Callable[[Ask], Heard], *, facing: Facing = FACING, in_flight: int = 8, request_bytes_max: int = 100_000
    ) -> None:
        self.session = Session(facing, request_bytes_max=request_bytes_max, in_flight_max=in_flight)
        self.now_ms = 0
        self._table = table
        self._last = 0

    def send(self, key: int, version: int, body: Struct) -> None:
        """Send one request."""
        self._last += 1
        header = RequestHeader(api_key=key, api_version=version, correlation=self._last, client_id="test")
        self.feed(encode_frame(encode_request_header(header), *write_request(key, version, body)))

    def feed(self, data: bytes) -> None:
        """Send raw bytes."""
        self.session.feed(data, self.now_ms)

    def asks(self) -> list[Ask]:
        """The asks since the last call; the caller must answer them."""
        asks, self.session.asks = self.session.asks, []
        return asks

    def hear(self, answer: Heard) -> None:
        """Answer one ask."""
        self.session.hear(answer, self.now_ms)

    def answer_all(self) -> list[Ask]:
        """Answer from the table until there are no more asks; returns all asks. A Pause advances `now_ms`."""
        all_asks: list[Ask] = []
        while asks := self.asks():
            all_asks += asks
            for ask in asks:
                if isinstance(ask, Pause):
                    self.now_ms += ask.ms
                self.hear(self._table(ask))
        return all_asks

    def frames(self) -> list[bytes]:
        """The responses since the last call, without their lengths."""
        out, self.session.out = self.session.out, []
        return [frame[4:] for frame in out]

    def response(self, key: int, version: int, kind: type[S]) -> S:
        """The single response since the last call, decoded."""
        (frame,) = self.frames()
        return read_response(key, version, kind, frame, response_body_at(frame, key, version))

    def call(self, key: int, version: int, body: Struct, kind: type[S]) -> S:
        """Send a request, answer its asks from the table and return its response."""
        self.send(key, version, body)
        self.answer_all()
        return self.response(key, version, kind)


def correlations(frames: list[bytes]) -> list[int]:
    """The correlation ids of responses."""
    return [read_correlation(frame) for frame in frames]


class StockRequest(Struct, frozen=True):
    """A recorded request: client, API, version, and the frame without its length."""

    client: str
    api: str
    version: int
    frame: bytes


def stock_requests() -> list[StockRequest]:
    """Requests of confluent-kafka 2.16, kafka-python 3.0 and aiokafka 0.14 that use a topic `orders` with two partitions."""
    lines = (Path(__file__).parent / "stock_requests.txt").read_text(encoding="ascii").splitlines()
    rows = [line.split() for line in lines]
    return [StockRequest(client, api, int(version), bytes.fromhex(frame)) for client, api, version, frame in rows]
