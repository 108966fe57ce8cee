"""What a kind of fault is, and the random draws from which its faults are made: target and duration.

A blow is one fault on one target for one duration, drawn for one window of a schedule. Most blows are short (0.05 to 10 s). Their
targets are roles, since a fault does most at a leader, the controller or a member of the ISR. Many last about as long as the
session timeout, so that some brokers learn of the fault and others do not. What each kind does is in `nemesis.<family>_kinds`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from history.fault_kinds import Family, family_of
from history.promise import time_to_replace_ms
from history.seed import Rng
from nemesis.faults import AnyFault
from nemesis.schedule import Shape
from nemesis.targets import AnyTarget, Controller, Everyone, IsrMember, LeaderOf, Minority, Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a fault is drawn for: the shape of the cluster, and the partition at which most faults of the round aim."""

    shape: Shape
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One drawn fault: what it is, which target it hits, and for how many ms it holds.

    `beside` are faults of the same kind that come with it, each `after_ms` after its begin.
    """

    fault: AnyFault
    target: AnyTarget
    lasts_ms: int
    after_ms: int = 0
    beside: tuple["Blow", ...] = ()


Draw = Callable[[Rng, Aim], Blow]
Destroys = Literal["nothing", "unflushed", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault in the catalogue. `destroys` says which bytes such a fault may destroy (docs/promise.md §1)."""

    name: str  # in `history.fault_kinds`
    says: str  # one line for people
    draw: Draw
    destroys: Destroys = "nothing"
    everyone: bool = False  # hits all brokers at once, so that it cannot be narrowed to some
    servers_min: int = 1  # of ZooKeeper, for the fault to have an effect
    places_min: int = 1  # of clients
    named_only: bool = False  # drawn only if it is named: no mix has it, nor a run without names of faults

    @property
    def family(self) -> Family:
        """The family of faults that it belongs to."""
        family = family_of(self.name)
        assert family is not None
        return family


# --- whom ------------------------------------------------------------------------------------------------------------

Whom = Callable[[Rng, Aim], AnyTarget]


def leader(_: Rng, aim: Aim) -> AnyTarget:
    """Fault target: the leader of the partition aimed at."""
    return LeaderOf(topic=aim.topic, partition=aim.partition)


def isr_member(_: Rng, aim: Aim) -> AnyTarget:
    """Fault target: a follower in the ISR of the partition aimed at."""
    return IsrMember(topic=aim.topic, partition=aim.partition)


def controller(_: Rng, __: Aim) -> AnyTarget:
    """Fault target: the controller."""
    return Controller()


def any_broker(_: Rng, __: Aim) -> AnyTarget:
    """Fault target: any one broker."""
    return Random()


def everyone(_: Rng, __: Aim) -> AnyTarget:
    """Fault target: all brokers."""
    return Everyone()


def several(rng: Rng, aim: Aim) -> AnyTarget:
    """Fault target: two brokers or more, or a minority; one broker if the cluster has only one."""
    if aim.shape.brokers == 1:
        return Random()
    return Minority() if rng.ratio(1, 3) else Random(count=rng.between(2, aim.shape.brokers))


def some_role(rng: Rng, aim: Aim) -> AnyTarget:
    """Fault target: a broker of any role; leaders most often, since they hold records that no other broker has yet."""
    return rng.pick((leader, leader, leader, isr_member, isr_member, controller, any_broker, several))(rng, aim)


# --- how long --------------------------------------------------------------------------------------------------------

HowLong = Callable[[Rng, Shape], int]


def brief(rng: Rng, _: Shape) -> int:
    """Duration of a fault: 0.3 to 3 s."""
    return rng.between(300, 3000)


def lasting(rng: Rng, _: Shape) -> int:
    """Duration of a fault: 1 to 8 s."""
    return rng.between(1000, 8000)


def below_session(rng: Rng, shape: Shape) -> int:
    """Duration of a fault: 100 ms to 4/5 of the session timeout, so that ZooKeeper does not end the session."""
    return rng.between(100, max(100, shape.session_timeout_ms * 4 // 5))


def above_session(rng: Rng, shape: Shape) -> int:
    """Duration of a fault: 6/5 of the session timeout, up to 2.5 s longer, so that ZooKeeper ends the session."""
    return shape.session_timeout_ms * 6 // 5 + rng.between(0, 2500)


def around_session(rng: Rng, shape: Shape) -> int:
    """Duration of a fault: `below_session` or `above_session`, one draw in two each."""
    return below_session(rng, shape) if rng.ratio(1, 2) else above_session(rng, shape)


def until_replaced(rng: Rng, shape: Shape) -> int:
    """Duration of a fault: longer than a broker may take to be replaced, mostly long enough to see writes go on without it
    (docs/promise.md LIVE-6 and LIVE-7), if the run is long enough.
    """
    until_written = 2 * shape.replica_lag_time_max_ms + 2000 if rng.ratio(3, 4) else 0
    lasts = time_to_replace_ms(shape.session_timeout_ms) + until_written + rng.between(2000, 6000)
    return min(lasts, shape.end_ms * 3 // 4)


# --- what ------------------------------------------------------------------------------------------------------------

What = Callable[[Rng, Shape], AnyFault]


def blow(what: AnyFault | What, whom: Whom, how_long: HowLong) -> Draw:
    """Combine random draws of fault, target and duration into one draw of all three, made in this order."""

    def draw(rng: Rng, aim: Aim) -> Blow:
        fault = what(rng, aim.shape) if callable(what) else what
        return Blow(fault=fault, target=whom(rng, aim), lasts_ms=how_long(rng, aim.shape))

    return draw


def command(rng: Rng, shape: Shape) -> str:
    """Draw the kind of control request (such as leader-and-isr) that a network fault delays or repeats."""
    return rng.pick(shape.control_requests)
