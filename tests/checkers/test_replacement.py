"""A broker that alone is cut off, or lost the directory of a replica, is replaced in time (docs/promise.md LIVE-6, LIVE-7)."""

import pytest

from checkers.judge import judge
from history.event import EventKind
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition

SECOND = 1_000_000_000
STAMPS = (11, 12, 13)  # the registrations of b1, b2 and b3


def story_of_leader(stamps: tuple[int, ...] = STAMPS, controller: str = "b2") -> HistoryBuilder:
    """b1 leads with all brokers in the ISR, under these registrations."""
    builder = healthy_partition()
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node=controller, controller_epoch=1)
    commit_record(builder, "x", 0)
    builder.state("b1", 1, "b1 b2 b3", stamps=stamps)
    return builder


def add_fault(
    builder: HistoryBuilder, kind: str, lasts_s: int, *, node: str = "b1", name: str = "f1", where: bool = False
) -> None:
    """A fault on this broker; `where`: in the directory of its replica, whose failure it reports."""
    about = {"node": node, "fault": name, "detail": kind}
    for first, event in ((True, EventKind.FAULT_BEGUN), (False, EventKind.FAULT_ENDED)):
        builder.event(event, whole_node=True, node=about["node"], fault=about["fault"], detail=about["detail"])
        if where:
            builder.event(event, node=about["node"], fault=about["fault"], detail=about["detail"], dir=0)
        if first and where:
            builder.dir_failed(node)
        builder.time_ns += lasts_s * SECOND if first else 0


def not_live(builder: HistoryBuilder) -> tuple[str, ...]:
    return tuple(words for words in judge(builder.history()).not_live if "leads" in words)


@pytest.mark.parametrize(("lasts_s", "replaced"), [(4, True), (6, False)])
def test_leader_cut_off_alone_for_long_is_replaced(lasts_s: int, replaced: bool) -> None:
    """The promise of these histories is 5 s."""
    builder = story_of_leader()
    add_fault(builder, "cut-peers-long", lasts_s)

    missed = ("b1 leads orders-0, though b2 could and b1 was cut off alone from row 14 to row 15",)

    assert not_live(builder) == (() if replaced else missed)


@pytest.mark.parametrize("lost", [False, True])
def test_controller_without_a_registration_ends_with_its_session(lost: bool) -> None:
    """5 of 100,000 random histories: it replaces nobody then, though it was not registered when it was elected."""
    builder = story_of_leader(controller="b3")
    builder.session_ended("b2", 12)
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=2)
    if lost:
        builder.session_ended("b2", 12)
    add_fault(builder, "cut-peers-long", 6)

    assert bool(not_live(builder)) is not lost


@pytest.mark.parametrize(
    ("elections", "complaints_expected"),
    [((2,), 1), ((3,), 0), ((1, 4), 0), ((1, 1), 1)],
    ids=["one", "one, late", "two", "two at first"],
)
def test_time_counts_anew_from_an_election_nobody_expects(elections: tuple[int, ...], complaints_expected: int) -> None:
    """An operator deposed one controller after the other, and each takes the broker for active (seed 10308 of `--faults all`).

    The successor of a controller that was cut off comes within two session timeouts (seed 180346).
    """
    builder = story_of_leader()
    begun_ns = builder.time_ns
    builder.event(EventKind.FAULT_BEGUN, whole_node=True, node="b1", fault="f1", detail="cut-peers-long")
    for epoch, after_s in enumerate(elections, 2):
        builder.time_ns = begun_ns + after_s * SECOND
        builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b3", controller_epoch=epoch)
    builder.time_ns = begun_ns + 7 * SECOND
    builder.event(EventKind.FAULT_ENDED, whole_node=True, node="b1", fault="f1", detail="cut-peers-long")

    assert len(not_live(builder)) == complaints_expected


def test_fault_beside_it_leaves_a_lone_broker_unjudged() -> None:
    builder = story_of_leader()
    builder.event(EventKind.FAULT_BEGUN, whole_node=True, node="b3", fault="f0", detail="slow")
    add_fault(builder, "isolate-one", 30)

    assert not_live(builder) == ()


def test_controller_cut_off_from_its_peers_is_not_judged() -> None:
    builder = story_of_leader(controller="b1")
    add_fault(builder, "cut-peers-long", 30)

    assert not_live(builder) == ()


@pytest.mark.parametrize(
    ("kind", "until_s", "complaints_expected"), [("cut-peers", 6, 0), ("cut-peers", 8, 1), ("isolate-one", 6, 1)]
)
def test_time_counts_from_the_end_of_a_cut_off_controller(kind: str, until_s: int, complaints_expected: int) -> None:
    """The next one takes it for active (seed 60877 of `--faults all`); 5 s are promised from the election on."""
    builder = story_of_leader(controller="b1")
    begun_ns = builder.time_ns
    builder.event(EventKind.FAULT_BEGUN, whole_node=True, node="b1", fault="f1", detail=kind)
    builder.time_ns = begun_ns + 2 * SECOND
    builder.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b3", controller_epoch=2)
    builder.time_ns = begun_ns + until_s * SECOND
    builder.event(EventKind.FAULT_ENDED, whole_node=True, node="b1", fault="f1", detail=kind)

    assert len(not_live(builder)) == complaints_expected


def test_members_registered_anew_cannot_replace_a_leader() -> None:
    """KIP-380: they may have lost records since the ISR named them."""
    builder = story_of_leader(stamps=(11, 2, 3))
    add_fault(builder, "isolate-one", 30)

    assert not_live(builder) == ()


def test_leader_with_a_failed_directory_is_replaced() -> None:
    """KIP-112: two session timeouts (2 s) sooner, since the broker reports it; it stays failed when the fault has ended."""
    builder = story_of_leader()
    add_fault(builder, "dir-failure", 1, where=True)
    builder.time_ns += 4 * SECOND
    add_fault(builder, "slow", 1, node="b3", name="f2")

    assert not_live(builder) == ("b1 leads orders-0, though b2 could and b1 alone had no directory for it from row 16 to row 19",)


def test_failed_directory_of_other_replicas_needs_no_new_leader() -> None:
    builder = story_of_leader()
    add_fault(builder, "dir-failure", 1)
    builder.time_ns += 30 * SECOND
    add_fault(builder, "slow", 1, node="b3", name="f2")

    assert not_live(builder) == ()


def unacknowledged(builder: HistoryBuilder) -> tuple[str, ...]:
    return tuple(words for words in judge(builder.history()).not_live if "though only" in words)


@pytest.mark.parametrize(
    ("first_ns", "acked", "isr", "judged"),
    [
        (8 * SECOND, False, "b2 b3", True),
        (8 * SECOND, True, "b2 b3", False),
        (7 * SECOND, False, "b2 b3", False),  # 5 s + 2 x 1 s + 0.5 s: the leader may still wait for b1
        (8 * SECOND, False, "b2", False),  # fewer than min.insync.replicas are left
    ],
)
def test_writes_go_on_without_a_broker_that_is_cut_off(first_ns: int, acked: bool, isr: str, judged: bool) -> None:
    """The promise of these histories is 5 s, replica.lag.time.max 1 s, the request timeout 0.5 s, min.insync.replicas 2."""
    builder = story_of_leader()
    begun = builder.time_ns
    builder.event(EventKind.FAULT_BEGUN, whole_node=True, node="b1", fault="f1", detail="isolate-one")
    builder.state("b2", 2, isr, version=1, stamps=tuple(STAMPS[int(name[1]) - 1] for name in isr.split()))
    builder.time_ns = begun + first_ns
    for value in "uvw":
        if acked and value == "w":
            builder.produce(1, value, 1, epoch=2)
        else:
            builder.invoke_produce(1, value)
            builder.produce_fail(1, value)
    builder.time_ns += 10 * SECOND
    builder.event(EventKind.FAULT_ENDED, whole_node=True, node="b1", fault="f1", detail="isolate-one")

    assert bool(unacknowledged(builder)) is judged
