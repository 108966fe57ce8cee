"""Numbers for the parts of states: equal parts have equal numbers, so a state is a tuple of integers.

Numbers count up in the order of discovery, so two processes number differently. `Parts` translates: it writes parts for another
process and reads those that another process wrote.
"""

from collections.abc import Hashable, Iterable
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from highwater.explore.state import Flight, Ghost, Host, Spent

Part = Host | bytes | Ghost | Spent | Flight  # bytes: an encoded ZooKeeper tree
Value = TypeVar("Value", bound=Hashable)

FINGERPRINT_BYTES = 16
_KINDS: tuple[type[Part], ...] = (Host, bytes, Ghost, Spent, Flight)
_DECODERS = tuple(msgspec.msgpack.Decoder(kind) for kind in _KINDS)
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_all = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode


class Numbers(Generic[Value]):
    """Numbers values in the order of their discovery."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self.values: list[Value] = []

    def __len__(self) -> int:
        return len(self.values)

    def of(self, value: Value) -> int:
        """The number of a value; a new one if the value is new."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


class Parts(Numbers[Part]):
    """The numbered parts of a world's states."""

    def __init__(self) -> None:
        super().__init__()
        self._digests = _Digests(self)

    def fingerprint(self, numbers: tuple[int, ...]) -> bytes:
        """A hash of the parts with these numbers, in this order; equal in every process."""
        digests = self._digests
        return blake2b(b"".join([digests[number] for number in numbers]), digest_size=FINGERPRINT_BYTES).digest()

    def export(self, numbers: Iterable[int]) -> bytes:
        """Encode the parts with these numbers for another process or a later one."""
        return _encode([_kind_and_bytes(self.values[number]) for number in numbers])

    def admit_parts(self, exported: bytes) -> tuple[int, ...]:
        """The numbers that exported parts have in this process, in their order. Raises msgspec.DecodeError."""
        return tuple(self.of(_DECODERS[kind].decode(encoded)) for kind, encoded in _decode_all(exported))


class _Digests(dict[int, bytes]):
    # The hash of each part, computed when it is first needed: most parts never reach a canonical state.

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def __missing__(self, number: int) -> bytes:
        kind, encoded = _kind_and_bytes(self._parts.values[number])
        digest = self[number] = blake2b(encoded, digest_size=FINGERPRINT_BYTES, salt=bytes([kind])).digest()
        return digest


def _kind_and_bytes(part: Part) -> tuple[int, bytes]:
    return _KINDS.index(type(part)), _encode(part)
