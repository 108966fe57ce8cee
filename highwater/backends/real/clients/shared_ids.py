"""Transactions step by step with librdkafka, of a producer whose transactional id other clients have, too.

The producer is not told that another one took its id over: it finds out by its next request. After any failure it is given up.
"""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from highwater.backends.real.clients.transactions import CLOSE_S, TransactionalProducer, name_of
from highwater.rig.attempts import Reply
from highwater.rig.sessions import StepCall, key_of

_NONE = "_STATE"  # a step of no producer


class SharedIds:
    """The producer of one client for one id after the other; `run` ends every id."""

    def __init__(self, settings: dict[str, Any], *, timeout_ms: int, run: str = "") -> None:
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._run = run
        self._producer: TransactionalProducer | None = None

    def perform(self, call: StepCall) -> Reply:
        """Perform one step."""
        offsets_by_partition: dict[str, list[list[object]]] = {}
        if call.step == "init-transactions":
            self.close()
            name = f"{call.transactional_id}{self._run}"
            self._producer = TransactionalProducer(name, self._settings, timeout_ms=self._timeout_ms)
        if self._producer is None:
            return Reply(id=call.id, attempts=0, error=_NONE)
        try:
            error = self._step(self._producer, call, offsets_by_partition)
        except KafkaException as raised:
            error = name_of(raised.args[0])
        if error is not None:
            self.close()
        return Reply(
            id=call.id,
            attempts=1,
            error=error,
            told={"id": call.transactional_id, "sends": offsets_by_partition} if offsets_by_partition else None,
        )

    def close(self) -> None:
        """Give the producer up."""
        if self._producer is not None:
            self._producer.give_up()
            self._producer = None

    def _step(
        self, producer: TransactionalProducer, call: StepCall, offsets_by_partition: dict[str, list[list[object]]]
    ) -> str | None:
        """Perform a step; add the offsets of what it sends to `offsets_by_partition`. Return the name of the error, if any."""
        match call.step:
            case "init-transactions":
                producer.ready()
            case "txn-send":
                return self._send(producer, call, offsets_by_partition)
            case "txn-commit":
                producer.commit()
            case "txn-abort":
                producer.abort()
        return None

    def _send(
        self, producer: TransactionalProducer, call: StepCall, offsets_by_partition: dict[str, list[list[object]]]
    ) -> str | None:
        """Begin a transaction, and send its records until each is delivered or failed."""
        failed: list[KafkaError] = []
        producer.ready().begin_transaction()
        for micro in call.sends:
            placed: list[object] = [None, micro.value]
            offsets_by_partition.setdefault(key_of((micro.topic, micro.partition)), []).append(placed)
            producer.send((micro.topic, micro.partition), micro.value or "", placed, failed)
        unreported = producer.flush(self._timeout_ms / 1000 + CLOSE_S)
        if failed:
            return name_of(failed[0])
        return name_of(KafkaError(KafkaError._TIMED_OUT)) if unreported else None
