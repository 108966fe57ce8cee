"""The replication of one partition as an abstract model: controller, LeaderAndIsr requests, leaders, followers, logs of epochs.

Written from the description of the published models in docs/oracles.md §8.1; docs/model.md lists the actions. A request is never
lost for good: any replica may handle any request whose epoch is above its own, at any time, which stands for delays, losses and
duplicates. There is no crash: a replica that does nothing is one that is down. A replica that takes itself for the leader writes
and raises its HW. Only the leader in ZooKeeper changes the ISR, and ZooKeeper knows it at once.

A state is packed into 63 bits, lowest first: the number of each replica's state, the next record, the number of the quorum.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from highwater.explore.abstract.levels import Batch, Flags, Indices, Keys, WorldTooLarge
from highwater.explore.abstract.rules import PUBLISHED, Acknowledgement, Machines, Rules, Sizes
from highwater.explore.abstract.tables import NOBODY, Quorums, ReplicaColumns, Replicas

_STATE_BITS = 63
_QUORUM_BITS_MIN = 17
RAISES_HW = "raises its HW"
REPLICAS_MAX = 8  # an ISR is one byte
_CHUNK = 1 << 16
Column = npt.NDArray[np.int8]


class Chunk(Struct, frozen=True):
    """The columns of some states; those of replicas are lists by replica."""

    keys: Keys
    quorum: Keys  # numbers
    next_record: Keys
    number: list[Keys]
    end: list[Column]
    hw: list[Column]
    epoch: list[Column]
    leader: list[Column]
    isr: list[npt.NDArray[np.uint8]]  # of presumed leaders; 0 for all others

    def presumes(self, leader: int) -> Flags:
        """Where this replica takes itself for the leader."""
        return np.equal(self.leader[leader], leader)


class Replica(Struct, frozen=True, kw_only=True):
    """One replica of a state: its log as (record id, epoch) pairs; epoch -1 and no leader before its first request."""

    log: tuple[tuple[int, int], ...]
    hw: int
    epoch: int
    leader: int | None
    isr: frozenset[int]


class Situation(Struct, frozen=True, kw_only=True):
    """A state in words: replicas, the requests (leader, ISR) by epoch, the ISR in ZooKeeper."""

    replicas: tuple[Replica, ...]
    requests: tuple[tuple[int | None, frozenset[int]], ...]
    isr: frozenset[int]
    next_record: int


class KafkaReplication:
    """The replication model with the rules of one variant. WorldTooLarge if a state of these sizes does not fit into 63 bits."""

    invariants = ("WeakIsr", "StrongIsr")

    def __init__(self, rules: Rules, sizes: Sizes, *, machines: Machines = PUBLISHED) -> None:
        """`machines`: what the machines do otherwise than the published model; by default nothing."""
        if sizes.replicas > REPLICAS_MAX:
            raise WorldTooLarge(f"the world is too large: at most {REPLICAS_MAX} replicas, not {sizes.replicas}")
        codes = Replicas.codes_of(sizes)
        record_bits = sizes.max_records.bit_length()
        share = (_STATE_BITS - _QUORUM_BITS_MIN - record_bits) // sizes.replicas
        if codes >> (_STATE_BITS - 1) or share < 1:
            raise WorldTooLarge(f"the world is too large: a state does not fit into {_STATE_BITS} bits")
        self._rules = rules
        self._sizes = sizes
        self._machines = machines
        self._replica_bits = min(share, (codes - 1).bit_length())
        self._record_shift = self._replica_bits * sizes.replicas
        self._quorum_shift = self._record_shift + record_bits
        self._record_mask = (1 << record_bits) - 1
        self._replicas = Replicas(sizes, bits=self._replica_bits)
        self._quorums = Quorums(sizes, bits=_STATE_BITS - self._quorum_shift, failover=machines.failover)

    def initial(self) -> int:
        """Empty logs, no leader, everybody in the ISR, no request sent."""
        zero = np.zeros(1, np.int64)
        replica = int(self._replicas.numbers(ReplicaColumns(log=zero, hw=zero, epoch=-1, isr=0))[0])
        quorum = self._quorums.number(((), (1 << self._sizes.replicas) - 1))
        return quorum << self._quorum_shift | sum(replica << self._replica_bits * r for r in range(self._sizes.replicas))

    def within(self, keys: Keys) -> None:
        """None: the actions themselves keep all states within the sizes."""

    def successors(self, keys: Keys) -> Iterator[Batch]:
        """All successors of these states, one batch for each action and the replicas that take part in it."""
        chunk = self._columns_of_keys(keys)
        self._quorums.expand(chunk.quorum)
        replicas = range(self._sizes.replicas)
        for replica in replicas:
            yield from self._controller_batches(chunk, replica)
            yield from self._request_batches(chunk, replica)
            yield from self._batch_of_write(chunk, replica)
            yield from self._batch_of_raised_hw(chunk, replica)
            for follower in replicas:
                if follower != replica:
                    yield from self._isr_batches(chunk, replica, follower)
                    yield from self._batch_of_fetch(chunk, replica, follower)
                    yield from self._batch_of_late_truncation(chunk, replica, follower)

    def broken(self, keys: Keys, invariant: str) -> Flags:
        """Where a member of the ISR lacks a record below the HW of a presumed leader.

        The ISR is the leader's own for WeakIsr, the one in ZooKeeper for StrongIsr.
        """
        parts = [
            self._where_broken(self._columns_of_keys(keys[at : at + _CHUNK]), invariant) for at in range(0, keys.size, _CHUNK)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.bool_)

    def lone_leaders(self, keys: Keys) -> Flags:
        """Where a presumed leader is alone in its ISR and has yet to raise its HW."""
        chunk = self._columns_of_keys(keys)
        alone = np.zeros(keys.size, np.bool_)
        for leader in range(self._sizes.replicas):
            alone |= chunk.presumes(leader) & (chunk.isr[leader] == 1 << leader) & (chunk.hw[leader] < chunk.end[leader])
        return alone

    def situation(self, key: int) -> Situation:
        """A state in words."""
        chunk = self._columns_of_keys(np.array([key], dtype=np.int64))
        requests, isr = self._quorums.quorums[int(chunk.quorum[0])]
        return Situation(
            replicas=tuple(self._replica_in_words(chunk, replica) for replica in range(self._sizes.replicas)),
            requests=tuple((None if leader == NOBODY else leader, _members(members)) for leader, members in requests),
            isr=_members(isr),
            next_record=int(chunk.next_record[0]),
        )

    def key(self, situation: Situation) -> int | None:
        """The state that these words describe; None if a part of it was not met."""
        requests = tuple((NOBODY if leader is None else leader, _bits(isr)) for leader, isr in situation.requests)
        quorum = self._quorums.number_if_known((requests, _bits(situation.isr)))
        if quorum is None:
            return None
        key = quorum << self._quorum_shift | situation.next_record << self._record_shift
        for index, replica in enumerate(situation.replicas):
            number = self._replicas.number_if_known(self._columns_of_replica(index, replica))
            if number is None:
                return None
            key |= number << self._replica_bits * index
        return key

    def _columns_of_replica(self, index: int, replica: Replica) -> ReplicaColumns:
        """A replica as numbers: its log as digits of one number, its ISR as bits."""
        log = np.zeros(1, np.int64)
        for offset, (record, epoch) in enumerate(replica.log):
            log += self._replicas.record(_array_of_one(record), _array_of_one(epoch)) * self._replicas.powers[offset]
        isr = _bits(replica.isr) if replica.leader == index else 0
        return ReplicaColumns(log=log, hw=_array_of_one(replica.hw), epoch=replica.epoch, isr=isr)

    # --- columns ----------------------------------------------------------------------------------------------------------------

    def _columns_of_keys(self, keys: Keys) -> Chunk:
        """The parts of these states as columns."""
        table, quorums = self._replicas, self._quorums
        mask = (1 << self._replica_bits) - 1
        quorum = keys >> self._quorum_shift
        number = [keys >> self._replica_bits * replica & mask for replica in range(self._sizes.replicas)]
        epoch = [table.epoch[at] for at in number]
        width = quorums.leader.shape[1]
        leaders = quorums.leader.reshape(-1)
        return Chunk(
            keys=keys,
            quorum=quorum,
            next_record=keys >> self._record_shift & self._record_mask,
            number=number,
            end=[table.end[at] for at in number],
            hw=[table.hw[at] for at in number],
            epoch=epoch,
            leader=[leaders[(of.astype(np.int64) + 1) * width + quorum] for of in epoch],
            isr=[table.isr[at] for at in number],
        )

    def _columns_at(self, chunk: Chunk, at: Indices, replica: int) -> ReplicaColumns:
        """One replica's columns in the states at these places."""
        return ReplicaColumns(
            log=self._replicas.log[chunk.number[replica][at]],
            hw=chunk.hw[replica][at].astype(np.int64),
            epoch=chunk.epoch[replica][at].astype(np.int64),
            isr=chunk.isr[replica][at].astype(np.int64),
        )

    def _keys_with_replica(self, chunk: Chunk, at: Indices, replica: int, states: ReplicaColumns) -> Keys:
        # The states `at`, with other states of this replica.
        number = self._replicas.numbers(states)
        return chunk.keys[at] + (number - chunk.number[replica][at] << self._replica_bits * replica)

    # --- the controller ---------------------------------------------------------------------------------------------------------

    def _controller_batches(self, chunk: Chunk, replica: int) -> Iterator[Batch]:
        """The controller elects this replica, puts it in the leader's place, or removes it from the ISR."""
        quorums = self._quorums
        yield from self._batch_to_quorum(chunk, f"the controller elects {_name(replica)}", quorums.elected[replica])
        yield from self._batch_to_quorum(
            chunk, f"the controller replaces the leader by {_name(replica)}", quorums.replaced[replica]
        )
        yield from self._batch_to_quorum(chunk, f"the controller removes {_name(replica)} from the ISR", quorums.shrunk[replica])

    def _batch_to_quorum(self, chunk: Chunk, action: str, after: Keys) -> Iterator[Batch]:
        """Replace the quorum of each state by its successor in `after` (by number; -1 if the action is not possible)."""
        to = after[chunk.quorum]
        at = np.flatnonzero(to >= 0)
        if at.size:
            yield Batch(action, at, chunk.keys[at] + (to[at] - chunk.quorum[at] << self._quorum_shift))

    # --- LeaderAndIsr requests --------------------------------------------------------------------------------------------------

    def _request_batches(self, chunk: Chunk, leader: int) -> Iterator[Batch]:
        """All requests that name this leader, to itself and to its followers."""
        for epoch in range(self._sizes.max_epoch + 1):
            named = self._quorums.leader[epoch + 1][chunk.quorum] == leader
            yield from self._batch_of_new_leader(chunk, named, leader, epoch)
            for follower in range(self._sizes.replicas):
                if follower != leader:
                    yield from self._batches_of_new_follower(chunk, named, leader, follower, epoch)

    def _batch_of_new_leader(self, chunk: Chunk, named: Flags, leader: int, epoch: int) -> Iterator[Batch]:
        """The named leader becomes leader of the epoch."""
        at = np.flatnonzero(named & self._where_obeyed(chunk, leader, epoch))
        if at.size:
            isr = self._quorums.requested_isr[epoch + 1][chunk.quorum[at]]
            after = replace(self._columns_at(chunk, at, leader), epoch=epoch, isr=_wide(isr))
            keys = self._keys_with_replica(chunk, at, leader, after)
            yield Batch(f"{_name(leader)} becomes leader of epoch {epoch}", at, keys)

    def _where_obeyed(self, chunk: Chunk, replica: int, epoch: int) -> Flags:
        """Where the replica has heard of no request of this epoch or a later one."""
        newer: Flags = chunk.epoch[replica] < epoch
        if self._machines.epoch_floor:
            newer &= self._epochs_before(chunk.number[replica], _wide(chunk.end[replica])) <= epoch
        return newer

    def _batches_of_new_follower(self, chunk: Chunk, named: Flags, leader: int, follower: int, epoch: int) -> Iterator[Batch]:
        """A follower obeys the leader of the epoch, and truncates its log as the rules say."""
        may = named & self._where_obeyed(chunk, follower, epoch)
        if self._rules.truncation_fenced:
            may &= chunk.epoch[leader] == epoch
        if self._machines.leader_answers and self._rules.truncation in ("kip101", "kip279"):
            may &= chunk.presumes(leader)
        at = np.flatnonzero(may)
        if not at.size:
            return
        action = f"{_name(follower)} follows {_name(leader)} in epoch {epoch}"
        to = self._truncation_offsets(chunk, at, leader, follower)
        if self._rules.truncation == "kip101":
            # The published model has no minimum here: a lookup beyond the follower's own log lets it wait for ever.
            possible = to <= chunk.end[follower][at]
            at, to = at[possible], to[possible]
        keys = self._keys_with_log_truncated(chunk, at, follower, to, epoch)
        yield Batch(action, at, keys)
        if self._rules.truncation == "kip279" and not self._rules.truncation_fenced:
            # The published action has a second way, for empty logs, that overlaps the first.
            empty = chunk.end[follower][at] == 0
            yield Batch(action, at[empty], keys[empty])

    def _keys_with_log_truncated(self, chunk: Chunk, at: Indices, follower: int, to: Keys, epoch: Keys | int) -> Keys:
        states = self._columns_at(chunk, at, follower)
        log = states.log % self._replicas.powers[to]
        hw = np.minimum(to, states.hw)
        return self._keys_with_replica(chunk, at, follower, ReplicaColumns(log=log, hw=hw, epoch=epoch, isr=0))

    # --- where a follower truncates ---------------------------------------------------------------------------------------------

    def _truncation_offsets(self, chunk: Chunk, at: Indices, leader: int, follower: int) -> Keys:
        """The offset to which a new follower truncates its log."""
        match self._rules.truncation:
            case "to-hw":
                return _wide(chunk.hw[follower][at])
            case "kip101":
                return self._ends_of_epoch(chunk, at, leader, follower)
            case "kip279":
                return self._ends_of_match(chunk, at, leader, follower)
            case "when-fetching":
                # The log and the HW stay.
                return _wide(np.maximum(chunk.end[follower][at], chunk.hw[follower][at]))

    def _ends_of_match(self, chunk: Chunk, at: Indices, leader: int, follower: int) -> Keys:
        """One past the last offset at which both logs hold the same record."""
        to = np.zeros(at.size, np.int64)
        for offset, records in enumerate(self._replicas.records):
            own, record_of_leader = records[chunk.number[follower][at]], records[chunk.number[leader][at]]
            to[(own == record_of_leader) & (own > 0)] = offset + 1
        return to

    def _ends_of_epoch(self, chunk: Chunk, at: Indices, leader: int, follower: int) -> Keys:
        """KIP-101: the leader's first offset of an epoch above the one of the follower's last record. The follower's own HW if
        the leader knows nothing of that epoch and of no later one.
        """
        end, hw = _wide(chunk.end[follower][at]), _wide(chunk.hw[follower][at])
        leader_end = _wide(chunk.end[leader][at])
        last = self._epochs_before(chunk.number[follower][at], end)
        to = hw.copy()
        if self._machines.epoch_start:
            # A leader knows where its epoch began before it writes.
            own = chunk.epoch[leader][at] > last
            to[own] = leader_end[own]
        for offset in reversed(range(self._sizes.log_size)):
            later = (offset < leader_end) & (self._replicas.record_epochs[offset + 1][chunk.number[leader][at]] > last)
            to[later] = offset
        same = (leader_end > 0) & (self._epochs_before(chunk.number[leader][at], leader_end) == last)
        to[same] = leader_end[same]
        to[end == 0] = 0
        return to

    def _epochs_before(self, number: Keys, end: Keys) -> Column:
        """The epoch of the record before this end offset; -1 if the offset is 0."""
        epochs = self._replicas.record_epochs
        return np.asarray(epochs.reshape(-1)[end * epochs.shape[1] + number])

    # --- leaders ----------------------------------------------------------------------------------------------------------------

    def _batch_of_write(self, chunk: Chunk, leader: int) -> Iterator[Batch]:
        """A leader writes the next record."""
        sizes, table = self._sizes, self._replicas
        room = (chunk.end[leader] < sizes.log_size) & (chunk.next_record < sizes.max_records)
        at = np.flatnonzero(chunk.presumes(leader) & room)
        if at.size:
            states = self._columns_at(chunk, at, leader)
            record = table.record(chunk.next_record[at], _wide(chunk.epoch[leader][at]))
            log = states.log + record * table.powers[chunk.end[leader][at]]
            keys = self._keys_with_replica(chunk, at, leader, replace(states, log=log))
            yield Batch(f"{_name(leader)} writes a record", at, keys + (1 << self._record_shift))

    def _batch_of_raised_hw(self, chunk: Chunk, leader: int) -> Iterator[Batch]:
        """A leader raises its HW over a record that all members of its ISR have acknowledged."""
        hw = chunk.hw[leader]
        may = chunk.presumes(leader) & (chunk.end[leader] > hw)
        for follower in range(self._sizes.replicas):
            if follower != leader:
                outside = chunk.isr[leader] & (1 << follower) == 0
                may &= outside | self._where_acknowledged(chunk, leader, follower, hw + 1, self._rules.hw)
        at = np.flatnonzero(may)
        if at.size:
            states = self._columns_at(chunk, at, leader)
            keys = self._keys_with_replica(chunk, at, leader, replace(states, hw=states.hw + 1))
            yield Batch(f"{_name(leader)} {RAISES_HW}", at, keys)

    def _where_acknowledged(self, chunk: Chunk, leader: int, follower: int, end: Column, needed: Acknowledgement) -> Flags:
        """Where the follower has acknowledged the leader's log up to this end offset, which the leader's log has."""
        follows = self._where_following(chunk, leader, follower, needed) & (chunk.end[follower] >= end)
        if needed == "record-epoch":
            at = np.flatnonzero(follows)
            own = self._epochs_before(chunk.number[follower][at], _wide(end[at]))
            epoch_of_leader = self._epochs_before(chunk.number[leader][at], _wide(end[at]))
            follows[at] = own == epoch_of_leader
            if self._machines.diverging_waits:
                follows &= ~self._where_diverged(chunk, leader, follower)
        return follows

    def _where_following(self, chunk: Chunk, leader: int, follower: int, needed: Acknowledgement) -> Flags:
        """Where the follower follows this leader, in the leader's epoch if `needed` asks for it."""
        follows: Flags = chunk.leader[follower] == leader
        if needed == "leader-epoch":
            follows &= chunk.epoch[follower] == chunk.epoch[leader]
        return follows

    def _isr_batches(self, chunk: Chunk, leader: int, follower: int) -> Iterator[Batch]:
        """The leader in ZooKeeper removes a follower that lags or adds one that has reached the HW."""
        rules = self._rules
        true_leader = chunk.presumes(leader) & (chunk.epoch[leader] == self._quorums.epoch[chunk.quorum])
        inside = chunk.isr[leader] & (1 << follower) != 0
        removes = f"{_name(leader)} removes {_name(follower)} from the ISR"
        caught_up = self._where_acknowledged(chunk, leader, follower, chunk.end[leader], rules.shrinking)
        yield from self._batch_with_member_toggled(chunk, removes, true_leader & inside & ~caught_up, leader, follower)
        if rules.shrinking == "leader-epoch":
            # The published action has two ways: "does not follow in this epoch" and "lags". Both may hold.
            elsewhere = ~self._where_following(chunk, leader, follower, "leader-epoch")
            both = true_leader & inside & elsewhere & (chunk.end[follower] < chunk.end[leader])
            yield from self._batch_with_member_toggled(chunk, removes, both, leader, follower)
        may = true_leader & ~inside & self._where_acknowledged(chunk, leader, follower, chunk.hw[leader], rules.expansion)
        if rules.expansion_in_epoch:
            may &= self._where_hw_is_in_own_epoch(chunk, leader)
        yield from self._batch_with_member_toggled(
            chunk, f"{_name(leader)} adds {_name(follower)} to the ISR", may, leader, follower
        )

    def _where_hw_is_in_own_epoch(self, chunk: Chunk, leader: int) -> Flags:
        """Whether the record at the HW is of the leader's epoch, or the HW is the end of the log."""
        hw = _wide(chunk.hw[leader])
        at_end = chunk.hw[leader] == chunk.end[leader]
        following = self._epochs_before(chunk.number[leader], np.minimum(hw + 1, self._sizes.log_size))
        return np.asarray(at_end | (following == chunk.epoch[leader]))

    def _batch_with_member_toggled(self, chunk: Chunk, action: str, may: Flags, leader: int, follower: int) -> Iterator[Batch]:
        """Add the follower to the ISR, or remove it, where this may happen."""
        at = np.flatnonzero(may)
        if at.size:
            states = self._columns_at(chunk, at, leader)
            keys = self._keys_with_replica(chunk, at, leader, replace(states, isr=states.isr ^ (1 << follower)))
            quorum = chunk.quorum[at]
            yield Batch(action, at, keys + (self._quorums.toggled[follower][quorum] - quorum << self._quorum_shift))

    # --- followers --------------------------------------------------------------------------------------------------------------

    def _batch_of_fetch(self, chunk: Chunk, leader: int, follower: int) -> Iterator[Batch]:
        """A follower fetches the record after its log."""
        end = chunk.end[follower]
        may = chunk.presumes(leader) & (end < chunk.end[leader])
        at = np.flatnonzero(may & self._where_acknowledged(chunk, leader, follower, end, self._rules.fetch))
        if at.size:
            table = self._replicas
            last_offset = end[at].astype(np.int64)
            width = table.records.shape[1]
            record = table.records.reshape(-1)[last_offset * width + chunk.number[leader][at]]
            states = self._columns_at(chunk, at, follower)
            hw = np.minimum(_wide(chunk.hw[leader][at]), last_offset + 1)
            keys = self._keys_with_replica(
                chunk, at, follower, replace(states, log=states.log + record * table.powers[last_offset], hw=hw)
            )
            yield Batch(f"{_name(follower)} fetches a record from {_name(leader)}", at, keys)

    def _batch_of_late_truncation(self, chunk: Chunk, leader: int, follower: int) -> Iterator[Batch]:
        """KIP-320's first try: a follower that fetches truncates if its log does not end as the leader's log does there."""
        if self._rules.truncation != "when-fetching":
            return
        follows = chunk.presumes(leader) & (chunk.leader[follower] == leader)
        at = np.flatnonzero(follows & self._where_diverged(chunk, leader, follower))
        if at.size:
            to = self._ends_of_match(chunk, at, leader, follower)
            keys = self._keys_with_log_truncated(chunk, at, follower, to, _wide(chunk.epoch[follower][at]))
            yield Batch(f"{_name(follower)} truncates its log against {_name(leader)}", at, keys)

    def _where_diverged(self, chunk: Chunk, leader: int, follower: int) -> Flags:
        """Where a follower's log does not end as the leader's log does there."""
        end, end_of_leader = _wide(chunk.end[follower]), _wide(chunk.end[leader])
        own = self._epochs_before(chunk.number[follower], end)
        return np.asarray(
            (end > end_of_leader) | (self._epochs_before(chunk.number[leader], np.minimum(end, end_of_leader)) != own) & (end > 0)
        )

    # --- invariants and words ---------------------------------------------------------------------------------------------------

    def _where_broken(self, chunk: Chunk, invariant: str) -> Flags:
        """The states in which a leader's committed records are not in the log of each member of the ISR."""
        table = self._replicas
        broken = np.zeros(chunk.keys.size, np.bool_)
        for leader in range(self._sizes.replicas):
            at = np.flatnonzero(chunk.presumes(leader) & (chunk.hw[leader] > 0))
            powers = table.powers[chunk.hw[leader][at]]
            committed = table.log[chunk.number[leader][at]] % powers
            isr = chunk.isr[leader][at] if invariant == "WeakIsr" else self._quorums.isr[chunk.quorum[at]]
            for replica in range(self._sizes.replicas):
                differs = table.log[chunk.number[replica][at]] % powers != committed
                broken[at] |= differs & (isr & (1 << replica) != 0)
        return broken

    def _replica_in_words(self, chunk: Chunk, replica: int) -> Replica:
        """The replica of a chunk of one state."""
        table = self._replicas
        number = int(chunk.number[replica][0])
        epoch, leader = int(chunk.epoch[replica][0]), int(chunk.leader[replica][0])
        requested = int(self._quorums.requested_isr[epoch + 1][chunk.quorum[0]])
        return Replica(
            log=tuple(table.decoded(int(record)) for record in table.records[:, number] if record),
            hw=int(chunk.hw[replica][0]),
            epoch=epoch,
            leader=None if leader == NOBODY else leader,
            isr=_members(int(chunk.isr[replica][0]) if leader == replica else requested),
        )


def _wide(column: npt.NDArray[np.int8] | npt.NDArray[np.uint8]) -> Keys:
    return column.astype(np.int64)


def _name(replica: int) -> str:
    return f"b{replica + 1}"


def _array_of_one(number: int) -> Keys:
    return np.array([number], np.int64)


def _bits(members: frozenset[int]) -> int:
    return sum(1 << replica for replica in members)


def _members(bits: int) -> frozenset[int]:
    return frozenset(replica for replica in range(REPLICAS_MAX) if bits >> replica & 1)
