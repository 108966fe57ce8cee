"""Clients whose calls another process performs; a stand-in for that process answers as its test says."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.clients import java, libraries
from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.clients.piped import PipedClient, PipedWorker
from highwater.backends.real.systems.kafka import jars
from highwater.backends.sim.backend import SimBackend
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.attempts import Reply
from highwater.rig.sessions import TxnCall
from reference.client.calls import LatestCall, PollCall, Polled
from reference.errors import ErrorCode
from reference.types import Address, LeaderEpoch, Offset, TopicPartition
from tests.tidy.sources import ROOT
from workloads.client import Micro

PLAN = load_plan(ROOT / "corpus" / "real" / "transactions.yaml")
T0 = TopicPartition("t-0")
LATEST = LatestCall(id=4, tp=T0)
PROGRAM = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    heard = {}
    sys.stdout.write(json.dumps({{"number": asked["number"], "heard": heard}}) + "\\n")
    sys.stdout.flush()
"""


def worker_answering(heard: str) -> PipedWorker:
    """A worker that answers each request, `asked`, with this expression."""
    return PipedWorker(lambda: (sys.executable, "-c", PROGRAM.format(heard)))


def play(worker: PipedWorker, scene: Callable[[PipedClient, PipedClient], Awaitable[None]]) -> None:
    """Run a scene with two clients of one worker, which are closed at its end."""

    async def run() -> None:
        users: set[Address] = set()
        brokers = {Address("b1"): ("127.0.0.1", 9092), Address("b2"): ("127.0.0.2", 9092)}
        clients = [PipedClient(Address(name), brokers, worker, users, request_timeout_ms=50, run="-x") for name in ("c0", "c1")]
        try:
            await asyncio.wait_for(scene(*clients), 20)
        finally:
            for client in clients:
                await client.close()

    asyncio.run(run())


def test_piped_call_has_its_fields_and_those_of_its_client() -> None:
    call = TxnCall(id=4, micros=(Micro(topic="t", partition=1, value="a"),), aborts=True, reads=(("t", 0),))
    txn = {"id": 4, "micros": [{"topic": "t", "partition": 1, "value": "a"}], "aborts": True, "reads": [["t", 0]]}
    piped_fields = {"client": "c0", "brokers": "127.0.0.1:9092,127.0.0.2:9092", "timeout_ms": 50}
    piped_fields |= {"transactional_id": "highwater-c0-x", "run": "-x", "membership": "", "auto_commit_ms": 0, "keyed": False}

    async def scene(client: PipedClient, _: PipedClient) -> None:
        reply = await client.perform(call)

        assert reply == Reply(id=4, told={"number": 0, **piped_fields, "act": "TxnCall", "call": txn})

    play(worker_answering('{"id": 4, "told": asked}'), scene)


def test_piped_answer_has_the_names_of_errors_of_kafka() -> None:
    """Other clients call NOT_LEADER_FOR_PARTITION by a later name; the table of completions has one."""
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def scene(client: PipedClient, _: PipedClient) -> None:
        reply = await client.call(LATEST)

        assert (reply.error, reply.attempts) == (code.name, 1)

    play(worker_answering(f'{{"id": 4, "attempts": 1, "error": "ANOTHER", "code": {int(code)}}}'), scene)


def test_piped_answer_has_records() -> None:
    async def scene(client: PipedClient, _: PipedClient) -> None:
        reply = await client.call(PollCall(id=4, tp=T0, offset=Offset(0)))

        assert reply.records == (Polled(Offset(3), "a", LeaderEpoch(-1)),)

    play(worker_answering('{"id": 4, "records": [[3, "a", -1]]}'), scene)


def test_worker_ends_with_its_last_client() -> None:
    async def scene(client: PipedClient, other_client: PipedClient) -> None:
        pid = (await client.call(LATEST)).offset
        assert pid is not None
        await client.close()
        assert Path(f"/proc/{pid}").exists()
        await other_client.close()

        assert not Path(f"/proc/{pid}").exists()

    play(worker_answering('{"id": 4, "offset": __import__("os").getpid()}'), scene)


def test_worker_that_dies_is_a_failure_of_the_harness() -> None:
    """Not of the system under test: its calls would look as if nobody had answered."""

    async def scene(client: PipedClient, _: PipedClient) -> None:
        with pytest.raises(HarnessError, match="the process of the clients ended by itself, with exit code 3"):
            await client.call(LATEST)
        with pytest.raises(HarnessError, match="ended by itself"):
            await client.call(LATEST)

    play(worker_answering('__import__("os")._exit(3)'), scene)


def test_worker_that_cannot_be_started_is_a_failure() -> None:
    async def scene(client: PipedClient, _: PipedClient) -> None:
        with pytest.raises(HarnessError, match="the clients cannot be started: absent-program"):
            await client.call(LATEST)

    play(PipedWorker(lambda: ("absent-program",)), scene)


def with_client(client: str) -> Plan:
    return replace(PLAN, workload=replace(PLAN.workload, client=client))


def test_plan_names_the_library_of_its_clients() -> None:
    brokers = {Address("b1"): ("127.0.0.1", 9092)}

    assert isinstance(libraries.Clients(PLAN).client(Address("c0"), brokers), KafkaClient)
    assert isinstance(libraries.Clients(with_client("java:4.1.0")).client(Address("c0"), brokers), PipedClient)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("jva:4.1.0", "unknown client 'jva'; did you mean 'java'"),
        ("java", "client java needs a version, such as java:4.1.0"),
        ("java:1.1.1", "the Java client must be 2.5 or later, not 1.1.1"),
    ],
)
def test_unknown_client_is_refused(client: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        libraries.refusal(with_client(client))


def test_client_refuses_workloads_that_it_does_not_perform() -> None:
    plan = with_client("java:4.1.0")
    plan = replace(plan, workload=replace(plan.workload, name="misuse"))

    sessions = "'transactions', 'groups', 'read-process-write', 'zombies'"
    names = f"'produce-consume', 'admin-storm', 'create-delete', {sessions}, 'compacted'"
    message = f"client java:4.1.0 performs the workloads {names} only, not 'misuse'"
    assert libraries.refusal(plan) == message


def test_simulator_refuses_a_client_library() -> None:
    message = "the simulator has clients of its own, not java:4.1.0; run it with --backend process"

    assert SimBackend().refuse(with_client("java:4.1.0")) == message


def test_java_client_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "missing", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert str(java.missing("4.1.0")).startswith("client java:4.1.0: it is compiled here, and there is no javac on the PATH")


def test_java_client_that_does_not_compile_names_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "javac").write_text("#!/bin/sh\necho 'Worker.java:3: error: no class here' >&2\nexit 1\n")
    (tmp_path / "javac").chmod(0o700)

    with pytest.raises(HarnessError, match=r"compiling the Java client: Worker\.java:3: error: no class here"):
        java.command("4.1.0")
    assert not [*tmp_path.glob("clients/*")]
