"""An operator requests an unclean election (docs/promise.md DUR-6, DUR-7, SILENT-2): which replicas it may elect, and when."""

from reference.coordination import paths
from reference.coordination.api import Create
from reference.messages import Fetch, LogInfo
from tests.reference.admin import remove_broker, request_topic_deletion, restart_broker
from tests.reference.lab import T0, Lab, carries
from tests.reference.moving import write
from tests.reference.test_topics import create_topic
from tests.reference.v3 import crash_and_expire


def request_unclean_election(lab: Lab) -> None:
    write(lab, Create(paths.UNCLEAN_ELECTION, paths.preferred_payload((T0,))))


def is_requested(lab: Lab) -> bool:
    return paths.UNCLEAN_ELECTION in lab.zk.nodes


def replace_disks(lab: Lab, *brokers: int) -> None:
    """Crash the brokers and start them with empty directories."""
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
    """b1 and b2 have committed x and y; b3 has only x, and is in neither ISR nor ELR."""
    lab = Lab(3, min_isr=2)
    lab.wait(3000)
    write(lab, Create("/admin", b""))
    request_topic_deletion(lab)  # created again, the topic is younger than the directories, as usual
    remove_broker(lab, 3)
    create_topic(lab, 1, 2, 3)
    restart_broker(lab, 3)
    lab.produce(lab.leader(), "x")
    lab.settle()
    lab.wait(1000)
    lab.is_held = carries(Fetch, sender="b3")
    lab.wait(9000)
    lab.produce(lab.leader(), "y")
    lab.wait(1000)
    assert (sorted(lab.isr()), lab.values(3)) == ([1, 2], ["x"])
    return lab


def test_replica_outside_isr_and_elr_leads_only_by_request() -> None:
    """SILENT-2: until then it keeps its data; DUR-6: emptied replicas are never elected, though they come first in AR."""
    lab = one_behind()
    replace_disks(lab, 1, 2)
    before = lab.leaders()
    lab.is_held = lambda _: False
    request_unclean_election(lab)
    lab.wait(3000)

    assert (before, lab.leaders(), is_requested(lab)) == ([], [3], False)
    assert [lab.values(i) for i in lab.ids] == [["x"]] * 3
    assert (sorted(lab.isr()), lab.state().elr) == ([1, 2, 3], ())


def test_unclean_election_elects_no_emptied_replica() -> None:
    """DUR-6: "excused by nothing"; the partition stays offline, and the request is deleted."""
    lab = one_behind()
    replace_disks(lab, 1, 2, 3)
    request_unclean_election(lab)
    lab.wait(3000)

    assert (lab.leaders(), lab.state().leader, is_requested(lab)) == ([], None, False)


def test_unclean_election_does_not_wait_for_dead_isr_members() -> None:
    """DUR-7: b1 and b2 hold y and are down; by the request the operator gives up y instead of waiting."""
    lab = one_behind()
    for i in (1, 2):
        crash_and_expire(lab, i)
    lab.is_held = lambda _: False
    lab.wait(3000)
    before = lab.leaders()
    request_unclean_election(lab)
    lab.wait(1000)

    assert (before, lab.leaders(), lab.values(3), is_requested(lab)) == ([], [3], ["x"], False)


def test_order_that_elects_the_longest_of_all_logs_keeps_the_elr() -> None:
    """DUR-7: all of the ISR answer, so nothing is given up (seed 990237 forgot b2, beyond the promise, with all requests)."""
    lab = Lab(3, min_isr=2, replicas=(1, 2))
    lab.wait(3000)
    write(lab, Create("/admin", b""))
    lab.produce(lab.leader(), "x")
    lab.wait(1000)
    for i in (1, 2):
        crash_and_expire(lab, i)
    lab.is_held = carries(LogInfo)
    for i in (1, 2):
        lab.start(i)
    lab.wait(3000)
    lab.is_held = carries(Fetch)
    request_unclean_election(lab)
    lab.wait(1000)

    assert (lab.leaders(), lab.isr(), [member.broker for member in lab.state().elr]) == ([1], [1], [2])


def test_order_that_not_all_of_the_isr_answer_forgets_the_others() -> None:
    """DUR-7: b1 may lack what b2 holds, which is down; b2 must not lead by a stamp from before the order."""
    lab = one_behind()
    for i in (1, 2):
        crash_and_expire(lab, i)
    lab.start(1)
    lab.wait(3000)
    before = lab.leaders()
    request_unclean_election(lab)
    lab.wait(1000)

    assert (before, lab.leaders(), lab.isr(), lab.state().elr) == ([], [1], [1], ())


def test_unclean_election_keeps_a_live_leader() -> None:
    """DUR-7: a request must not lose records of a partition that has a leader."""
    lab = one_behind()
    held_state = lab.state()
    request_unclean_election(lab)

    assert (lab.state(), is_requested(lab)) == (held_state, False)
