"""A table-top cluster whose controller b1 loses its connection to ZooKeeper, or one answer, at a chosen request."""

from reference.coordination.api import Unknown
from reference.effects import AnyEffect, ZkRequest
from reference.events import ZkReplied
from tests.reference.lab import Lab


class Interrupted(Lab):
    """Cut the controller b1 off from ZooKeeper before its request number `left`, or lose the answer to its request `lost`.

    Both numbers count from 0. `losses` counts the answers that were lost.
    """

    left: int | None = None
    lost: int | None = None
    losses: int = 0

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if i == 1 and isinstance(effect, ZkRequest) and self.lost is not None:
            self.lost -= 1
            if self.lost < 0:
                self.lost = None
                self.losses += 1
                _, fired = self.zk.submit(self.sessions[1], effect.ops, atomic=effect.atomic)
                self.tell(1, ZkReplied(effect.id, (Unknown(),) * len(effect.ops)))
                self.watches(fired)
                return None
        if i == 1 and isinstance(effect, ZkRequest) and self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.muted.add(1)
        return super()._perform(i, effect)
