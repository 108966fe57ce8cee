"""Transactions step by step, of a producer whose transactional id other clients have, too, as clients/shared_ids.py makes them.

After any failure the producer is given up.
"""

from contextlib import suppress

from aiokafka import TopicPartition

from .owners import CLOSE_S, LateError
from .settings import Call, Heard, Settings, key_of, told_error
from .transactions import Sent, TransactionalProducer, enter_offsets


class SharedIds:
    """The producer of one client for one id after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: TransactionalProducer | None = None

    async def perform(self, call: Call, heard: Heard) -> None:
        """Perform one step."""
        if call["step"] == "init-transactions":
            await self.close()
            self._producer = TransactionalProducer(self._settings, self._settings.shared_id(call["transactional_id"]))
        if self._producer is None:
            heard |= {"attempts": 0, "error": "_STATE"}  # a step of no producer
            return
        try:
            await self._step(self._producer, call, heard)
        except Exception as error:  # noqa: BLE001 (whatever went wrong, the producer is given up)
            heard.update(told_error(error))
        if "error" in heard:
            await self.close()

    async def close(self) -> None:
        """Give the producer up."""
        if self._producer is not None:
            await self._producer.give_up()
            self._producer = None

    async def _step(self, producer: TransactionalProducer, call: Call, heard: Heard) -> None:
        match call["step"]:
            case "init-transactions":
                await producer.ready()
            case "txn-send":
                await self._send(producer, call, heard)
            case "txn-commit":
                await producer.commit()
            case "txn-abort":
                await producer.abort()

    async def _send(self, producer: TransactionalProducer, call: Call, heard: Heard) -> None:
        """Begin a transaction, and send its records until each is delivered or failed."""
        sent: Sent = []
        sends: dict[str, list[list[object]]] = {}
        heard["told"] = {"id": call["transactional_id"], "sends": sends}
        await producer.begin()
        for micro in call["sends"]:
            to = TopicPartition(micro["topic"], micro["partition"])
            placed: list[object] = [None, micro["value"]]
            sends.setdefault(key_of(to), []).append(placed)
            sent.append((placed, await producer.send(to, micro["value"])))
        with suppress(LateError):
            await producer.flush(self._settings.timeout_s + CLOSE_S)
        enter_offsets(sent, heard)
