"""A broker that is asked to end does so in good order, and one that was not starts without trust in its logs."""

from reference.config import VARIANTS
from reference.events import ShutDown
from tests.reference.lab import T0, Lab

AT_ONCE = VARIANTS["no-heartbeat"]  # nobody is told before: test_controlled_shutdown is about that


def test_a_broker_that_ends_in_good_order_leaves_its_checkpoint_and_a_marker() -> None:
    """R-048: else every start would have to look through its logs, and the high watermark would be that of some time ago."""
    lab = Lab(2, variant=AT_ONCE)
    lab.produce(1, "a")
    lab.settle()
    lab.tell(1, ShutDown())

    assert (1 in lab.nodes, lab.disks[1].clean, lab.disks[1].checkpoint) == (False, True, ((T0, 1),))


def test_a_broker_that_closes_appends_nothing_more() -> None:
    """R-048: what is appended behind the last flush would be trusted at the next start though it may be torn."""
    lab = Lab(2, variant=AT_ONCE, before_ack=True)
    lab.held_flushes = True
    lab.tell(1, ShutDown())
    lab.produce(1, "late")
    lab.release_flushes()

    assert (lab.disks[1].logs[T0], lab.disks[1].clean) == ([], True)


def test_the_marker_is_gone_before_the_logs_are_loaded() -> None:
    """B-64, KAFKA-10471: a crash while they are loaded must not be taken for a shutdown in good order."""
    lab = Lab(2)
    lab.tell(1, ShutDown())
    lab.start(1)

    assert not lab.disks[1].clean
