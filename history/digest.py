"""The digest of a history: equal rows, equal digest, in every process, on every machine, whatever PYTHONHASHSEED is.

The canonical bytes are the MessagePack maps of the rows in order, operations before events, columns in the order of the
schema and those at their default left out: a column added later changes no digest of a history that does not use it.
The manifest is not part of it (commit, versions and wall time differ between equal runs).
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from history.event import ClusterEvent
from history.op import Operation


def digest(operations: Sequence[Operation], events: Sequence[ClusterEvent]) -> str:
    """32 hex digits: blake2b over the canonical bytes. Some 20 ms for 60,000 rows."""
    encoder = msgspec.msgpack.Encoder()
    state = blake2b(digest_size=16)
    # Each table begins with its length, so that no row can pass from one to the other unnoticed.
    state.update(encoder.encode(list(operations)))
    state.update(encoder.encode(list(events)))
    return state.hexdigest()
