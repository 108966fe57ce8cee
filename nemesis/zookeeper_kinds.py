"""The kinds of faults of ZooKeeper's servers that a schedule can draw."""

from history.seed import Rng
from nemesis.blows import Kind, around_session, blow, everyone
from nemesis.faults import AnyFault, ZooKeeperDown
from nemesis.schedule import Shape


def _zookeeper_down(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault of ZooKeeper's servers: mostly one; one draw in four hits two, after which three have no quorum."""
    return ZooKeeperDown(how=rng.pick(("kill", "pause", "cut")), servers=rng.pick((1, 1, 1, 2)))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="zookeeper-down",
        family="zookeeper",
        says="servers of ZooKeeper killed, paused, or cut off from all brokers",
        draw=blow(_zookeeper_down, everyone, around_session),
    ),
)
