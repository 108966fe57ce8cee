"""Requests between simulated brokers in the layouts of older versions of the inter-broker protocol (R-316).

Such a request goes through the bytes of its layout, there and back, so that it loses exactly the fields that the layout lacks.
Requests in today's layouts, which have all fields, are not encoded.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeGuard, TypeVar, get_args

from reference.config import NEWEST, BrokerConfig, layouts_of
from reference.messages import ControlRequest, Message, Reply, Request
from reference.types import Address, BrokerId
from server.wire.codec import APIS, NodeReply, read_reply, read_request, reply_frame, request_frame, version_of
from server.wire.control import Sender
from server.wire.framing import read_request_header, response_body_at
from server.wire.versions import is_known

M = TypeVar("M", bound=Message)
_LENGTH_BYTES = 4  # of a frame, before its header
_CONTROL: frozenset[type] = frozenset(get_args(ControlRequest))


class Speaker(Protocol):
    """A simulated broker: its settings, which a roll changes."""

    config: BrokerConfig


class Layouts:
    """The versions in which simulated brokers write to each other."""

    def __init__(self, brokers: Mapping[Address, Speaker]) -> None:
        self._brokers = brokers
        self.tap: Callable[[int, bytes, Message], None] | None = None  # called with version, body and what is read of it

    def sent(self, sender: Address, request: Request) -> tuple[Request, int | None]:
        """The request as its layout has it, and its version; without a version where there is one layout only."""
        if not _is_control(request):
            return request, None
        config = self._brokers[sender].config
        version = version_of(request, layouts_of(config))
        if version == version_of(request, NEWEST):
            return request, version
        frame = request_frame(request, version=version, sender=self._beside(config))[_LENGTH_BYTES:]
        header, at = read_request_header(frame)
        return self._read(version, frame[at:], read_request(header, frame, at, lambda _: None)), version

    def knows(self, receiver: Address, request: Request, version: int) -> bool:
        """Whether the code of the receiver reads this version of the request."""
        return not _is_control(request) or is_known(self._brokers[receiver].config.release, APIS[type(request)], version)

    def answered(self, request: Request, version: int, reply: Reply) -> Reply:
        """The answer to a request of this version, as the layout of the answer has it."""
        if not _is_control(request) or version == version_of(request, NEWEST):
            return reply
        control_reply: NodeReply = reply  # type: ignore[assignment]  # it answers a control request
        frame = reply_frame(request, version, control_reply)[_LENGTH_BYTES:]
        body = frame[response_body_at(frame, APIS[type(request)], version) :]
        return self._read(version, body, read_reply(request, version, frame))

    def _read(self, version: int, body: bytes, message: M) -> M:
        if self.tap is not None:
            self.tap(version, body, message)
        return message

    def _beside(self, config: BrokerConfig) -> Sender:
        addresses = {each.config.broker: (each.config.host, each.config.port) for each in self._brokers.values()}
        return Sender(ack_timeout_ms=config.request_timeout_ms, addresses=dict[BrokerId, tuple[str, int]](addresses))


def _is_control(request: Request) -> TypeGuard[ControlRequest]:
    return request.__class__ in _CONTROL
