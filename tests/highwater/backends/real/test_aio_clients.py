"""aiokafka as the client library of a plan: what is refused, how a release is installed, and the program that runs it."""

import asyncio
import contextlib
import importlib.metadata
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import CommitFailedError, IllegalGenerationError, KafkaConnectionError, NodeNotReadyError
from msgspec.structs import replace

from highwater.backends.real.clients import aio_kafka, libraries
from highwater.backends.real.clients.aio import members, settings
from highwater.backends.real.clients.aio.logs import Logs
from highwater.backends.real.clients.aio.owners import LateError, Owner, follow_tasks
from highwater.backends.real.clients.piped import PipedClient, PipedWorker
from highwater.backends.real.systems.kafka import administration
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Membership, Plan
from highwater.plans.text import load_plan
from highwater.rig.attempts import Reply
from highwater.rig.sessions import CommitCall
from reference.client.calls import ProduceCall
from reference.types import Address, TopicPartition
from tests.tidy.sources import ROOT
from workloads.parameters import AutoCommit

INSTALLED = str(Path(aiokafka.__file__).parents[1])
PRODUCE = {"id": 1, "tp": "t-0", "values": ["a", "b"], "acks": -1, "retries": 0, "idempotent": False}
REQUEST = {
    "client": "c0",
    "brokers": "127.0.0.1:1",
    "timeout_ms": 50,
    "transactional_id": "x",
    "run": "",
    "membership": "",
    "auto_commit_ms": 0,
    "keyed": False,
}


def plan_with(client: str, **workload: Any) -> Plan:
    plan = load_plan(ROOT / "corpus" / "real" / "groups.yaml")
    return replace(plan, workload=replace(plan.workload, client=client, **workload))


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a scene in a loop that follows its tasks."""

    async def run() -> None:
        follow_tasks(asyncio.get_running_loop())
        await asyncio.wait_for(scene(), 20)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("aiokafka", "client aiokafka needs a version, such as aiokafka:0.12.0"),
        ("aiokafka:0.9.0", "aiokafka must be 0.10 or later, not 0.9.0"),
        ("aiokafka:newest", "client aiokafka: a version is numbers, such as 0.12.0, not 'newest'"),
    ],
)
def test_unfit_release_is_refused(client: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        libraries.refusal(plan_with(client))


@pytest.mark.parametrize("membership", ["cooperative", "consumer"])
def test_membership_that_it_does_not_know_is_refused(membership: Membership) -> None:
    message = f"client aiokafka:0.12.0 has no members with membership {membership!r}"

    assert libraries.refusal(plan_with("aiokafka:0.12.0", membership=membership)) == message
    assert libraries.refusal(plan_with("aiokafka:0.12.0", membership="static")) is None


def test_automatic_commit_after_the_next_poll_is_refused() -> None:
    message = "client aiokafka:0.12.0 commits automatically what polls gave, at once (after: delivery), not after the next poll"
    after_poll, at_once = AutoCommit(interval_ms=500), AutoCommit(interval_ms=500, after="delivery")

    assert libraries.refusal(plan_with("aiokafka:0.12.0", auto_commit=after_poll)) == message
    assert libraries.refusal(plan_with("aiokafka:0.12.0", auto_commit=at_once)) is None


def test_share_groups_need_the_java_client() -> None:
    refused = str(libraries.refusal(plan_with("aiokafka:0.12.0", name="share-groups")))

    assert refused.startswith("client aiokafka:0.12.0 has no share consumer")


def test_administrators_are_java_clients_of_the_release() -> None:
    release = release_named("4.1.0")

    assert administration._client_of(plan_with("aiokafka:0.12.0"), release) == "4.1.0"
    assert administration._client_of(plan_with("java:3.9.1"), release) == "3.9.1"


def stand_in_for_pip(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this script of the shell run in place of the Python that runs pip; the cache is in the folder, too."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("HIGHWATER_CACHE", str(folder / "cache"))


def test_release_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = "echo 'ERROR: Could not find a version' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1"
    stand_in_for_pip(script, tmp_path, monkeypatch)

    message = "client aiokafka:9.9.9 cannot be installed: No matching distribution found"
    assert aio_kafka.missing("9.9.9") == message
    with pytest.raises(HarnessError, match=message):
        aio_kafka.command("9.9.9")
    assert not [*tmp_path.glob("cache/clients/*")]


def test_release_is_installed_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = f'echo "$*" >> {tmp_path}/asked; while [ "$1" != --target ]; do shift; done; mkdir -p "$2/aiokafka"'
    stand_in_for_pip(script, tmp_path, monkeypatch)

    assert aio_kafka.missing("0.12.0") is None
    assert aio_kafka.command("0.12.0")[0] == sys.executable
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.startswith("-m pip install ")
    assert asked.endswith(" aiokafka==0.12.0")
    assert [path.name for path in tmp_path.glob("cache/clients/*/*")] == ["aiokafka"]


def test_release_is_refused_where_pip_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(aio_kafka, "distribution", absent)

    assert aio_kafka.missing("0.12.0") == "client aiokafka:0.12.0 is installed with pip, which is not here: python -m ensurepip"


def test_program_runs_beside_the_packages_of_highwater() -> None:
    """It has the standard library and the folder of the release; a call without a broker is certainly not sent."""
    line = aio_kafka.command_for(Path(INSTALLED))

    async def scene() -> None:
        brokers = {Address("b1"): ("127.0.0.1", 1)}
        client = PipedClient(Address("c0"), brokers, PipedWorker(lambda: line), {Address("c1")}, request_timeout_ms=50)
        committed = await client.perform(CommitCall(id=3, group="g", partition=("t", 0), offset=1))
        sent = await client.call(
            ProduceCall(id=4, tp=TopicPartition("t-0"), values=("a",), acks=-1, retries=0, idempotent=False, misuse="")
        )
        await client._worker.close()

        assert committed == Reply(id=3, error="_STATE")
        assert sent == Reply(id=4, error="_KafkaConnectionError")

    play(scene)


def test_late_call_of_the_library_is_cancelled() -> None:
    ended = []

    async def late() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(True)

    async def scene() -> None:
        with pytest.raises(LateError):
            await Owner().call(late(), 0.01)
        assert ended == [True]

    play(scene)


def test_dropped_owner_does_nothing_more() -> None:
    """What a consumer started itself is cancelled as well: nothing of it commits or leaves."""
    background: list[asyncio.Task[None]] = []

    async def start() -> None:
        background.append(asyncio.get_running_loop().create_task(asyncio.sleep(10)))

    async def scene() -> None:
        owner, other = Owner(), Owner()
        await owner.call(start(), 1)
        await other.call(start(), 1)
        owner.drop()
        await asyncio.sleep(0)

        assert [task.cancelled() for task in background] == [True, False]
        other.drop()

    play(scene)


def test_partitions_are_revoked_during_polls_alone() -> None:
    async def scene() -> None:
        door = members._Door()
        revoking = asyncio.get_running_loop().create_task(door.on_partitions_revoked({aiokafka.TopicPartition("t", 1)}))
        await asyncio.sleep(0.01)
        assert not revoking.done()
        door.open()
        await revoking

        assert door.noted == {"revoked": ["t-1"]}

    play(scene)


def test_errors_have_names_and_numbers_of_kafka() -> None:
    wrapped = CommitFailedError()
    wrapped.__cause__ = IllegalGenerationError()

    assert settings.told_error(wrapped) == {"error": "ILLEGAL_GENERATION", "code": 22}
    assert settings.told_error(LateError()) == {"error": "REQUEST_TIMED_OUT", "code": 7}
    assert settings.told_error(KafkaConnectionError()) == {"error": "_KafkaConnectionError"}


class ProduceRequest:
    """A request by its name alone."""


class FakeProducer:
    """Sends each record by the requests that the test says; they are answered, or cannot be sent."""

    def __init__(self, requests: tuple[bool, ...], result: BaseException | None) -> None:
        self.client = SimpleNamespace(send=self._answer, close=self.start)
        self._requests = list(requests)
        self._result = result

    async def start(self) -> None:
        """Nothing to do."""

    async def _answer(self, node: object, request: object) -> None:
        if not self._requests.pop(0):
            raise NodeNotReadyError

    async def send(self, *_: object, **__: object) -> "asyncio.Future[object]":
        """Hand a record over."""
        while self._requests:
            with contextlib.suppress(NodeNotReadyError):
                await self.client.send(0, ProduceRequest())
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if self._result is None:
            future.set_result(SimpleNamespace(offset=7))
        else:
            future.set_exception(self._result)
        return future


def heard_of_produce(requests: tuple[bool, ...], result: BaseException | None) -> dict[str, Any]:
    heard: dict[str, Any] = {}

    async def scene() -> None:
        logs = Logs(settings.Settings(REQUEST))
        logs._settings.producer = lambda **_: FakeProducer(requests, result)  # type: ignore[method-assign]  # a stand-in
        await logs.produce(PRODUCE, heard)

    play(scene)
    return heard


def test_requests_of_a_produce_are_counted() -> None:
    """aiokafka sends again on its own, and tells the last result alone."""
    failed = IllegalGenerationError()
    told = {"error": "ILLEGAL_GENERATION", "code": 22}

    assert heard_of_produce((True,), None) == {"attempts": 1, "offsets": [7, 7]}
    assert heard_of_produce((True,), failed) == {"attempts": 1, **told}
    assert heard_of_produce((True, True), failed) == {"attempts": 2, **told, "earlier": ["_RETRIED"]}


def test_produce_without_a_connection_was_not_sent() -> None:
    assert heard_of_produce((False, False), KafkaConnectionError()) == {"attempts": 0, "error": "_KafkaConnectionError"}
