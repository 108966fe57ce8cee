"""Sealed batches for the tests of the runtime, whole and as the machine holds them."""

from msgspec.structs import replace

from reference.messages import Batch
from reference.sealed import HEADER_BYTES
from reference.types import LeaderEpoch, Offset
from server.wire.records import batch_of, patched, sealed


def batch(base: int, *values: str, epoch: int = 0) -> Batch:
    """A whole batch as it stands in a log."""
    whole = replace(batch_of(sealed(values or ("v",))), base_offset=Offset(base), leader_epoch=LeaderEpoch(epoch))
    return replace(whole, values=patched(whole))


def held(whole: Batch) -> Batch:
    """What the machine has of it."""
    assert isinstance(whole.values, bytes)
    return replace(whole, values=whole.values[:HEADER_BYTES])
