"""Ids for idempotent producers (B-66). Any broker gives them out, from a block that it reserved in ZooKeeper, as Kafka does.

A block is reserved by a write on the version that was read, so no two brokers have the same one. If the answer to a reservation
is lost, its ids are never used. Requests wait while a block is being reserved; if that fails they get an error, and the client
asks another broker.
"""

from msgspec import Struct

from reference.coordination import paths
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Create,
    Created,
    Data,
    GetData,
    NodeExists,
    NoNode,
    SetData,
    Written,
)
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import InitProducerId, InitProducerIdReply
from reference.types import NO_PRODUCER_ID, Address, ProducerId

WAITING_MAX = 100  # requests; beyond it the oldest gets BROKER_NOT_AVAILABLE


class Waiting(Struct, frozen=True):
    """A client's request for a producer id that waits until a block is reserved."""

    source: Address
    correlation: int


class ProducerIds(Struct):
    """The block of producer ids that this broker may give out: next <= id < end. `wanted`: the block being reserved."""

    next: ProducerId = ProducerId(0)
    end: ProducerId = ProducerId(0)
    wanted: ProducerId | None = None
    request: int = 0
    waiting: list[Waiting] = []


def on_request(turn: Turn, ids: ProducerIds, source: Address, request: InitProducerId) -> None:
    """Answer InitProducerId with an id, or reserve a block of ids in ZooKeeper first."""
    ids.waiting.append(Waiting(source, request.correlation))
    if len(ids.waiting) > WAITING_MAX:
        _answer(turn, ids.waiting.pop(0), ErrorCode.BROKER_NOT_AVAILABLE)
    _serve_waiting(turn, ids)


def _ask(turn: Turn, ids: ProducerIds, op: AnyOp) -> None:
    ids.request = turn.zk_id()
    turn.effects.append(ZkRequest(ids.request, (op,)))


def on_answer(turn: Turn, ids: ProducerIds, answer: AnyAnswer) -> None:
    """ZooKeeper answered a read of the last block, or the write that reserves the next one."""
    ids.request = 0
    first_id, ids.wanted = ids.wanted, None
    match answer:
        case Data(data=data, version=version):
            ids.wanted = paths.producer_ids_end(data)
            _ask(turn, ids, SetData(paths.PRODUCER_IDS, _block(turn, ids.wanted), version))
        case NoNode():
            ids.wanted = ProducerId(0)
            _ask(turn, ids, Create(paths.PRODUCER_IDS, _block(turn, ids.wanted)))
        case BadVersion() | NodeExists():
            _ask(turn, ids, GetData(paths.PRODUCER_IDS))  # another broker reserved that block first: read again
        case Written() | Created():
            assert first_id is not None
            ids.next, ids.end = first_id, ProducerId(first_id + turn.config.producer_id_block_size)
            _serve_waiting(turn, ids)
        case _:
            waiting, ids.waiting = ids.waiting, []
            for asker in waiting:
                _answer(turn, asker, ErrorCode.BROKER_NOT_AVAILABLE)


def _block(turn: Turn, start: ProducerId) -> bytes:
    return paths.producer_ids_payload(turn.config.broker, start, ProducerId(start + turn.config.producer_id_block_size))


def _serve_waiting(turn: Turn, ids: ProducerIds) -> None:
    """Answer waiting InitProducerId requests from the reserved block; reserve another block if some are left."""
    while ids.waiting and ids.next < ids.end:
        _answer(turn, ids.waiting.pop(0), ErrorCode.NONE, ids.next)
        ids.next = ProducerId(ids.next + 1)
    if ids.waiting and ids.request == 0:
        _ask(turn, ids, GetData(paths.PRODUCER_IDS))


def _answer(turn: Turn, asker: Waiting, error: ErrorCode, id_: ProducerId = NO_PRODUCER_ID) -> None:
    turn.send(asker.source, InitProducerIdReply(asker.correlation, error, id_))
