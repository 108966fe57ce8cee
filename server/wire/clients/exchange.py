"""Exchanges: one request of a client is answered by asking the broker machine one or more questions.

An exchange is a generator. It sends messages to the machine and tasks to the process through its `Call`, one for each partition,
and yields to wait for the next answer. It returns the response, a Struct that `server.wire.entities` encodes, or None if no
response is wanted. It raises `HangUpError` if only a broken connection can inform the client.
"""

from collections.abc import Generator

from msgspec import Struct

from reference.messages import Metadata, MetadataReply, Reply, Request
from reference.types import BrokerId, Millis
from server.wire.clients.tasks import AnyResult, AnyTask, Done, Pause
from server.wire.framing import WireError

ASKS_MAX = 10_000

Ask = Request | AnyTask
Heard = Reply | AnyResult
Exchange = Generator[None, Heard, Struct | None]


class HangUpError(WireError):
    """The client's connection must be closed; the message is the reason."""


class Facing(Struct, frozen=True, kw_only=True):
    """A broker as the clients of one listener see it: the addresses of all brokers, and the limits for clients."""

    broker: BrokerId
    advertised: dict[BrokerId, tuple[str, int]]
    batch_bytes_max: int = 1_048_588  # message.max.bytes
    response_bytes_max: int = 16 * 1024 * 1024  # of the records of one response; a larger batch is still sent, alone
    partitions_max: int = 1000  # of a new topic
    cluster_id: str = "highwater"


class Call:
    """The context in which one client request is answered. `asks` collects its questions to the broker machine."""

    __slots__ = ("_numbers", "asks", "facing", "now_ms", "version")

    def __init__(self, facing: Facing, version: int, numbers: "Numbers", now_ms: int) -> None:
        self.facing = facing
        self.version = version
        self.now_ms = now_ms
        self.asks: list[Ask] = []
        self._numbers = numbers

    def number(self) -> int:
        """A new correlation id for a question to the broker machine."""
        return self._numbers.next()

    def ask(self, question: Ask) -> None:
        """Ask the broker machine (or the process); the answer is the value of a later `yield`.

        HangUpError if more than ASKS_MAX questions are asked at a time: they would delay all other connections.
        """
        if len(self.asks) >= ASKS_MAX:
            raise HangUpError(f"more than {ASKS_MAX} partitions in one request")
        self.asks.append(question)


class Numbers:
    """Correlation ids for the questions of one client connection to the broker machine, from 1."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """The next unused correlation id."""
        self._last += 1
        return self._last


# --- shared steps of exchanges ---------------------------------------------------------------------------------------------


def metadata_of(call: Call) -> Generator[None, Heard, MetadataReply]:
    """Ask the broker machine for its metadata of the cluster."""
    call.ask(Metadata(call.number()))
    reply = yield
    assert isinstance(reply, MetadataReply)
    return reply


def pause(call: Call, ms: int) -> Generator[None, Heard, None]:
    """Wait `ms` milliseconds before a client request is answered further."""
    call.ask(Pause(call.number(), Millis(ms)))
    reply = yield
    assert isinstance(reply, Done)
