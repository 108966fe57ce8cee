"""Producers that do not wait: `send` returns at once, and the records go out in the background (the 0.8 article, R-130).

They work beside the other producers of a workload, each at the same rate; the k-th value of the i-th is "a<i>-<k>", both from 0.

A producer hands its records over by the operation `send`, which ends at once and promises nothing. Behind it are `in_flight`
senders. Each takes the oldest records that wait, with those of the same partition and acks, at most BATCH_MAX, and produces them
as one batch, which the client sends again up to `retries` times (message.send.max.retries). What a sender gives up it writes to
the log of the producer, by the operation `log`, with the error. Nobody else learns of it: "the user can only discover the problem
through the log". A batch of unknown outcome is logged, too, although it may be in the partition.

A sender is a process of its own, since a process has one operation open at a time. After phase "faults" a producer asks for its
acknowledgements itself, like all others, and its senders send what still waits. Done in phase "final", when nothing waits.
"""

from collections import deque

from msgspec.structs import replace

from history.op import OpType
from history.seed import Draws
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters
from workloads.produce_consume import Producer

BATCH_MAX = 10  # records of one batch, of batch.num.messages
LINGER_MS = 20  # between two looks of a sender that has nothing to send


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the asynchronous producers of the parameters, each followed by its senders."""
    spec = parameters.asynchronous
    assert spec is not None
    senders: list[Process] = []
    for number in range(spec.producers):
        waiting: deque[Invocation] = deque()
        senders.append(AsynchronousProducer(number, Draws(draws), parameters, waiting))
        senders += [Sender(waiting, spec.retries) for _ in range(spec.in_flight)]
    return tuple(senders)


class AsynchronousProducer(Producer):
    """A producer that hands its records over; `waiting` is the queue between it and its senders."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters, waiting: deque[Invocation]) -> None:
        super().__init__(number, draws, replace(parameters, idempotent=0))
        self._name = f"a{number}"
        self._waiting = waiting

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next send at its due time; after the faults a produce whose acknowledgement the producer waits for."""
        step = super().next(now_ms=now_ms, phase=phase)
        if phase == "faults" and isinstance(step, Invocation):
            self._invocation_open = step = replace(step, f="send")
        return step

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Let the records wait for a sender."""
        super().completed(invocation, completion)
        if invocation.f == "send":
            self._waiting.append(invocation)


class Sender:
    """Sends in the background what an asynchronous producer has handed over, one batch at a time, and logs what it gives up."""

    def __init__(self, waiting: deque[Invocation], retries: int) -> None:
        self._waiting = waiting
        self.retries = retries
        self._given_up: Invocation | None = None

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The entry in the log for the last batch, or the next batch."""
        if self._given_up is not None:
            return self._given_up
        if self._waiting:
            return self._batch()
        return Done() if phase == "final" else Sleep(LINGER_MS)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """A batch that was not acknowledged is given up: the client has sent it again as often as it may."""
        is_lost = invocation.f == "produce" and completion.type is not OpType.OK
        self._given_up = replace(invocation, f="log", logged=completion.error) if is_lost else None

    def _batch(self) -> Invocation:
        """The oldest records that wait, and more of their partition behind them."""
        first = self._waiting[0]
        fits = [send for send in self._waiting if _destination(send) == _destination(first)]
        taken = fits[: max(1, BATCH_MAX // len(first.values))]
        for send in taken:
            self._waiting.remove(send)
        values = tuple(value for send in taken for value in send.values)
        return replace(first, f="produce", values=values, retries=self.retries)


def _destination(send: Invocation) -> tuple[str, int, int]:
    return send.topic, send.partition, send.acks
