"""Sealed batches for tests: whole, and with headers only as the machine holds them."""

from msgspec.structs import replace

from reference.messages import Batch
from reference.sealed import HEADER_BYTES
from reference.types import LeaderEpoch, Offset
from server.wire.records import batch_of, patched, sealed


def batch(base: int, *values: str, epoch: int = 0) -> Batch:
    """A whole batch as it is in a log, with base offset and leader epoch in its header."""
    whole = replace(batch_of(sealed(values or ("v",))), base_offset=Offset(base), leader_epoch=LeaderEpoch(epoch))
    return replace(whole, values=patched(whole))


def header_only(whole: Batch) -> Batch:
    """The batch with only its header, as the machine holds it."""
    assert isinstance(whole.values, bytes)
    return replace(whole, values=whole.values[:HEADER_BYTES])
