"""Clients in another language: a process performs their calls, and speaks JSON lines over its stdin and stdout.

A request is {"number": 7, "client": "c1", "brokers": "host:port,…", "timeout_ms": 1000, "transactional_id": "…", "run": "…",
"membership": "static", "auto_commit_ms": 500, "act": "ProduceCall", "call": {…}}: `act` is the class of the call, "open" or
"close", and `call` has its fields; `run` ends the names of groups; auto_commit_ms is 0 where members commit by calls. The answer,
at any time, is {"number": 7, "heard": {…}} with the fields of `Reply` and, as `code`, the error's number in Kafka, if it has one.
The process performs the calls of one client in order, and those of different clients at once. It ends when its stdin ends, so it
does not outlive the harness.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from highwater.backends.real.clients.transactions import ERRORS
from highwater.backends.real.site import HostPort
from highwater.errors import HarnessError
from highwater.rig.attempts import Reply
from highwater.rig.sessions import SessionCall
from reference.client.calls import Call
from reference.types import Address

CLOSE_S = 10.0
_LINE_BYTES_MAX = 64 * 1024 * 1024  # of one answer


class PipedWorker:
    """The process that performs the calls of all clients of a run; it starts with the first call. Belongs to one asyncio loop."""

    def __init__(self, command: Callable[[], Sequence[str]]) -> None:
        """`command` gives the command line, and may take a while (a compiler); HarnessError if it cannot."""
        self._command = command
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._open_calls: dict[int, asyncio.Future[Reply]] = {}

    async def ask(self, request: Mapping[str, object]) -> Reply:
        """Have a call performed. HarnessError if the process has ended."""
        async with self._starting:
            if self._process is None:
                await self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._numbers)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._open_calls[number] = reply
        if self._reading is None or self._reading.done():
            raise HarnessError(self._ending())
        try:
            self._process.stdin.write(msgspec.json.encode({"number": number, **request}) + b"\n")
            await self._process.stdin.drain()
        except ConnectionError as error:
            raise HarnessError(self._ending()) from error
        return await reply

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), CLOSE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def _start(self) -> None:
        """Start the process, and a task that reads its answers. HarnessError if it cannot be started."""
        command = await asyncio.to_thread(self._command)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C is for the harness, which ends the process in order
            )
        except OSError as error:
            raise HarnessError(f"the clients cannot be started: {command[0]}: {error.strerror}") from error
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Hand each answer to its caller, until the process ends; then the open calls fail."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = msgspec.json.decode(line)
            future = self._open_calls.pop(answer["number"], None)
            if future is not None and not future.done():
                future.set_result(_heard_of_answer(answer["heard"]))
        await process.wait()
        for future in self._open_calls.values():
            if not future.done():
                future.set_exception(HarnessError(self._ending()))
        self._open_calls.clear()

    def _ending(self) -> str:
        code = None if self._process is None else self._process.returncode
        return f"the process of the clients ended by itself, with exit code {code}"


class PipedClient:
    """One client of a run, whose calls the worker performs. The last client to close ends the worker."""

    def __init__(
        self,
        name: Address,
        brokers: Mapping[Address, HostPort],
        worker: PipedWorker,
        users: set[Address],
        *,
        request_timeout_ms: int,
        run: str = "",
        membership: str = "",
        auto_commit_ms: int = 0,
        keyed: bool = False,
    ) -> None:
        """`users`: the open clients of the worker. `run` ends the transactional id, as for librdkafka's clients."""
        users.add(name)
        self._worker = worker
        self._users = users
        self._name = name
        self._opening = {
            "client": name,
            "brokers": ",".join(f"{host}:{port}" for host, port in brokers.values()),
            "timeout_ms": request_timeout_ms,
            "transactional_id": f"highwater-{name}{run}",
            "run": run,
            "membership": membership,
            "auto_commit_ms": auto_commit_ms,
            "keyed": keyed,
        }

    async def open(self) -> None:
        """Start the worker, and have it load what a call needs. HarnessError if it does not start, or reaches no broker."""
        reply = await self._ask("open", None)
        if reply.error is not None:
            raise HarnessError(f"client {self._name} cannot reach the cluster: {reply.error}")

    async def call(self, call: Call) -> Reply:
        """Perform one call (produce, poll …)."""
        return await self._ask(type(call).__name__, call)

    async def perform(self, call: SessionCall) -> Reply:
        """Perform one call of a session."""
        return await self._ask(type(call).__name__, call)

    async def administer(self, act: str, call: Mapping[str, object]) -> Reply:
        """Perform one request of an administrator."""
        return await self._ask(act, call)

    async def close(self) -> None:
        """Close the client after the call in progress, at most CLOSE_S later, and the worker with its last client."""
        with suppress(HarnessError, TimeoutError):
            await asyncio.wait_for(self._ask("close", None), CLOSE_S)
        self._users.discard(self._name)
        if not self._users:
            await self._worker.close()

    async def _ask(self, act: str, call: Call | SessionCall | Mapping[str, object] | None) -> Reply:
        return await self._worker.ask({**self._opening, "act": act, "call": call})


def _heard_of_answer(reply: dict[str, Any]) -> Reply:
    """The outcome of a call, with the names of errors that librdkafka's clients give."""
    code = reply.pop("code", None)
    if code in ERRORS:
        reply["error"] = ERRORS[code]
    return msgspec.convert(reply, Reply)
