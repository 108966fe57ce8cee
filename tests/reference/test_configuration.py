"""The constants that V3 leaves open are configuration (R-062): each acts on the cluster at the value that it is given."""

from msgspec.structs import replace

from reference.config import SAFE
from reference.messages import Fetch
from reference.types import Millis
from tests.reference.lab import Lab, carries
from tests.reference.moving import cluster, fetches_from, reassign


def test_checkpoint_interval_is_configured() -> None:
    """R-062: the pause of the HW checkpoint thread."""
    lab = Lab(1, start=False)
    lab.configs[1] = replace(lab.configs[1], checkpoint_interval_ms=Millis(1234))
    lab.start(1)
    lab.settle()
    assert lab.timers[1]["checkpoint"] == 1234
    lab.fire(1, "checkpoint")

    assert lab.timers[1]["checkpoint"] == 2 * 1234


def test_pause_of_the_reassignment_agent_is_configured() -> None:
    """R-062: the agent wakes up when this time has passed, V3 says e.g. 30 s."""
    lab = cluster()
    lab.nodes[1].state.config = replace(lab.configs[1], reassign_interval_ms=Millis(30_000))
    lab.is_held = fetches_from(4, 5, 6)
    started = lab.now
    reassign(lab)

    assert started <= lab.timers[1]["reassign"] - 30_000 <= lab.now


def test_longest_lag_of_a_replica_is_configured() -> None:
    """R-062: MAX_TIME_LAG."""
    for longest, isr in ((2000, [1]), (30_000, [1, 2])):
        lab = Lab(2, variant=SAFE)
        lab.nodes[1].state.config = replace(lab.configs[1], replica_lag_time_max_ms=Millis(longest))
        lab.wait(1000)
        lab.is_held = carries(Fetch, sender="b2")
        lab.produce(1, "x")
        lab.wait(20_000)

        assert lab.isr() == isr
