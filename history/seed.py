"""Seeds and two generators of random numbers: `Rng` for making plans, `Draws` for use during a run. Integers only.

Both use splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), seeded by blake2b of a name. A
number thus depends on its purpose and never on what else was drawn.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NewType, TypeVar

Seed = NewType("Seed", int)
T = TypeVar("T")

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def format_seed(seed: int) -> str:
    """Format a seed as 16 hex digits."""
    return f"{seed & _MASK:016x}"


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _named(number: int, name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8, key=(number & _MASK).to_bytes(8, "big")).digest(), "big")


class Rng:
    """A stream of random numbers. Fork it by name, so that a new consumer changes no other consumer's numbers."""

    __slots__ = ("_origin", "_state")

    def __init__(self, seed: int) -> None:
        self._origin = seed & _MASK
        self._state = _mix(self._origin)

    def fork(self, name: str) -> "Rng":
        """Return an independent stream of random numbers. It depends on the seed and `name`, not on what was drawn before."""
        return Rng(_named(self._origin, name))

    def bits(self) -> int:
        """Draw a random number of 64 bits."""
        self._state = (self._state + _GAMMA) & _MASK
        return _mix(self._state)

    def below(self, bound: int) -> int:
        """Draw n with 0 <= n < bound. The bias of the multiplication is below bound / 2**64."""
        assert bound > 0
        return (self.bits() * bound) >> 64

    def between(self, low: int, high: int) -> int:
        """Draw n with low <= n <= high."""
        assert low <= high
        return low + self.below(high - low + 1)

    def ratio(self, numerator: int, denominator: int) -> bool:
        """Draw True in `numerator` of `denominator` cases."""
        return self.below(denominator) < numerator

    def pick(self, items: Sequence[T]) -> T:
        """Draw one item of a non-empty sequence."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a shuffled copy (Fisher and Yates)."""
        copy = list(items)
        for i in range(len(copy) - 1, 0, -1):
            j = self.below(i + 1)
            copy[i], copy[j] = copy[j], copy[i]
        return copy


class Draws:
    """Random numbers by key: the k-th number of a key depends on (number, key, k) alone, so removing a fault changes no other.

    A key names the purpose and its subject: "delay b1>b2 Fetch orders-0". Counters are kept per key.
    """

    __slots__ = ("_number", "_states")

    def __init__(self, number: int) -> None:
        self._number = number
        self._states: dict[str, int] = {}

    def bits(self, key: str) -> int:
        """Draw the next 64 random bits of this key."""
        state = self._states.get(key)
        if state is None:
            state = _named(self._number, key)
        z = state = (state + _GAMMA) & _MASK
        self._states[key] = state
        # `_mix`, here and without further calls, because a simulated run draws a number for each message.
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, key: str, bound: int) -> int:
        """Draw a random number n of this key with 0 <= n < bound."""
        assert bound > 0
        return (self.bits(key) * bound) >> 64

    def between(self, key: str, low: int, high: int) -> int:
        """Draw a random number n of this key with low <= n <= high."""
        assert low <= high
        return low + ((self.bits(key) * (high - low + 1)) >> 64)

    def ratio(self, key: str, numerator: int, denominator: int) -> bool:
        """Draw True in `numerator` of `denominator` cases, from the random numbers of this key."""
        return self.below(key, denominator) < numerator
