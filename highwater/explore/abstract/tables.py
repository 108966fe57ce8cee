"""The parts of the replication model's states, numbered in the order of their discovery, with their columns as arrays.

A state of the model is one integer of numbers: one of the quorum, the next record and one of each replica. Few replica states and
few quorums occur, so their numbers are small, and the search looks their contents up as arrays.
"""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from highwater.explore.abstract.levels import Keys, WorldTooLarge
from highwater.explore.abstract.rules import Sizes

NOBODY = -1
_Small = npt.NDArray[np.int8]
_FIRST_CAPACITY = 1024


class ReplicaColumns(Struct, frozen=True, kw_only=True):
    """States of one replica, by the index of the state that it is in; `log` is a part of `Replicas`' codes."""

    log: Keys
    hw: Keys
    epoch: Keys | int
    isr: Keys | int  # as bits, of presumed leaders; 0 for all others


class Replicas:
    """The replica states met so far: log, HW, leader epoch, and the local ISR of a presumed leader (0 for all others).

    A follower's local ISR is the one of the request of its leader epoch, and no action reads it.

    A replica state also has a code, a mixed-radix number: per offset, lowest first, the record (0 if none, else 1 +
    id * epochs + epoch), then HW, leader epoch + 1, and the ISR as bits in the lowest place.
    """

    def __init__(self, sizes: Sizes, *, bits: int) -> None:
        self._sizes = sizes
        self._bits = bits
        self._epochs = sizes.max_epoch + 1
        self._base = 1 + sizes.max_records * self._epochs
        self.powers: Keys = np.array([self._base**offset for offset in range(sizes.log_size + 1)], dtype=np.int64)
        self._codes: Keys = np.empty(0, np.int64)  # sorted
        self._numbers: Keys = np.empty(0, np.int64)  # of the sorted codes
        self.log: Keys = np.empty(0, np.int64)  # the code's part of all offsets
        self.hw: _Small = np.empty(0, np.int8)
        self.end: _Small = np.empty(0, np.int8)
        self.epoch: _Small = np.empty(0, np.int8)
        self.isr: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self.records: npt.NDArray[np.int32] = np.empty((sizes.log_size, 0), np.int32)  # by offset and number; 0 if none
        # By offset + 1 and number: the epoch of the record, -1 if none; row 0 is -1, for the offset before the first one.
        self.record_epochs: _Small = np.empty((sizes.log_size + 1, 0), np.int8)

    @staticmethod
    def codes_of(sizes: Sizes) -> int:
        """How many codes there are for replicas of these sizes."""
        base = 1 + sizes.max_records * (sizes.max_epoch + 1)
        return int(base**sizes.log_size * (sizes.log_size + 1) * (sizes.max_epoch + 2) << sizes.replicas)

    def record(self, record_id: Keys, epoch: Keys) -> Keys:
        """The number that stands for a record in a log."""
        return 1 + record_id * self._epochs + epoch

    def decoded(self, record: int) -> tuple[int, int]:
        """The id and the epoch of a record that `record` numbered."""
        record_id, epoch = divmod(record - 1, self._epochs)
        return record_id, epoch

    def number_if_known(self, states: ReplicaColumns) -> int | None:
        """The number of one replica state; None if it was not met."""
        code = self._codes_of(states)
        places = np.searchsorted(self._codes, code)
        found = places[0] < self._codes.size and self._codes[places[0]] == code[0]
        return int(self._numbers[places[0]]) if found else None

    def numbers(self, states: ReplicaColumns) -> Keys:
        """The numbers of these replica states; new ones get the next numbers."""
        codes = self._codes_of(states)
        places = np.searchsorted(self._codes, codes)
        if self._codes.size:
            places[places == self._codes.size] = 0
            is_known = self._codes[places] == codes
            if is_known.all():
                return self._numbers[places]
            self._number_new(np.unique(codes[~is_known]))
        else:
            self._number_new(np.unique(codes))
        return self._numbers[np.searchsorted(self._codes, codes)]

    def _codes_of(self, states: ReplicaColumns) -> Keys:
        sizes = self._sizes
        higher_digits = (states.log * (sizes.log_size + 1) + states.hw) * (sizes.max_epoch + 2) + states.epoch + 1
        return np.asarray((higher_digits << sizes.replicas) | states.isr)

    def _number_new(self, new: Keys) -> None:
        """Number new states of a replica. Raises WorldTooLarge."""
        first = self._codes.size
        if first + new.size > 1 << self._bits:
            raise WorldTooLarge(f"the world is too large: one replica has more than {1 << self._bits} states")
        codes = np.concatenate([self._codes, new])
        numbers = np.concatenate([self._numbers, np.arange(first, first + new.size)])
        order = np.argsort(codes)
        self._codes, self._numbers = codes[order], numbers[order]
        self._add_columns(new)

    def _add_columns(self, codes: Keys) -> None:
        """Add the columns of these states."""
        sizes = self._sizes
        isr = codes & ((1 << sizes.replicas) - 1)
        higher_digits, epoch = np.divmod(codes >> sizes.replicas, sizes.max_epoch + 2)
        log, hw = np.divmod(higher_digits, sizes.log_size + 1)
        records = log[np.newaxis, :] // self.powers[:-1, np.newaxis] % self._base
        epochs = np.where(records > 0, (records - 1) % self._epochs, -1)
        before = np.full((1, codes.size), -1)
        self.log = np.concatenate([self.log, log])
        self.hw = np.concatenate([self.hw, hw.astype(np.int8)])
        self.end = np.concatenate([self.end, (records > 0).sum(axis=0).astype(np.int8)])
        self.epoch = np.concatenate([self.epoch, (epoch - 1).astype(np.int8)])
        self.isr = np.concatenate([self.isr, isr.astype(np.uint8)])
        self.records = np.concatenate([self.records, records.astype(np.int32)], axis=1)
        self.record_epochs = np.concatenate([self.record_epochs, np.concatenate([before, epochs]).astype(np.int8)], axis=1)


Request = tuple[int, int]  # leader or NOBODY, ISR as bits; its leader epoch is its place among the requests
Quorum = tuple[tuple[Request, ...], int]  # all LeaderAndIsr requests ever sent, and the ISR in ZooKeeper as bits


class Quorums:
    """The states of controller and ZooKeeper met so far, each with its successors.

    The leader and the epoch in ZooKeeper are those of the last request.
    """

    def __init__(self, sizes: Sizes, *, bits: int, failover: bool) -> None:
        """`failover`: the controller may remove the leader and elect another in one epoch."""
        self._sizes = sizes
        self._bits = bits
        self._failover = failover
        self._numbers: dict[Quorum, int] = {}
        self.quorums: list[Quorum] = []
        self._expanded = np.zeros(_FIRST_CAPACITY, np.bool_)
        # By epoch + 1 and number: the leader that the request of that epoch names; row 0 is NOBODY, for epoch -1.
        self.leader = np.full((sizes.max_epoch + 2, _FIRST_CAPACITY), NOBODY, np.int8)
        self.requested_isr = np.zeros((sizes.max_epoch + 2, _FIRST_CAPACITY), np.uint8)  # likewise
        self.isr = np.zeros(_FIRST_CAPACITY, np.uint8)
        self.epoch = np.full(_FIRST_CAPACITY, -1, np.int8)  # of the last request
        # By replica and number: the quorum after an election of the replica, after its election in place of a removed leader,
        # after the controller removes it from the ISR, and after the leader adds it to the ISR or removes it; -1 if not possible.
        self.elected = np.full((sizes.replicas, _FIRST_CAPACITY), -1, np.int64)
        self.replaced = np.full((sizes.replicas, _FIRST_CAPACITY), -1, np.int64)
        self.shrunk = np.full((sizes.replicas, _FIRST_CAPACITY), -1, np.int64)
        self.toggled = np.full((sizes.replicas, _FIRST_CAPACITY), -1, np.int64)

    def number_if_known(self, quorum: Quorum) -> int | None:
        """The number of a quorum; None if it was not met."""
        return self._numbers.get(quorum)

    def number(self, quorum: Quorum) -> int:
        """The number of a quorum; a new one gets the next number."""
        known_number = self._numbers.get(quorum)
        if known_number is None:
            known_number = self._numbers[quorum] = len(self.quorums)
            if known_number >= 1 << self._bits:
                raise WorldTooLarge(f"the world is too large: controller and ZooKeeper have more than {1 << self._bits} states")
            self.quorums.append(quorum)
            self._add_columns(known_number, quorum)
        return known_number

    def expand(self, numbers: Keys) -> None:
        """Find the successors of these quorums."""
        is_wanted = np.zeros(self._expanded.size, np.bool_)
        is_wanted[numbers] = True
        for number in np.flatnonzero(is_wanted & ~self._expanded).tolist():
            self._number_successors(number)

    def _number_successors(self, number: int) -> None:
        """Number the states to which the controller or a leader can change this one."""
        requests, isr = self.quorums[number]
        leader = requests[-1][0] if requests else NOBODY
        for replica in range(self._sizes.replicas):
            bit = 1 << replica
            if len(requests) <= self._sizes.max_epoch:
                if self._failover and leader not in (NOBODY, replica) and isr & bit:
                    others = isr & ~(1 << leader)
                    self.replaced[replica, number] = self.number(((*requests, (replica, others)), others))
                elif isr & bit and leader != replica:
                    self.elected[replica, number] = self.number(((*requests, (replica, isr)), isr))
                if isr == bit or ((isr & bit or leader == replica) and not (self._failover and leader == replica)):
                    self.shrunk[replica, number] = self.number(_quorum_without(requests, leader, isr, replica))
            if leader not in (NOBODY, replica):
                self.toggled[replica, number] = self.number((requests, isr ^ bit))
        self._expanded[number] = True

    def _add_columns(self, number: int, quorum: Quorum) -> None:
        """Add the columns of a state."""
        if number == self._expanded.size:
            self._double_capacity()
        requests, isr = quorum
        self.isr[number] = isr
        self.epoch[number] = len(requests) - 1
        for epoch, (leader, requested) in enumerate(requests):
            self.leader[epoch + 1, number] = leader
            self.requested_isr[epoch + 1, number] = requested

    def _double_capacity(self) -> None:
        """Make room for twice as many states."""
        self._expanded = np.concatenate([self._expanded, np.zeros_like(self._expanded)])
        self.isr = np.concatenate([self.isr, np.zeros_like(self.isr)])
        self.epoch = np.concatenate([self.epoch, np.full_like(self.epoch, -1)])
        self.leader = np.concatenate([self.leader, np.full_like(self.leader, NOBODY)], axis=1)
        self.requested_isr = np.concatenate([self.requested_isr, np.zeros_like(self.requested_isr)], axis=1)
        self.elected = np.concatenate([self.elected, np.full_like(self.elected, -1)], axis=1)
        self.replaced = np.concatenate([self.replaced, np.full_like(self.replaced, -1)], axis=1)
        self.shrunk = np.concatenate([self.shrunk, np.full_like(self.shrunk, -1)], axis=1)
        self.toggled = np.concatenate([self.toggled, np.full_like(self.toggled, -1)], axis=1)


def _quorum_without(requests: tuple[Request, ...], leader: int, isr: int, replica: int) -> Quorum:
    """The controller removes a replica from the ISR. A leader steps down; if it is the last member, it stays in the ISR."""
    bit = 1 << replica
    if leader == replica:
        others = isr if isr == bit else isr & ~bit
        return (*requests, (NOBODY, others)), others
    return (*requests, (leader, isr & ~bit)), isr & ~bit
