"""The kinds of network faults that a schedule can draw: partitions, slow and lossy links, late or repeated control requests."""

from history.seed import Rng
from nemesis.blows import (
    Aim,
    Blow,
    Kind,
    any_broker,
    around_session,
    blow,
    brief,
    command,
    controller,
    everyone,
    lasting,
    leader,
    some_role,
    until_replaced,
)
from nemesis.faults import ALL_LINKS, AnyFault, Clog, Links, Packets, Partition, Reset, Slow
from nemesis.schedule import Shape


def _cut_of(*links: Links) -> Partition:
    return Partition(links=links)


def _halves(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: the brokers are split into two halves; in two draws of five only one direction is cut."""
    return Partition(shape="halves", direction=rng.pick(("both", "both", "both", "inbound", "outbound")))


def _one_way(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: the links of a broker are cut in one direction only."""
    return Partition(links=_some_links(rng), direction=rng.pick(("inbound", "outbound")))


def _packets(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: drop, duplicate and reorder messages, each for 0 to 750 of 1000 (Jepsen's packet behaviours)."""
    shares = (0, 0, 20, 100, 300, 750)
    drop, duplicate, reorder = rng.pick(shares), rng.pick(shares), rng.pick(shares)
    if not drop and not duplicate and not reorder:
        drop = 200
    return Packets(drop_per_mille=drop, duplicate_per_mille=duplicate, reorder_per_mille=reorder)


def _slow(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: delays from 20 ms to the lag limit, which takes a follower out of the ISR."""
    return Slow(extra_ms=rng.pick((20, 100, 400, shape.replica_lag_time_max_ms)), links=_some_links(rng))


def _clog(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: all messages on the links arrive late and none is lost."""
    return Clog(links=_some_links(rng), direction=rng.pick(("both", "both", "inbound", "outbound")))


def _reset(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: connections break every 50 to 800 ms, before most requests time out."""
    return Reset(period_ms=rng.between(50, 800), links=_some_links(rng))


def _some_links(rng: Rng) -> tuple[Links, ...]:
    links: tuple[tuple[Links, ...], ...] = (ALL_LINKS, ("peers",), ("zookeeper",), ("peers", "zookeeper"), ("clients",))
    return rng.pick(links)


def _commands_late(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: one kind of control request to a broker, or its answers, wait while all other messages pass."""
    kind, answers = command(rng, aim.shape), rng.ratio(1, 4)
    late_commands = Clog(
        links=("peers",), kinds=(f"{kind}-reply" if answers else kind,), direction="outbound" if answers else "inbound"
    )
    return Blow(fault=late_commands, target=some_role(rng, aim), lasts_ms=around_session(rng, aim.shape))


def _commands_doubled(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: one kind of control request arrives twice at a broker, the copy soon or after an election."""
    doubled = Packets(duplicate_per_mille=1000, kinds=(command(rng, aim.shape),))
    return Blow(fault=doubled, target=some_role(rng, aim), lasts_ms=lasting(rng, aim.shape))


def _commands_replayed(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: copies of control requests arrive after the receiver restarted or another controller was elected."""
    late_ms = aim.shape.session_timeout_ms + rng.between(2000, 12_000)
    replayed = Packets(duplicate_per_mille=rng.pick((300, 1000)), copy_late_ms_max=late_ms, kinds=(command(rng, aim.shape),))
    return Blow(fault=replayed, target=some_role(rng, aim), lasts_ms=lasting(rng, aim.shape))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="partition-halves",
        says="brokers in two halves, ZooKeeper with the first half",
        draw=blow(_halves, everyone, lasting),
    ),
    Kind(
        name="partition-ring",
        says="each broker sees a majority, no two brokers see the same one",
        draw=blow(Partition(shape="majorities-ring"), everyone, lasting),
    ),
    Kind(
        name="partition-bridge",
        says="two halves that share one broker",
        draw=blow(Partition(shape="bridge"), everyone, lasting),
    ),
    Kind(
        name="isolate-one",
        says="one broker cut off from everybody",
        draw=blow(Partition(), any_broker, around_session),
    ),
    Kind(
        name="isolate-leader",
        says="a leader cut off from everybody, clients too",
        draw=blow(Partition(), leader, around_session),
    ),
    Kind(
        name="isolate-controller",
        says="the controller cut off from everybody",
        draw=blow(Partition(), controller, around_session),
    ),
    Kind(
        name="isolate-long",
        says="one broker cut off from everybody, until it must be replaced",
        draw=blow(Partition(), any_broker, until_replaced),
    ),
    Kind(
        name="cut-peers-long",
        says="one broker cut off from other brokers only, until it must be replaced",
        draw=blow(_cut_of("peers"), any_broker, until_replaced),
    ),
    Kind(
        name="cut-zookeeper-long",
        says="one broker cut off from ZooKeeper only, until it must be replaced",
        draw=blow(_cut_of("zookeeper"), any_broker, until_replaced),
    ),
    Kind(
        name="cut-zookeeper",
        says="brokers cut off from ZooKeeper only; they go on serving",
        draw=blow(_cut_of("zookeeper"), some_role, around_session),
    ),
    Kind(
        name="cut-peers",
        says="brokers cut off from other brokers only; they stay registered",
        draw=blow(_cut_of("peers"), some_role, lasting),
    ),
    Kind(
        name="cut-clients",
        says="brokers cut off from clients only",
        draw=blow(_cut_of("clients"), some_role, brief),
    ),
    Kind(
        name="one-way",
        says="links of brokers cut in one direction only",
        draw=blow(_one_way, some_role, around_session),
    ),
    Kind(
        name="packets",
        says="bursts of lost, doubled and overtaking messages between brokers",
        draw=blow(_packets, some_role, lasting),
    ),
    Kind(
        name="slow",
        says="links that take longer, up to the lag limit",
        draw=blow(_slow, some_role, lasting),
    ),
    Kind(
        name="clog",
        says="links that deliver everything late, when the window ends",
        draw=blow(_clog, some_role, around_session),
    ),
    Kind(
        name="commands-late",
        says="one kind of control request, or its answer, waits on the links of a broker",
        draw=_commands_late,
    ),
    Kind(
        name="commands-doubled",
        says="one kind of control request arrives twice",
        draw=_commands_doubled,
    ),
    Kind(
        name="commands-replayed",
        says="old control requests arrive again, in another life of the broker or another controller epoch",
        draw=_commands_replayed,
    ),
    Kind(
        name="reset",
        says="connections that break again and again",
        draw=blow(_reset, some_role, brief),
    ),
)
