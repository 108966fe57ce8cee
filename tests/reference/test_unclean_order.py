"""An operator orders an unclean election (docs/promise.md DUR-6, DUR-7, SILENT-2): of whom, and when it is left alone."""

from reference.coordination import paths
from reference.coordination.api import Create
from reference.messages import Fetch
from tests.reference.lab import T0, Lab
from tests.reference.moving import write
from tests.reference.test_admin import delete_topic
from tests.reference.test_topics import make


def order(lab: Lab) -> None:
    write(lab, Create(paths.UNCLEAN_ELECTION, paths.preferred_payload((T0,))))


def is_asked_for(lab: Lab) -> bool:
    return paths.UNCLEAN_ELECTION in lab.zk.nodes


def swap(lab: Lab, *brokers: int) -> None:
    """They die, and come back with empty directories."""
    for i in brokers:
        lab.crash(i)
        lab.disks[i] = type(lab.disks[i])()
        lab.expire(i)
        lab.settle()
    for i in brokers:
        lab.start(i)
        lab.settle()
    lab.wait(3000)


def one_behind() -> Lab:
    """x and y are committed by b1 and b2; b3 has x alone and is in neither ISR nor ELR."""
    lab = Lab(3, min_isr=2)
    lab.wait(3000)
    write(lab, Create("/admin", b""))
    delete_topic(lab)  # made again it is younger than the directories, as topics are
    make(lab, 1, 2, 3)
    lab.produce(lab.leaders()[0], "x")
    lab.settle()
    lab.wait(1000)
    lab.held = lambda letter: letter[0] == "b3" and isinstance(letter[2], Fetch)
    lab.wait(9000)
    lab.produce(lab.leaders()[0], "y")
    lab.wait(1000)
    assert (sorted(lab.isr()), lab.values(3)) == ([1, 2], ["x"])
    return lab


def test_where_all_who_counted_were_emptied_the_other_replica_leads_by_order_alone() -> None:
    """SILENT-2: until then it keeps its data; DUR-6: those who were emptied are never elected, though they come first in AR."""
    lab = one_behind()
    swap(lab, 1, 2)
    before = lab.leaders()
    lab.held = lambda _: False
    order(lab)
    lab.wait(3000)

    assert (before, lab.leaders(), is_asked_for(lab)) == ([], [3], False)
    assert [lab.values(i) for i in lab.ids] == [["x"]] * 3
    assert (sorted(lab.isr()), lab.state().elr) == ([1, 2, 3], ())


def test_an_order_finds_nobody_where_all_were_emptied() -> None:
    """DUR-6: "excused by nothing"; the partition stays offline, and the order does not stay for whoever comes."""
    lab = one_behind()
    swap(lab, 1, 2, 3)
    order(lab)
    lab.wait(3000)

    assert (lab.leaders(), lab.state().leader, is_asked_for(lab)) == ([], None, False)


def test_an_order_is_for_those_who_are_waited_for() -> None:
    """DUR-7: b1 and b2 hold y and are gone; who does not want to wait for them goes on without it."""
    lab = one_behind()
    for i in (1, 2):
        lab.crash(i)
        lab.expire(i)
        lab.settle()
    lab.held = lambda _: False
    lab.wait(3000)
    before = lab.leaders()
    order(lab)
    lab.wait(1000)

    assert (before, lab.leaders(), lab.values(3), is_asked_for(lab)) == ([], [3], ["x"], False)


def test_a_partition_that_is_led_keeps_its_leader() -> None:
    """DUR-7: an order is no reason to lose anything."""
    lab = one_behind()
    held = lab.state()
    order(lab)

    assert (lab.leaders(), lab.isr(), lab.state().leader_epoch, is_asked_for(lab)) == ([1], [1, 2], held.leader_epoch, False)
