"""Whether one step of an implementation is a step of the replication model, several or none.

A picture holds what the model has variables for: logs with epochs, HW, the epoch and the leader that each replica obeys, the ISR
of presumed leaders, and leader, epoch and ISR in ZooKeeper. `explain` splits the change between two pictures into actions of the
model, checks the guard of each by the rules of a variant, and names them. Machines also do what the model cannot: each such
action has a name too, and docs/model.md has its reason. A change that is neither is unexplained.

The model's requests are not in a picture. That somebody sent the command that a replica obeys is not checked; that the leader of
the last epoch is the one in ZooKeeper is.
"""

from collections.abc import Iterator

from msgspec import Struct

from highwater.explore.abstract.rules import Acknowledgement, Rules

Record = tuple[str, int]  # value, leader epoch
Log = tuple[Record, ...]

# Actions that the model does not have.
CRASH, RESTART, RESIGN = "crash", "restart", "resign"
OBEY, TRUNCATE_FIRST = "obey", "truncate in rounds"
ACKNOWLEDGED_BEFORE, REPLY_IN_FLIGHT = "acknowledged before", "reply in flight"
LEARN_HW, REMOVE_CAUGHT_UP, ISR_KEPT = "learn HW", "remove caught-up", "ISR kept"
ADD_AT_EPOCH_START, ELECT_FROM_ELR = "add at epoch start", "elect from ELR"
CHANGE_IN_FLIGHT, LEARN_ISR = "ISR change in flight", "learn ISR"


class ReplicaPicture(Struct, frozen=True, kw_only=True):
    """One replica: `leader` is the index of the replica it follows, its own if it leads, None if it does neither.

    `truncating`: it has obeyed the command to follow `leader`, but does not fetch before its log is truncated.
    """

    up: bool
    log: Log
    hw: int
    epoch: int
    leader: int | None
    truncating: bool = False
    isr: frozenset[int] = frozenset()  # of a presumed leader, as it believes


class AskedIsr(Struct, frozen=True):
    """An ISR that a leader asked for; `hw`: the HW of that leader, as it was when it last led."""

    isr: frozenset[int]
    hw: int


class Picture(Struct, frozen=True, kw_only=True):
    """A cluster as the model sees it; replicas are numbered from 0.

    `asked`: what the leader in ZooKeeper asked for on the present state; the next write there ends all of it. It is needed only
    once the leader does not lead any more.
    """

    replicas: tuple[ReplicaPicture, ...]
    leader: int | None
    epoch: int
    isr: frozenset[int]
    elr: frozenset[int] = frozenset()  # those who may still be elected (KIP-966)
    asked: frozenset[AskedIsr] = frozenset()
    told: frozenset[tuple[int, frozenset[int]]] = frozenset()  # (epoch, ISR) that ZooKeeper had, in an answer on its way


class Unexplained(Exception):  # noqa: N818 - a finding
    """No action of the model explains the step; the message says which change and why."""


def explain(rules: Rules, before: Picture, after: Picture) -> tuple[str, ...]:
    """The actions that lead from one picture to the other, in no order; Unexplained if there are none."""
    return tuple(_Step(rules, before, after).actions())


class _Step:
    # One step: the pictures before and after it.

    def __init__(self, rules: Rules, before: Picture, after: Picture) -> None:
        self._rules = rules
        self._before = before
        self._after = after

    def actions(self) -> Iterator[str]:
        """The model's actions that explain the step, or none. Raises Unexplained."""
        if self._before == self._after:
            return
        yield from self._zookeeper_actions()
        for index, (before, now) in enumerate(zip(self._before.replicas, self._after.replicas, strict=True)):
            if before != now:
                yield from self._replica_actions(index, before, now)

    # --- ZooKeeper -----------------------------------------------------------------------------------------------------------

    def _zookeeper_actions(self) -> Iterator[str]:
        """The actions that explain how the state in ZooKeeper changed."""
        before, now = self._before, self._after
        if now.epoch != before.epoch:
            yield from self._election_actions()
        elif now.leader != before.leader:
            raise Unexplained(f"ZooKeeper names another leader in epoch {now.epoch}")
        elif now.isr != before.isr:
            yield from self._isr_actions()

    def _election_actions(self) -> Iterator[str]:
        """One write of the machines may be several of the model's: removals, then an election."""
        before, now = self._before, self._after
        if now.epoch < before.epoch:
            raise Unexplained(f"the epoch in ZooKeeper fell from {before.epoch} to {now.epoch}")
        if not now.isr <= before.isr | before.elr:
            raise Unexplained(f"the controller added {_names(now.isr - before.isr)} to the ISR")
        if not now.isr <= before.isr:
            yield ELECT_FROM_ELR
        if now.leader is not None and now.leader not in before.isr | before.elr:
            raise Unexplained(f"the controller elected {_name(now.leader)}, which is not in the ISR")
        if now.leader is not None and (now.leader != before.leader or now.isr == before.isr):
            yield "elect"
        if before.isr - now.isr:
            yield "controller removes"
        if now.leader is None:
            yield ISR_KEPT if now.isr == before.isr and len(now.isr) > 1 else "controller removes"

    def _isr_actions(self) -> Iterator[str]:
        """The actions that explain another ISR in the same epoch: by its leader, or by a request that it sent before."""
        before, now = self._before, self._after
        index = before.leader
        leader = None if index is None else before.replicas[index]
        if index is None or leader is None or leader.leader != index or leader.epoch != before.epoch:
            yield self._late_isr_action()
            return
        for follower in sorted(before.isr - now.isr):
            caught_up = self._has_acknowledged(index, follower, len(leader.log), self._rules.shrinking)
            yield REMOVE_CAUGHT_UP if caught_up else "leader removes"
        for follower in sorted(now.isr - before.isr):
            yield from self._expansion_action(index, follower)

    def _late_isr_action(self) -> str:
        """The action by which an ISR takes effect whose leader stopped after it had asked for it.

        The leader may have raised its HW meanwhile, so a new member must hold what it committed.
        """
        before, now = self._before, self._after
        asked_isr = next((asked_isr for asked_isr in before.asked if asked_isr.isr == now.isr), None)
        if before.leader is None or asked_isr is None:
            raise Unexplained(
                "the ISR changed in ZooKeeper, but its leader does not lead in this epoch and asked for no such ISR"
            )
        log = before.replicas[before.leader].log
        end = max(asked_isr.hw, next((offset for offset, (_, epoch) in enumerate(log) if epoch == before.epoch), len(log)))
        for follower in sorted(now.isr - before.isr):
            log_of_follower = before.replicas[follower].log
            # A fault may have destroyed the leader's log since.
            if len(log_of_follower) < end or log_of_follower[: min(end, len(log))] != log[:end]:
                raise Unexplained(
                    f"{_name(follower)} joined the ISR as {_name(before.leader)} had asked, but lacks records below offset {end}"
                )
        return CHANGE_IN_FLIGHT

    def _expansion_action(self, leader: int, follower: int) -> Iterator[str]:
        """The model asks for the leader's HW in its own epoch, Kafka for the follower's end behind the start of that epoch."""
        own = self._before.replicas[leader]
        start = next((offset for offset, (_, epoch) in enumerate(own.log) if epoch == own.epoch), len(own.log))
        early = self._rules.expansion_in_epoch and own.hw < len(own.log) and own.log[own.hw][1] != own.epoch
        end = max(start, own.hw) if early else own.hw
        if self._has_acknowledged(leader, follower, end, self._rules.expansion):
            yield ADD_AT_EPOCH_START if early else "leader adds"
        elif self._holds(own, follower, end):
            yield ACKNOWLEDGED_BEFORE
        else:
            raise Unexplained(f"{_name(leader)} added {_name(follower)} to the ISR, which lacks records below offset {end}")

    # --- one replica -----------------------------------------------------------------------------------------------------------

    def _replica_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """The actions that explain how one replica changed."""
        if before.up != now.up:
            yield self._process_action(index, before, now)
        elif now.epoch < before.epoch:
            raise Unexplained(f"the epoch of {_name(index)} fell from {before.epoch} to {now.epoch}")
        elif now.leader == index:
            yield from self._leader_actions(index, before, now)
        elif now.leader is None:
            yield from self._idle_actions(index, before, now)
        elif now.truncating:
            yield from self._truncation_actions(index, before, now)
        elif (before.leader, before.epoch, before.truncating) == (now.leader, now.epoch, False):
            yield from self._follower_actions(index, before, now)
        else:
            yield from self._follow_actions(index, before, now)

    def _process_action(self, index: int, was: ReplicaPicture, now: ReplicaPicture) -> str:
        if now.log != was.log[: len(now.log)]:
            raise Unexplained(f"{_name(index)} has other records after its {CRASH if was.up else RESTART}")
        return CRASH if was.up else RESTART

    def _idle_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """A replica that obeys no leader any more must keep its log."""
        if now.log != before.log:
            raise Unexplained(f"the log of {_name(index)} changed, but it obeys no leader")
        yield from self._last_hw_actions(index, before, now)
        if before.leader is not None:
            yield RESIGN

    # --- leaders ---------------------------------------------------------------------------------------------------------------

    def _leader_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """The actions of a leader: it takes office, writes, learns its ISR, raises its HW."""
        if (before.leader, before.epoch) != (index, now.epoch):
            yield from self._election_action(index, before, now)
        elif now.isr not in (before.isr, self._after.isr) and (now.epoch, now.isr) in self._before.told:
            yield LEARN_ISR
        elif now.isr not in (before.isr, self._after.isr):
            raise Unexplained(f"{_name(index)} counts on another ISR than the one in ZooKeeper")
        if now.log[: len(before.log)] != before.log:
            raise Unexplained(f"leader {_name(index)} truncated its log")
        for _, epoch in now.log[len(before.log) :]:
            if epoch != now.epoch:
                raise Unexplained(f"leader {_name(index)} of epoch {now.epoch} wrote a record of epoch {epoch}")
            yield "write"
        if now.hw < before.hw:
            raise Unexplained(f"the HW of leader {_name(index)} fell from {before.hw} to {now.hw}")
        for offset in range(before.hw, now.hw):
            yield from self._hw_action(index, now, offset)

    def _election_action(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """A replica may lead an epoch only if ZooKeeper elected it."""
        zookeeper = self._after
        if now.epoch > zookeeper.epoch or (now.epoch == zookeeper.epoch and zookeeper.leader != index):
            raise Unexplained(f"{_name(index)} leads epoch {now.epoch}, to which nobody elected it")
        if before.leader is not None and now.epoch == before.epoch and not before.truncating:
            raise Unexplained(f"{_name(index)} leads epoch {now.epoch}, in which it follows {_name(before.leader)}")
        yield "become leader"

    def _last_hw_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """A leader may raise its HW and stop to lead in one step; nobody else's HW rises before it fetches."""
        if now.hw > before.hw and before.leader != index:
            raise Unexplained(f"the HW of {_name(index)} rose, but it neither leads nor fetches")
        for offset in range(before.hw, now.hw):
            yield from self._hw_action(index, before, offset)

    def _hw_action(self, index: int, leader: ReplicaPicture, offset: int) -> Iterator[str]:
        """Raising the HW over this record needs the acknowledgement of each member of the leader's ISR."""
        if offset >= len(leader.log):
            raise Unexplained(f"the HW of {_name(index)} is beyond its log")
        is_late = False
        for follower in sorted(leader.isr - {index}):
            if not self._has_acknowledged(index, follower, offset + 1, self._rules.hw):
                if not self._holds(leader, follower, offset + 1):
                    raise Unexplained(f"{_name(index)} raised its HW over offset {offset}, which {_name(follower)} does not hold")
                is_late = True
        yield ACKNOWLEDGED_BEFORE if is_late else "raise HW"

    # --- followers -------------------------------------------------------------------------------------------------------------

    def _truncation_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """A follower that still truncates: it hears of its leader and cuts its log."""
        if (before.leader, before.epoch, before.truncating) != (now.leader, now.epoch, True):
            yield OBEY
        if now.log != before.log:
            self._check_truncation(index, before, now, rounds=True)
            yield TRUNCATE_FIRST
        yield from self._last_hw_actions(index, before, now)

    def _follow_actions(self, index: int, was: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        self._check_truncation(index, was, now, rounds=False)
        yield from self._last_hw_actions(index, was, now)
        yield "follow" if self._leads_now(now) else REPLY_IN_FLIGHT

    def _check_truncation(self, index: int, before: ReplicaPicture, now: ReplicaPicture, *, rounds: bool) -> None:
        """Raises Unexplained if the log was cut at another offset than the rules say."""
        if now.log != before.log[: len(now.log)]:
            raise Unexplained(f"{_name(index)} appended records before it followed {_name(now.leader)}")
        to = self._truncation_offset(before, now)
        if len(now.log) < to or (len(now.log) > to and not rounds and self._leads_now(now)):
            raise Unexplained(
                f"{_name(index)} truncated its log from {len(before.log)} to {len(now.log)} and not to {to} "
                f"to follow {_name(now.leader)} in epoch {now.epoch}"
            )

    def _truncation_offset(self, before: ReplicaPicture, now: ReplicaPicture) -> int:
        """Where the rules truncate this log. Of a leader that has moved on only its log is known, which may be another by now."""
        assert now.leader is not None
        match self._rules.truncation:
            case "to-hw":
                return min(before.hw, len(before.log))
            case "when-fetching":
                return len(before.log)
            case "kip101":
                return _end_of_epoch(self._before.replicas[now.leader].log, before)
            case "kip279":
                if not self._leads_now(now) and self._before.replicas[now.leader].up:
                    return 0
                return _end_of_match(self._before.replicas[now.leader].log, before.log)

    def _follower_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """The actions of a follower: it fetches, learns the HW, or truncates again after a new session."""
        assert now.leader is not None
        leader = self._before.replicas[now.leader]
        if len(now.log) < len(before.log):
            yield self._repeated_truncation_action(index, before, now)
        elif now.log != before.log:
            yield from self._fetch_actions(index, before, now)
        if now.hw != before.hw:
            if now.hw > max(min(leader.hw, len(now.log)), before.hw) and leader.up and leader.leader == now.leader:
                raise Unexplained(f"{_name(index)} took HW {now.hw}, but {_name(now.leader)} has {leader.hw}")
            if len(now.log) == len(before.log):
                yield LEARN_HW

    def _repeated_truncation_action(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> str:
        """A broker with a new session follows the same leader again; a rule that needs no answer truncates in this step."""
        assert now.leader is not None
        match self._rules.truncation:
            case "to-hw" if len(now.log) == before.hw:
                return OBEY
            case "when-fetching" if len(now.log) == _end_of_match(self._before.replicas[now.leader].log, before.log):
                return "truncate late"
            case _:
                raise Unexplained(f"{_name(index)} truncated its log while it followed {_name(now.leader)}")

    def _fetch_actions(self, index: int, before: ReplicaPicture, now: ReplicaPicture) -> Iterator[str]:
        """The records that a follower fetched must be those of its leader, unless the answer was under way."""
        assert now.leader is not None
        if now.log[: len(before.log)] != before.log:
            raise Unexplained(f"{_name(index)} replaced records by a fetch")
        leader = self._before.replicas[now.leader]
        fenced = self._rules.fetch == "leader-epoch"
        serves = leader.up and leader.leader == now.leader and (leader.epoch == now.epoch or not fenced)
        for offset in range(len(before.log), len(now.log)):
            if serves:
                if leader.log[offset : offset + 1] != now.log[offset : offset + 1]:
                    raise Unexplained(f"{_name(index)} fetched a record that {_name(now.leader)} does not have")
                yield "fetch"
            elif fenced and now.log[offset][1] > now.epoch:
                raise Unexplained(f"{_name(index)} fetched a record of epoch {now.log[offset][1]} in epoch {now.epoch}")
            else:
                yield REPLY_IN_FLIGHT

    # --- what the pictures say --------------------------------------------------------------------------------------------------

    def _leads_now(self, follower: ReplicaPicture) -> bool:
        """Whether the leader that this follower obeys leads in the follower's epoch, before the step."""
        assert follower.leader is not None
        leader = self._before.replicas[follower.leader]
        return leader.up and (leader.leader, leader.epoch) == (follower.leader, follower.epoch)

    def _has_acknowledged(self, leader: int, follower: int, end: int, needed: Acknowledgement) -> bool:
        """Whether the follower has acknowledged the leader's log up to this end, as strictly as the rule asks."""
        own, follower_before = self._after.replicas[leader], self._before.replicas[follower]
        if (
            follower_before.truncating
            or follower_before.leader != leader
            or len(follower_before.log) < end
            or not follower_before.up
        ):
            return False
        match needed:
            case "leader":
                return True
            case "record-epoch":
                return end == 0 or own.log[end - 1][1] == follower_before.log[end - 1][1]
            case "leader-epoch":
                return own.epoch == follower_before.epoch

    def _holds(self, leader: ReplicaPicture, follower: int, end: int) -> bool:
        """Whether the follower has the leader's records up to this offset, whomever it follows by now."""
        other = self._before.replicas[follower].log
        return len(other) >= end and leader.log[:end] == other[:end]


def _end_of_match(leader: Log, follower: Log) -> int:
    pairs = enumerate(zip(leader, follower, strict=False))
    return max((offset + 1 for offset, (record, other) in pairs if record == other), default=0)


def _end_of_epoch(leader: Log, follower: ReplicaPicture) -> int:
    """KIP-101: where the leader's log of the follower's last epoch ends; the follower's HW if the leader does not know."""
    if not follower.log:
        return 0
    last = follower.log[-1][1]
    if leader and leader[-1][1] == last:
        return min(len(leader), len(follower.log))
    return min((offset for offset, (_, epoch) in enumerate(leader) if epoch > last), default=follower.hw)


def _name(replica: int | None) -> str:
    return "nobody" if replica is None else f"b{replica + 1}"


def _names(replicas: frozenset[int]) -> str:
    return ", ".join(_name(replica) for replica in sorted(replicas))
