"""The kinds of faults of ZooKeeper's servers that a schedule can draw."""

from history.seed import Rng
from nemesis.blows import Kind, around_session, blow, everyone, lasting
from nemesis.faults import AnyFault, ZooKeeperDown, ZooKeeperLinks
from nemesis.schedule import Shape


def _zookeeper_down(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault of ZooKeeper's servers: mostly one; one draw in four hits two, after which three have no quorum."""
    return ZooKeeperDown(how=rng.pick(("kill", "pause", "cut")), servers=rng.pick((1, 1, 1, 2)))


def _zookeeper_split(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: mostly one server is cut off from the others; one draw in four cuts all three apart."""
    return ZooKeeperLinks(how="cut", servers=rng.pick((1, 1, 1, 2)))


def _zookeeper_lag(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: one server's messages with the others come late, by less or more than the time after which it gives up."""
    return ZooKeeperLinks(how="slow", extra_ms=rng.pick((50, 200, 600, 1500)))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="zookeeper-down",
        says="servers of ZooKeeper killed, paused, or cut off from all brokers",
        draw=blow(_zookeeper_down, everyone, around_session),
    ),
    Kind(
        name="zookeeper-split",
        says="servers of ZooKeeper cut off from each other",
        draw=blow(_zookeeper_split, everyone, around_session),
        servers_min=3,
    ),
    Kind(
        name="zookeeper-lag",
        says="a server of ZooKeeper that lags behind the others and serves stale reads",
        draw=blow(_zookeeper_lag, everyone, lasting),
        servers_min=3,
    ),
)
