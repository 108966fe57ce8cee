"""Administrators of a Kafka cluster: their requests are performed by the admin client of Java's kafka-clients.

The commands are those of the reference (`reference.client.commands`), so workloads and history rows are the same. What they mean
here:

* each kind of move is one request (AlterPartitionReassignments); a cancellation lists the moves under way and cancels each;
* a cancellation of Kafka's is over with its answer, so allowing moves again has nothing to do;
* a deletion that finds no topic is a success: the reference's administrator, too, only learns that the topic is gone.

A broker hands a request on to the controller, and again if the controller is deposed meanwhile, without saying so. An answer that
another request stands in the way may therefore be about the request itself: it is told as that of a repeated request.
"""

from collections.abc import Mapping
from typing import get_args

from msgspec.structs import asdict, replace

from highwater.backends.real.clients import java
from highwater.backends.real.clients.kafka import RETRIED
from highwater.backends.real.clients.piped import PipedClient, PipedWorker
from highwater.backends.real.site import HostPort
from highwater.errors import HarnessError
from highwater.rig.administration import AdminCommand, AlterConfig
from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Reply
from reference.client.commands import (
    AddPartition,
    AllowReassignments,
    CancelReassignments,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    ListPending,
    Reassign,
    RequestReassignment,
)
from reference.errors import ErrorCode
from reference.types import Address
from workloads.client import RequestF

# No request of Kafka's removes a partition or deposes a controller, and administrators edit no znodes.
_LACKED = ("remove-partition", "depose-controller", "edit-znode")
REQUESTS: tuple[RequestF, ...] = tuple(request for request in get_args(RequestF) if request not in _LACKED)
OPENINGS_MAX = 6  # each waits some seconds for an answer: a busy machine is slow to start
_GONE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name


class Administrators:
    """The administrators of one run, which share a process of the Java client of this version."""

    def __init__(self, version: str, *, settings: Mapping[str, Mapping[str, str]], request_timeout_ms: int) -> None:
        """`settings`: those of each topic that may be created, by topic."""
        self.settings = settings
        self._worker = PipedWorker(lambda: java.command(version))
        self._timeout_ms = request_timeout_ms
        self._users: set[Address] = set()
        self._opened = False

    def administrator(self, name: Address, brokers: Mapping[Address, HostPort]) -> "KafkaAdministrator":
        """The administrator with this name, who reaches the brokers at these addresses."""
        client = PipedClient(name, brokers, self._worker, self._users, request_timeout_ms=self._timeout_ms)
        return KafkaAdministrator(client, self)

    async def open(self, client: PipedClient) -> None:
        """Start the process, and load what a request needs. HarnessError if it does not start, or reaches no broker."""
        if self._opened:
            return
        self._opened = True
        for _ in range(OPENINGS_MAX):
            reply = await client.administer("ListPending", {"id": 0, "timeout_ms": ADMIN_TIMEOUT_MS})
            if reply.error is None:
                return
        raise HarnessError(f"an administrator cannot reach the cluster: {reply.error}")


class KafkaAdministrator:
    """Performs the admin commands of one client process, one at a time."""

    def __init__(self, client: PipedClient, administrators: Administrators) -> None:
        self._client = client
        self._administrators = administrators

    async def open(self) -> None:
        """Start the process that all administrators share, unless another one did. HarnessError if it does not start."""
        await self._administrators.open(self._client)

    async def call(self, command: AdminCommand) -> Reply:
        """Have a command performed, and wait until it is done or refused, at most about ADMIN_TIMEOUT_MS."""
        if isinstance(command, AllowReassignments):
            return Reply(id=command.id, attempts=1)
        act, call = self._request(command)
        reply = await self._client.administer(act, {"id": command.id, "timeout_ms": ADMIN_TIMEOUT_MS, **call})
        if isinstance(command, DeleteTopic) and reply.error == _GONE:
            return replace(reply, error=None)
        return reply if reply.error is None else replace(reply, earlier=(*reply.earlier, RETRIED))

    def _request(self, command: AdminCommand) -> tuple[str, dict[str, object]]:
        """The act of the Java client that performs the command, and its parameters."""
        match command:
            case CreateTopic(topic=topic, assignment=assignment):
                return "CreateTopic", {
                    "topic": topic,
                    "assignment": assignment,
                    "settings": dict(self._administrators.settings.get(topic, {})),
                }
            case Reassign(tp=tp, replicas=replicas) | RequestReassignment(tp=tp, replicas=replicas):
                return "Reassign", {"tp": tp, "replicas": replicas}
            case ElectPreferred(tps=(tp,)) | ElectUnclean(tps=(tp,)):
                return type(command).__name__, {"tp": tp}
            case DeleteTopic() | AddPartition() | CancelReassignments() | ListPending() | AlterConfig():
                return type(command).__name__, asdict(command)
            case _:
                raise AssertionError(f"the system refuses plans with {command} before the run")

    async def close(self) -> None:
        """Close the administrator after the command in progress."""
        await self._client.close()


class Idle:
    """The administrator of a client process of a plan in which nobody administers."""

    async def open(self) -> None:
        """Nothing to do."""

    async def call(self, command: AdminCommand) -> Reply:
        """Never called."""
        raise AssertionError(f"nobody administers in this plan, and {command} was asked for")

    async def close(self) -> None:
        """Nothing to do."""
