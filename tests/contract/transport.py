"""The contract of the network between nodes, simulated or real.

A subclass provides a `bench`: b1 sends requests and b2 replies. b2 replies to the address and with the correlation id of the
request; b1 receives the reply from "b2" with its own correlation id.
"""

from collections.abc import Callable
from typing import Protocol

from reference.errors import ErrorCode
from reference.events import ConnectionLost, Received
from reference.messages import LogInfo, LogInfoReply
from reference.types import Address, BrokerId, ControllerEpoch, Incarnation, TopicPartition

B1, B2 = Address("b1"), Address("b2")


class Bench(Protocol):
    """The nodes b1 and b2."""

    server: list[Received]  # events of b2
    client: list[Received | ConnectionLost]  # events of b1

    def ask(self, request: LogInfo) -> None:
        """Send a request from b1 to b2."""

    def answer(self, to: Address, reply: LogInfoReply) -> None:
        """Send a reply from b2."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until the condition holds; fail if it never does."""

    def settle(self) -> None:
        """Let time pass until no message is in flight."""

    def end_server(self) -> None:
        """Kill the process of b2."""

    def begin_server(self) -> None:
        """Start another process of b2."""


def question(correlation: int) -> LogInfo:
    return LogInfo(correlation, BrokerId(1), ControllerEpoch(1), Incarnation(7), (TopicPartition("t-0"),))


class TransportContract:
    """The tests."""

    def answer(self, bench: Bench, at: int) -> None:
        """Reply to the request at index `at` of b2's events."""
        asked = bench.server[at]
        bench.answer(asked.source, LogInfoReply(asked.message.correlation, ErrorCode.NONE))

    def replies(self, bench: Bench) -> list[tuple[Address, int]]:
        return [(event.source, event.message.correlation) for event in bench.client if isinstance(event, Received)]

    def test_requests_arrive_once_and_in_order(self, bench: Bench) -> None:
        for number in range(1, 51):
            bench.ask(question(number))
        bench.until(lambda: len(bench.server) == 50)
        bench.settle()
        for at in range(50):
            self.answer(bench, at)
        bench.until(lambda: len(bench.client) == 50)

        assert self.replies(bench) == [(B2, number) for number in range(1, 51)]
        assert len({event.message.correlation for event in bench.server}) == 50

    def test_replies_in_any_order_match_their_requests(self, bench: Bench) -> None:
        for number in (7, 8, 9):
            bench.ask(question(number))
        bench.until(lambda: len(bench.server) == 3)
        for at in (1, 2, 0):
            self.answer(bench, at)
        bench.until(lambda: len(bench.client) == 3)

        assert self.replies(bench) == [(B2, 8), (B2, 9), (B2, 7)]

    def test_second_reply_to_a_request_is_dropped(self, bench: Bench) -> None:
        bench.ask(question(1))
        bench.until(lambda: len(bench.server) == 1)
        self.answer(bench, 0)
        self.answer(bench, 0)
        bench.ask(question(2))
        bench.until(lambda: len(bench.server) == 2)
        self.answer(bench, 1)
        bench.until(lambda: len(bench.client) == 2)
        bench.settle()

        assert self.replies(bench) == [(B2, 1), (B2, 2)]

    def test_requester_learns_of_a_broken_connection(self, bench: Bench) -> None:
        bench.ask(question(1))
        bench.until(lambda: len(bench.server) == 1)
        bench.end_server()
        bench.until(lambda: bool(bench.client))

        assert bench.client == [ConnectionLost(B2)]

    def test_missing_node_is_reported_as_a_broken_connection(self, bench: Bench) -> None:
        bench.end_server()
        bench.ask(question(1))
        bench.until(lambda: bool(bench.client))

        assert bench.client == [ConnectionLost(B2)]
        assert bench.server == []

    def test_replies_to_an_old_connection_are_dropped(self, bench: Bench) -> None:
        bench.ask(question(1))
        bench.until(lambda: len(bench.server) == 1)
        bench.end_server()
        bench.until(lambda: bool(bench.client))
        bench.begin_server()
        self.answer(bench, 0)
        bench.ask(question(2))
        bench.until(lambda: len(bench.server) == 2)
        self.answer(bench, 1)
        bench.until(lambda: len(bench.client) == 2)
        bench.settle()

        assert self.replies(bench) == [(B2, 2)]
