"""Commits become the rows by which checkers excuse losses, the same on every backend."""

from highwater.rig.commits import NodeCreated, NodeDeleted, NodeWritten, SessionEnded, commits_of
from highwater.rig.evidence import ZkEvidence
from history.event import EventKind
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, Delete, GetData, SetData
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, BrokerId

B1 = BrokerId(1)
REGISTER = Create(paths.broker_path(B1), b"{}", ephemeral=True)


class Server:
    """A tree with one session, and the rows of what that session commits."""

    def __init__(self) -> None:
        self.recorder = Recorder(lambda: 0)
        self.evidence = ZkEvidence(self.recorder)
        self.tree = MemoryZooKeeper.boot()
        self.session = self.tree.connect(timeout_ms=1)
        self.perform(*(Create(path, b"") for path in (*paths.PERSISTENT, "/admin")))

    def perform(self, *ops: AnyOp) -> None:
        answers, _ = self.tree.submit(self.session, ops)
        self.evidence.committed(commits_of(self.tree, self.session, ops, answers), writer=Address("b1"), life=2)

    def rows(self) -> list[tuple[EventKind, str | None, int | None, str | None]]:
        return [(e.kind, e.node, e.incarnation, e.topic_id) for e in self.recorder.events]


def test_zk_commit_rows_leave_out_reads_and_failed_requests() -> None:
    tree = MemoryZooKeeper.boot()
    session = tree.connect(timeout_ms=1)
    ops = (Create("/a", b"1"), Create("/a", b"2"), GetData("/a"), SetData("/a", b"3"), Delete("/b"), Delete("/a"))

    answers, _ = tree.submit(session, ops)

    assert [type(commit) for commit in commits_of(tree, session, ops, answers)] == [NodeCreated, NodeWritten, NodeDeleted]


def test_session_end_ends_only_registrations_of_that_session() -> None:
    server = Server()
    server.perform(REGISTER)
    czxid = server.tree.nodes[REGISTER.path].czxid

    server.evidence.committed((SessionEnded(zxid=90, session=server.session + 1),))
    server.evidence.committed((SessionEnded(zxid=91, session=server.session),))

    assert server.rows() == [(EventKind.REGISTERED, "b1", czxid, None), (EventKind.SESSION_ENDED, "b1", czxid, None)]


def test_recreated_topic_is_assigned_under_a_new_id() -> None:
    server = Server()
    topic = Create(paths.topic_path("t"), paths.topic_payload(((B1,),)))
    server.perform(topic)
    first = server.tree.nodes[topic.path].czxid

    server.perform(Delete(topic.path), topic)

    second = server.tree.nodes[topic.path].czxid
    assert [row[3] for row in server.rows() if row[0] is EventKind.ASSIGNED] == [str(first), str(second)]


def test_topic_deletion_is_recorded_once_for_request_and_znode() -> None:
    """A topic's promises end when its deletion is asked for; the later removal of the znode ends nothing again."""
    server = Server()
    server.perform(
        Create(paths.topic_path("t"), paths.topic_payload(((B1,),))),
        Create(paths.topic_path("t") + "/partitions", b""),
        Create(paths.topic_path("t") + "/partitions/0", b""),
        Create(paths.topic_path("t") + "/partitions/0/state", STATE),
    )

    server.perform(Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))
    server.perform(
        Delete(paths.topic_path("t") + "/partitions/0/state"),
        Delete(paths.topic_path("t") + "/partitions/0"),
        Delete(paths.topic_path("t") + "/partitions"),
        Delete(paths.topic_path("t")),
    )

    assert [row[0] for row in server.rows()].count(EventKind.TOPIC_DELETED) == 1


def test_partition_added_to_a_topic_under_deletion_ends_at_once() -> None:
    server = Server()
    server.perform(Create(paths.topic_path("t"), paths.topic_payload(((B1,),))))
    server.perform(Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))

    server.perform(
        SetData(paths.topic_path("t"), paths.topic_payload(((B1,), (B1,)))),
        Create(paths.topic_path("t") + "/partitions", b""),
        Create(paths.topic_path("t") + "/partitions/1", b""),
        Create(paths.topic_path("t") + "/partitions/1/state", STATE),
    )

    kinds = [row[0] for row in server.rows()]
    assert kinds == [EventKind.ASSIGNED, EventKind.STATE_WRITTEN, EventKind.TOPIC_DELETED]


STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
