"""A table-top cluster whose controller b1 loses its connection to ZooKeeper, or one answer, at a chosen request."""

from reference.coordination.api import Unknown
from reference.effects import AnyEffect, ZkRequest
from reference.events import ZkReplied
from tests.reference.lab import Lab


class Interrupted(Lab):
    """Cut the controller b1 off from ZooKeeper before request number `requests_left`, or lose the answer to `unanswered_request`.

    Both numbers count from 0. `lost_answers` counts the answers that were lost.
    """

    requests_left: int | None = None
    unanswered_request: int | None = None
    lost_answers: int = 0

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if i == 1 and isinstance(effect, ZkRequest) and self.unanswered_request is not None:
            self.unanswered_request -= 1
            if self.unanswered_request < 0:
                self.unanswered_request = None
                self.lost_answers += 1
                _, fired = self.zk.submit(self.sessions[1], effect.ops, atomic=effect.atomic)
                self.handle_event(1, ZkReplied(effect.id, (Unknown(),) * len(effect.ops)))
                self.deliver_watches(fired)
                return None
        if i == 1 and isinstance(effect, ZkRequest) and self.requests_left is not None:
            self.requests_left -= 1
            if self.requests_left < 0:
                self.cut_off_from_zk.add(1)
        return super()._perform(i, effect)
