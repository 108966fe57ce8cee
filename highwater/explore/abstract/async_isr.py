"""ISR changes that travel as requests: leader and controller disagree on the ISR for a while (AsyncIsr, docs/oracles.md §8.1).

One leader that never changes, replica 0. It asks the controller to shrink or grow the ISR; the controller also shrinks it by
itself. Requests and updates are never lost for good and may be handled late and several times. Until an update arrives the leader
counts on every replica that may be in the ISR: its own ISR and all that it asked for.

Offsets and versions have no bound of their own. States beyond the bounds are checked, but neither stored nor expanded.

A state is packed into 63 bits. The leader is in every ISR, so an ISR is a bit for each follower. The controller's updates are the
ISR of each version; the leader's ISR is that of its version; the requests are a bit for each version and ISR.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from msgspec import Struct

from highwater.explore.abstract.levels import Batch, Flags, Keys, WorldTooLarge

_STATE_BITS = 63


class IsrRules(Struct, frozen=True, kw_only=True):
    """What the leader's HW waits for, and whether the controller refuses a request that was made on an old version.

    `hw_over`: the leader's own ISR and all that it asked for (`maximal`), its own ISR (`current`), or what it asked for, if
    anything (`proposed`).
    """

    hw_over: Literal["maximal", "current", "proposed"] = "maximal"
    version_check: bool = True


ISR_VARIANTS: dict[str, IsrRules] = {
    "maximal-isr": IsrRules(),
    "current-isr": IsrRules(hw_over="current"),
    "proposed-isr": IsrRules(hw_over="proposed"),
    "no-version-check": IsrRules(version_check=False),
}


class IsrSizes(Struct, frozen=True, kw_only=True):
    """The bounds of the model."""

    replicas: int
    max_offset: int
    max_version: int


class _Field(Struct, frozen=True):
    # A part of a packed state.
    shift: int
    bits: int

    def of(self, keys: Keys) -> Keys:
        return keys >> self.shift & (1 << self.bits) - 1

    def put(self, keys: Keys, value: Keys | int) -> Keys:
        return keys & ~((1 << self.bits) - 1 << self.shift) | value << self.shift


class AsyncIsr:
    """The model with the rules of one variant. WorldTooLarge if a state within these bounds does not fit into 63 bits."""

    invariants = ("ValidHighWatermark",)

    def __init__(self, rules: IsrRules, sizes: IsrSizes) -> None:
        self._rules = rules
        self._sizes = sizes
        self._followers = sizes.replicas - 1
        self._everybody = (1 << self._followers) - 1
        self._bits_used = 0
        # One more than the bounds: a state just beyond them must be written down to be checked.
        version_bits = (sizes.max_version + 1).bit_length()
        offset_bits = (sizes.max_offset + 1).bit_length()
        self._offsets = [self._next_field(offset_bits) for _ in range(sizes.replicas)]
        self._controller_version = self._next_field(version_bits)
        self._leader_version = self._next_field(version_bits)
        self._isr = [self._next_field(self._followers) for _ in range(sizes.max_version + 2)]  # of each version
        self._pending = self._next_field(self._followers)
        self._is_pending = self._next_field(1)
        self._requests = [self._next_field(1 << self._followers) for _ in range(sizes.max_version + 1)]  # of each version
        if self._bits_used > _STATE_BITS:
            raise WorldTooLarge(f"the world is too large: a state takes {self._bits_used} bits of {_STATE_BITS}")

    def _next_field(self, bits: int) -> _Field:
        # The next bits of a packed state.
        field = _Field(self._bits_used, bits)
        self._bits_used += bits
        return field

    def initial(self) -> int:
        """Everybody in the ISR, at version 0 and offset 0; no requests."""
        return self._everybody << self._isr[0].shift

    def within(self, keys: Keys) -> Flags:
        """Which states have no offset and no version above the bounds."""
        inside = self._controller_version.of(keys) <= self._sizes.max_version
        for offset in self._offsets:
            inside &= offset.of(keys) <= self._sizes.max_offset
        return inside

    def successors(self, keys: Keys) -> Iterator[Batch]:
        """All successors of these states within the bounds, one batch for each action and its parameters."""
        yield from self._writes_and_fetches(keys)
        yield from self._controller_writes(keys)
        yield from self._leader_requests(keys)
        yield from self._leader_updates(keys)

    def broken(self, keys: Keys, invariant: str) -> Flags:
        """Where a member of the controller's ISR ends below the leader's HW."""
        hw = self._high_watermarks(keys)
        isr = self._isr_at_version(keys, self._controller_version.of(keys))
        lacks = self._offsets[0].of(keys) < hw
        for follower in range(self._followers):
            lacks |= (isr >> follower & 1 == 1) & (self._offsets[follower + 1].of(keys) < hw)
        return lacks

    # --- what the fields say ----------------------------------------------------------------------------------------------------

    def _isr_at_version(self, keys: Keys, version: Keys) -> Keys:
        """The controller's ISR at this version of each state, as bits of followers."""
        isr = np.zeros_like(keys)
        for at, field in enumerate(self._isr):
            isr = np.where(version == at, field.of(keys), isr)
        return isr

    def _isr_of_leader(self, keys: Keys) -> Keys:
        return self._isr_at_version(keys, self._leader_version.of(keys))

    def _high_watermarks(self, keys: Keys) -> Keys:
        """The high watermark of each state: the smallest offset among the members that the rules count."""
        own, pending = self._isr_of_leader(keys), self._pending.of(keys)
        match self._rules.hw_over:
            case "maximal":
                counted = own | pending
            case "current":
                counted = own
            case "proposed":
                counted = np.where(self._is_pending.of(keys) == 1, pending, own)
        hw = self._offsets[0].of(keys)
        for follower in range(self._followers):
            offset = self._offsets[follower + 1].of(keys)
            hw = np.where(counted >> follower & 1 == 1, np.minimum(hw, offset), hw)
        return hw

    # --- actions ----------------------------------------------------------------------------------------------------------------

    def _writes_and_fetches(self, keys: Keys) -> Iterator[Batch]:
        """The leader writes a record, or a follower that lags fetches one."""
        everywhere = np.ones(keys.size, np.bool_)
        yield self._batch_with_next_offset(keys, "b1 writes a record", 0, everywhere)
        for replica in range(1, self._sizes.replicas):
            lags = self._offsets[replica].of(keys) < self._offsets[0].of(keys)
            yield self._batch_with_next_offset(keys, f"b{replica + 1} fetches a record", replica, lags)

    def _batch_with_next_offset(self, keys: Keys, action: str, replica: int, may: Flags) -> Batch:
        at = np.flatnonzero(may)
        return Batch(action, at, keys[at] + (1 << self._offsets[replica].shift))

    def _controller_writes(self, keys: Keys) -> Iterator[Batch]:
        """The controller removes a follower, or carries out a request for another ISR."""
        version = self._controller_version.of(keys)
        isr = self._isr_at_version(keys, version)
        for follower in range(self._followers):
            action = f"the controller removes b{follower + 2} from the ISR"
            yield self._batch_with_isr(keys, action, isr >> follower & 1 == 1, isr & ~(1 << follower))
        for asked_at, requests in enumerate(self._requests):
            # Without the check the controller carries out a request that was made on any version.
            current = version == asked_at if self._rules.version_check else np.ones(keys.size, np.bool_)
            for isr_wanted in range(1 << self._followers):
                is_asked = requests.of(keys) >> isr_wanted & 1 == 1
                action = f"the controller sets the ISR to {self._brokers_in_words(isr_wanted)}, asked for at version {asked_at}"
                yield self._batch_with_isr(keys, action, current & is_asked, np.full_like(keys, isr_wanted))

    def _batch_with_isr(self, keys: Keys, action: str, may: Flags, isr: Keys) -> Batch:
        """The controller writes an ISR at the next version and sends it to the leader."""
        at = np.flatnonzero(may)
        following = self._controller_version.of(keys[at]) + 1
        after = keys[at] + (1 << self._controller_version.shift)
        for version, field in enumerate(self._isr):
            after = np.where(following == version, field.put(after, isr[at]), after)
        return Batch(action, at, after)

    def _leader_requests(self, keys: Keys) -> Iterator[Batch]:
        """The leader asks to remove a member, or to add a follower that has reached the HW."""
        isr, hw = self._isr_of_leader(keys), self._high_watermarks(keys)
        for follower in range(self._followers):
            inside = isr >> follower & 1 == 1
            reached = self._offsets[follower + 1].of(keys) >= hw
            yield self._batch_with_request(
                keys, f"b1 asks to remove b{follower + 2} from the ISR", inside, isr & ~(1 << follower)
            )
            yield self._batch_with_request(
                keys, f"b1 asks to add b{follower + 2} to the ISR", ~inside & reached, isr | 1 << follower
            )

    def _batch_with_request(self, keys: Keys, action: str, may: Flags, isr: Keys) -> Batch:
        """The leader asks the controller for this ISR, at the version that the leader knows."""
        at = np.flatnonzero(may)
        version = self._leader_version.of(keys[at])
        after = self._is_pending.put(keys[at], 1) | isr[at] << self._pending.shift
        for asked_at, requests in enumerate(self._requests):
            with_request = after | np.left_shift(np.int64(1), requests.shift + isr[at])
            after = np.where(version == asked_at, with_request, after)
        return Batch(action, at, after)

    def _leader_updates(self, keys: Keys) -> Iterator[Batch]:
        """The leader learns a later version of the ISR: one batch for each version."""
        own, latest = self._leader_version.of(keys), self._controller_version.of(keys)
        for version in range(1, self._sizes.max_version + 1):
            at = np.flatnonzero((own < version) & (version <= latest))
            after = self._leader_version.put(keys[at], version)
            after = self._pending.put(self._is_pending.put(after, 0), 0)
            yield Batch(f"b1 hears of version {version}", at, after)

    def _brokers_in_words(self, isr: int) -> str:
        return ",".join(["b1", *(f"b{follower + 2}" for follower in range(self._followers) if isr >> follower & 1)])
