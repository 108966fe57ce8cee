"""Counts the messages between simulated brokers by kind and error, so that a campaign can say which it has exercised."""

from collections import Counter
from typing import get_args

import msgspec

from highwater.plans.plan import kebab
from history.manifest import MessageCount
from reference.errors import ErrorCode
from reference.messages import AnyMessage, IsrChangeReply, Reply, Request, StopReplica

UNSUPPORTED = "unsupported-version"  # a request in a layout that its receiver does not know
DELETE = "delete"  # a StopReplica that also deletes the log is counted once more under this name


def _with_field(name: str) -> frozenset[type]:
    kinds = get_args(Reply)
    return frozenset(kind for kind in kinds if any(field.name == name for field in msgspec.structs.fields(kind)))


_WITH_ERRORS = _with_field("errors")  # one error for each partition, beside the error of the whole answer
_NAMES: dict[type, str] = {kind: kebab(kind.__name__) for kind in get_args(AnyMessage)}


class Traffic:
    """Counts the requests and answers of one simulated run, by kind and error."""

    __slots__ = ("_answered", "_request_counts")

    def __init__(self) -> None:
        self._request_counts: Counter[tuple[type, str]] = Counter()
        self._answered: Counter[tuple[type, ErrorCode | None]] = Counter()

    def asked(self, request: Request) -> None:
        """Count a request that reached a running process."""
        self._request_counts[request.__class__, ""] += 1
        if request.__class__ is StopReplica and any(stop.delete for stop in request.partitions):
            self._request_counts[StopReplica, DELETE] += 1

    def refused(self, request: Request) -> None:
        """Count a request in a layout that the release of the running process does not know."""
        self._request_counts[request.__class__, UNSUPPORTED] += 1

    def answered(self, reply: Reply) -> None:
        """Count an answer that reached the process that sent the request before that process ended."""
        kind = reply.__class__
        self._answered[kind, reply.error] += 1
        if kind in _WITH_ERRORS:
            for _, error in reply.errors:  # type: ignore[union-attr]  # looked up
                self._answered[kind, error] += 1
        elif isinstance(reply, IsrChangeReply):
            for result in reply.results:
                self._answered[kind, result.error] += 1

    def counts(self) -> tuple[MessageCount, ...]:
        """How often each kind of request and each error was seen, sorted."""
        requests = [
            MessageCount(kind=f"{_NAMES[kind]}:{what}" if what else _NAMES[kind], count=count)
            for (kind, what), count in self._request_counts.items()
        ]
        answers = [
            MessageCount(kind=_NAMES[kind], error=None if error is None else error.name, count=count)
            for (kind, error), count in self._answered.items()
        ]
        return tuple(sorted([*requests, *answers], key=lambda message_count: (message_count.kind, message_count.error or "")))
