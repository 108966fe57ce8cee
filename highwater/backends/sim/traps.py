"""Traps: what a fault does when a broker process is about to perform a given effect, or has just performed it.

A trap counts the effects of its kind that the process is about to perform while the window is open, over all its lives, and
strikes once. Where it ends the process, effects before it in the list were performed, effects behind it are not.
"""

from collections.abc import Callable, Iterator
from typing import get_args

from highwater.backends.sim.transport import kinds_named
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, Delete, Exists, GetChildren, GetData, SetData
from reference.effects import AnyEffect, Send, ZkRequest

_EFFECTS: dict[str, type] = {effect.__name__.lower(): effect for effect in get_args(AnyEffect)}
# Of two prefixes that fit, the first counts.
ZNODES: tuple[tuple[str, str], ...] = (
    (paths.CONTROLLER_EPOCH, "controller-epoch"),
    (paths.CONTROLLER, "controller-election"),
    (f"{paths.BROKER_IDS}/", "registration"),
    ("/admin/reassign", "reassignment"),
    ("/admin/partitions_reassigned", "reassignment"),
    ("/admin/", "admin"),
    (paths.LOG_DIR_EVENTS, "log-dir-event"),
    (f"{paths.TOPICS}/", "topic"),
)
READ = {"registration": "read-brokers", "partition-state": "read-partition-state", "topic": "read-topic"}
READ |= {"admin": "read-admin", "reassignment": "read-admin"}


def steps_of(request: ZkRequest) -> frozenset[str]:
    """The named steps (`nemesis.faults.ZkStep`) that a request to ZooKeeper takes; several for a multi."""
    return frozenset(step for op in request.ops for step in _steps(op))


def _steps(op: AnyOp) -> Iterator[str]:
    """The steps of the protocol, as plans name them, that this operation on ZooKeeper is."""
    step = next((name for prefix, name in ZNODES if op.path.startswith(prefix)), None)
    if paths.tp_of_state_path(op.path) is not None:
        step = "partition-state"
    if isinstance(op, Create | SetData | Delete) and step is not None:
        yield step
    elif isinstance(op, GetData | Exists | GetChildren) and step in READ:
        yield READ[step]


class Trap:
    """One effect of one broker at which a fault strikes: `strike` is called with it, before or after it is performed.

    `effect` names it as in `nemesis.faults.CrashAt`; of these, `is_meant` chooses those that count.
    """

    __slots__ = ("_is_meant", "_kind", "_messages", "_step", "_times_left", "before", "strike")

    def __init__(
        self,
        effect: str,
        nth: int,
        *,
        before: bool,
        strike: Callable[[AnyEffect], None],
        is_meant: Callable[[AnyEffect], bool] | None = None,
    ) -> None:
        name, _, detail = effect.partition(":")
        self._kind = _EFFECTS[name.replace("-", "")]
        self._step = detail if self._kind is ZkRequest else ""
        self._messages = kinds_named((detail,)) if detail and not self._step else None
        self._is_meant = is_meant
        self._times_left = nth
        self.before = before
        self.strike = strike

    def springs(self, effect: AnyEffect) -> bool:
        """Count this effect if it is of the trap's kind; True for the `nth`, at which the fault strikes."""
        if effect.__class__ is not self._kind:
            return False
        if self._messages is not None and not (isinstance(effect, Send) and effect.message.__class__ in self._messages):
            return False
        if self._step and not (isinstance(effect, ZkRequest) and self._step in steps_of(effect)):
            return False
        if self._is_meant is not None and not self._is_meant(effect):
            return False
        self._times_left -= 1
        return self._times_left == 0
