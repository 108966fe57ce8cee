"""One request of a client and what it takes to answer it.

An exchange is a generator. It asks through its `Call`, one message for each partition, yields to wait for the next answer, and
returns the response: a Struct that `server.wire.entities` writes, or None where the client wants no response. It raises
`HangUpError` where nothing but a broken connection tells the client what it has to know.
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
    """The connection is to be closed; the message says why."""


class Facing(Struct, frozen=True, kw_only=True):
    """How a broker looks from one listener: where each broker is reached, and the limits that it holds clients to."""

    broker: BrokerId
    advertised: dict[BrokerId, tuple[str, int]]
    batch_bytes_max: int = 1_048_588  # message.max.bytes
    response_bytes_max: int = 16 * 1024 * 1024  # of the records of one response; a batch above it still comes, alone
    partitions_max: int = 1000  # of a new topic
    cluster_id: str = "highwater"


class Call:
    """What an exchange knows of its request, and where it asks. `now_ms` is that of the answer it was last told."""

    __slots__ = ("_numbers", "asks", "facing", "now_ms", "version")

    def __init__(self, facing: Facing, version: int, numbers: "Numbers", now_ms: int) -> None:
        self.facing = facing
        self.version = version
        self.now_ms = now_ms
        self.asks: list[Ask] = []
        self._numbers = numbers

    def number(self) -> int:
        """A correlation for one more question."""
        return self._numbers.next()

    def ask(self, question: Ask) -> None:
        """Put a question; its answer comes from a later `yield`.

        HangUpError beyond ASKS_MAX at a time: so long would everybody else wait.
        """
        if len(self.asks) >= ASKS_MAX:
            raise HangUpError(f"more than {ASKS_MAX} partitions in one request")
        self.asks.append(question)


class Numbers:
    """Counts the questions of one connection."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """One that was not used yet."""
        self._last += 1
        return self._last


# --- what several exchanges begin with -------------------------------------------------------------------------------------


def metadata_of(call: Call) -> Generator[None, Heard, MetadataReply]:
    """What this broker knows of the cluster."""
    call.ask(Metadata(call.number()))
    reply = yield
    assert isinstance(reply, MetadataReply)
    return reply


def pause(call: Call, ms: int) -> Generator[None, Heard, None]:
    """Let time pass."""
    call.ask(Pause(call.number(), Millis(ms)))
    reply = yield
    assert isinstance(reply, Done)
