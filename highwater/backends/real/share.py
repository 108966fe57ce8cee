"""What a run on a cluster that stands for several runs may say: the rows of its own topics, from its own time.

The brokers' files and ZooKeeper's log hold every run of the cluster. A run has topics that no other run of the cluster has
(`plans.scaled.own_topics`), so rows are told apart by the names of topics. Rows that name no topic are kept if they are of the
time of the run. Registrations that stood when the run began are told at its beginning, as if the brokers had registered then.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from highwater.backends.real.cluster_state import EndState
from highwater.plans.plan import Plan
from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, SessionEnded
from highwater.rig.evidence import is_registration
from highwater.rig.settings import configured_topic
from highwater.rig.topics import topic_of_path
from reference.coordination import paths
from reference.events import DirImage
from reference.types import TopicPartition, topic_of
from server.lab.notes import NoteLine


class Share(Struct, frozen=True):
    """The topics of one run on a cluster that stands for several."""

    topics: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> "Share":
        """The share of the run of a plan."""
        return cls(frozenset(topic.name for topic in plan.cluster.topics))

    def has(self, tp: TopicPartition | None) -> bool:
        """Whether this partition is the run's; what names none is."""
        return tp is None or topic_of(tp) in self.topics

    def of_state(self, state: EndState) -> EndState:
        """The final state of the run's topics alone."""
        return EndState(
            tuple((topic, data) for topic, data in state.topics if topic in self.topics),
            {path: data for path, data in state.states.items() if self.has(paths.tp_of_state_path(path))},
            {node: tuple(partition for partition in told if self.has(partition.tp)) for node, told in state.told.items()},
        )

    def of_commits(self, commits: Sequence[AnyCommit], *, from_ms: int, begun_ms: int) -> list[AnyCommit]:
        """The registrations that stood at `from_ms`, as if made at `begun_ms`, and the run's commits since, in their order.

        Both are by the wall clock: the run's beginning, and when all its brokers ran.
        """
        before = [commit for commit in commits if commit.time_ms < from_ms]
        standing = [replace(commit, time_ms=begun_ms) for commit in _standing_registrations(before)]
        return [*standing, *(commit for commit in commits if self._is_of_run(commit, from_ms))]

    def _is_of_run(self, commit: AnyCommit, from_ms: int) -> bool:
        """Whether a commit is about brokers and not before `from_ms`, or about a topic of the run, whatever the clock said."""
        if isinstance(commit, SessionEnded) or is_registration(commit.path):
            return commit.time_ms >= from_ms
        tp = paths.tp_of_state_path(commit.path)
        topic = topic_of_path(commit.path) or configured_topic(commit.path) or (None if tp is None else topic_of(tp))
        return topic in self.topics

    def of_notes(self, lines: Iterable[NoteLine], *, from_ns: int) -> list[NoteLine]:
        """What brokers said of the run's partitions; and of none, since the run began (monotonic ns)."""
        return [line for line in lines if (line.time_ns >= from_ns if line.note.tp is None else self.has(line.note.tp))]

    def of_images(self, images: Iterable[DirImage]) -> tuple[DirImage, ...]:
        """The logs of the run's partitions."""
        return tuple(
            replace(
                image,
                logs=tuple(log for log in image.logs if self.has(log.tp)),
                checkpoint=tuple(entry for entry in image.checkpoint if self.has(entry[0])),
            )
            for image in images
        )


def _standing_registrations(commits: Iterable[AnyCommit]) -> list[NodeCreated]:
    """The registrations that these commits, in order, leave."""
    standing: dict[str, NodeCreated] = {}
    for commit in commits:
        match commit:
            case NodeCreated(path=path) if is_registration(path):
                standing[path] = commit
            case NodeDeleted(path=path):
                standing.pop(path, None)
            case SessionEnded(session=session):
                standing = {path: made for path, made in standing.items() if made.session != session}
            case _:
                pass
    return list(standing.values())
