"""What a run on a cluster that stands for several runs says: its own topics, from its own time."""

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.share import Share
from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from history.event import EventKind
from reference.coordination import paths
from reference.coordination.api import Data
from reference.effects import Note
from reference.events import DirImage, LogImage
from reference.messages import Batch, PartitionState
from reference.types import NO_INCARNATION, Address, BrokerId, ControllerEpoch, LeaderEpoch, Offset, TopicPartition, ZkVersion
from server.lab.notes import NoteLine

OWN, OTHER = TopicPartition("seed-2.t-0"), TopicPartition("seed-1.t-0")
SHARE = Share(frozenset({"seed-2.t"}))


def registered(broker: int, session: int, at_ms: int) -> NodeCreated:
    path = paths.broker_path(BrokerId(broker))
    return NodeCreated(zxid=at_ms, session=session, time_ms=at_ms, path=path, data=b"", ephemeral=True)


def written(tp: TopicPartition, at_ms: int) -> NodeWritten:
    return NodeWritten(zxid=at_ms, session=0, time_ms=at_ms, path=paths.state_path(tp), data=b"", version=1)


def of_run(*commits: AnyCommit) -> list[AnyCommit]:
    return SHARE.of_commits(commits, from_ms=1000, begun_ms=1005)


def test_registration_of_an_earlier_run_is_told_at_the_start() -> None:
    """Else the run's brokers would have no session, and nobody could tell when one ends."""
    (told,) = of_run(registered(1, 7, 100), written(OTHER, 200))

    assert (told.session, told.time_ms) == (7, 1005)


def test_registration_that_ended_before_the_run_is_not_told() -> None:
    ends: list[AnyCommit] = [
        SessionEnded(zxid=2, session=7, time_ms=300),
        NodeDeleted(zxid=2, session=7, time_ms=300, path=paths.broker_path(BrokerId(1))),
    ]

    assert [of_run(registered(1, 7, 100), end) for end in ends] == [[], []]


def test_session_that_ends_during_the_run_is_told() -> None:
    end = SessionEnded(zxid=2, session=7, time_ms=2000)

    assert of_run(registered(1, 7, 100), end)[1:] == [end]


def test_commits_of_other_topics_are_not_told() -> None:
    """A topic of an earlier run may be deleted while the next run goes on."""
    deletion = NodeDeleted(zxid=3, session=0, time_ms=2000, path=paths.topic_path("seed-1.t"))

    assert of_run(written(OWN, 1500), written(OTHER, 1600), deletion) == [written(OWN, 1500)]


def test_rows_of_own_topics_stay_where_the_clock_went_back() -> None:
    """No other run has these topics. Without the creation of one, the run would have no leader until the next change."""
    early = NoteLine(node="b1", life=3, time_ns=5, note=Note(kind=EventKind.TRUNCATE, tp=OWN))

    assert of_run(written(OWN, 990)) == [written(OWN, 990)]
    assert SHARE.of_notes([early], from_ns=10) == [early]


def test_notes_and_logs_of_other_topics_are_not_told() -> None:
    def line(tp: TopicPartition | None, at_ns: int) -> NoteLine:
        return NoteLine(node="b1", life=3, time_ns=at_ns, note=Note(kind=EventKind.TRUNCATE, tp=tp))

    notes = [line(None, 5), line(OWN, 10), line(OTHER, 10), line(None, 10)]
    logs = tuple(LogImage(tp, (Batch(Offset(0), LeaderEpoch(0), ("v",)),)) for tp in (OTHER, OWN))
    image = DirImage(0, readable=True, logs=logs, checkpoint=((OTHER, 1), (OWN, 1)))

    assert SHARE.of_notes(notes, from_ns=10) == [line(OWN, 10), line(None, 10)]
    (own,) = SHARE.of_images((image,))
    assert ([log.tp for log in own.logs], own.checkpoint) == ([OWN], ((OWN, 1),))


def test_unreadable_directory_stays_unreadable() -> None:
    assert SHARE.of_images((DirImage(1, readable=False),)) == (DirImage(1, readable=False),)


def test_final_state_of_other_topics_is_not_told() -> None:
    def state(tp: TopicPartition) -> PartitionState:
        return PartitionState(
            tp, BrokerId(1), NO_INCARNATION, LeaderEpoch(0), (), ControllerEpoch(0), ZkVersion(0), (BrokerId(1),)
        )

    data = Data(b"", 0, 0)
    told: dict[Address, tuple[PartitionState, ...]] = {Address("b1"): (state(OTHER), state(OWN))}
    both = EndState((("seed-1.t", data), ("seed-2.t", data)), {paths.state_path(OTHER): data, paths.state_path(OWN): data}, told)

    own = SHARE.of_state(both)
    assert own == EndState((("seed-2.t", data),), {paths.state_path(OWN): data}, {Address("b1"): (state(OWN),)})
