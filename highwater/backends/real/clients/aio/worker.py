"""The aiokafka clients of a run, one for each client of the harness, which asks over JSON lines as clients/piped.py says.

Everything runs in one asyncio loop, as in a program that uses aiokafka.
"""

import asyncio
import json
import logging
import os
import sys
import traceback
from threading import Thread
from typing import BinaryIO

from .logs import Logs
from .members import Members
from .owners import follow_tasks
from .settings import Call, Heard, Settings, told_error
from .shared_ids import SharedIds
from .transactions import TransactionalProducer, Transactions


class Worker:
    """One client."""

    def __init__(self, request: Call) -> None:
        settings = Settings(request)
        producer = TransactionalProducer(settings, settings.transactional_id)
        self._logs = Logs(settings)
        self._transactions = Transactions(settings, producer)
        self._members = Members(settings, producer)
        self._shared_ids = SharedIds(settings)

    async def answer(self, act: str, call: Call | None) -> Heard:
        """Perform a call."""
        call = call or {}
        heard: Heard = {"id": call.get("id", 0), "attempts": 1}
        try:
            await self._perform(act, call, heard)
        except Exception as error:  # noqa: BLE001 (it is the answer)
            traceback.print_exc()  # nobody reads it in a run
            heard.update(told_error(error))
        return heard

    async def _perform(self, act: str, call: Call, heard: Heard) -> None:
        match act:
            case "ProduceCall":
                await self._logs.produce(call, heard)
            case "PollCall":
                await self._logs.poll(call, heard)
            case "LatestCall" | "EarliestCall":
                await self._logs.bound(call, heard, latest=act == "LatestCall")
            case "TxnCall":
                await self._transactions.perform(call, heard)
            case "ReadCommittedCall":
                await self._transactions.read_committed(call, heard)
            case "StepCall":
                await self._shared_ids.perform(call, heard)
            case "open":
                await self._logs.open()
            case "close":
                await self._close()
            case _:
                await self._of_member(act, call, heard)

    async def _of_member(self, act: str, call: Call, heard: Heard) -> None:
        match act:
            case "ProcessCall":
                await self._members.process(call, heard)
            case "GroupPollCall":
                await self._members.poll(call, heard)
            case "GroupLeaveCall":
                await self._members.close()
            case "GroupAbandonCall":
                self._members.abandon()
            case "GroupPositionsCall":
                await self._members.positions(call, heard)
            case "CommitCall":
                await self._members.commit(call, heard)
            case "CommittedCall":
                await self._members.committed(call, heard)
            case _:
                heard |= {"attempts": 0, "error": "_UNKNOWN_CALL"}

    async def _close(self) -> None:
        await self._members.close()
        await self._transactions.close()
        await self._shared_ids.close()
        await self._logs.close()


async def _serve(answers: BinaryIO) -> None:
    """Perform the requests of each client in turn, and those of different clients at once, until stdin ends."""
    loop = asyncio.get_running_loop()
    follow_tasks(loop)
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(requests.put_nowait, line)
        os._exit(0)

    Thread(target=read, daemon=True).start()
    queues: dict[str, asyncio.Queue[Call]] = {}
    async with asyncio.TaskGroup() as clients:
        while True:
            request: Call = json.loads(await requests.get())
            if request["client"] not in queues:
                queues[request["client"]] = asyncio.Queue()
                clients.create_task(_client(Worker(request), queues[request["client"]], answers))
            queues[request["client"]].put_nowait(request)


async def _client(worker: Worker, requests: asyncio.Queue[Call], answers: BinaryIO) -> None:
    while True:
        request = await requests.get()
        heard = await worker.answer(request["act"], request["call"])
        answers.write(json.dumps({"number": request["number"], "heard": heard}).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Serve the harness over stdin and stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    log = logging.getLogger("aiokafka")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)  # its lines are counted (members.py)
    asyncio.run(_serve(answers))
