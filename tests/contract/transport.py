"""What nodes may rely on from the network between them, simulated or real.

A subclass gives a `bench`: b1, who asks, and b2, who answers. Answers are given to the address and under the correlation that the
question came with, whatever these are: the asker sees its own.
"""

from collections.abc import Callable
from typing import Protocol

from reference.errors import ErrorCode
from reference.events import ConnectionLost, Received
from reference.messages import LogInfo, LogInfoReply
from reference.types import Address, BrokerId, ControllerEpoch, Incarnation, TopicPartition

B1, B2 = Address("b1"), Address("b2")


class Bench(Protocol):
    """Two nodes."""

    server: list[Received]  # what b2 heard
    client: list[Received | ConnectionLost]  # what b1 heard

    def ask(self, request: LogInfo) -> None:
        """b1 asks b2."""

    def answer(self, to: Address, reply: LogInfoReply) -> None:
        """b2 answers."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Time passes until it holds; fails where it never does."""

    def settle(self) -> None:
        """So much time passes that nothing is on its way any more."""

    def end_server(self) -> None:
        """The process of b2 dies."""

    def begin_server(self) -> None:
        """Another one is there."""


def question(correlation: int) -> LogInfo:
    return LogInfo(correlation, BrokerId(1), ControllerEpoch(1), Incarnation(7), (TopicPartition("t-0"),))


class TransportContract:
    """The suite."""

    def answer(self, bench: Bench, at: int) -> None:
        """To the question that b2 heard there."""
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
