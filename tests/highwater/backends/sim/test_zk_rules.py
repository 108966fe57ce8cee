"""The ZooKeeper in memory is judged by ZooKeeper's rules: a wrong answer of it is a failed assertion of the run."""

import pytest

from highwater.backends.sim.zk_rules import submit
from history.recorder import Recorder
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SetData,
    Unknown,
    Written,
)
from reference.coordination.memory import Fired, MemoryZooKeeper

Answers = tuple[AnyAnswer, ...]


class Lying(MemoryZooKeeper):
    """A server that answers what the test says and fires no watch; with `idle` it does nothing at all."""

    lie: Answers = ()
    idle: bool = True

    def submit(self, session: int, ops: tuple[AnyOp, ...], *, atomic: bool = False) -> tuple[Answers, Fired]:
        if not self.idle:
            super().submit(session, ops, atomic=atomic)
        return self.lie, []


def submit_and_judge(tree: MemoryZooKeeper, *ops: AnyOp, session: int = 1, atomic: bool = False) -> tuple[Answers, list[str]]:
    recorder = Recorder(lambda: 0)
    answers, _ = submit(recorder, tree, session, ops, atomic=atomic)
    return answers, [row.detail or "" for row in recorder.events]


def grown() -> MemoryZooKeeper:
    tree = MemoryZooKeeper.boot()
    tree.connect(timeout_ms=1000)
    tree.submit(1, (Create("/a", b"1"), Create("/a/b", b"2"), Create("/c", b"3")))
    return tree


def lying(*lie: AnyAnswer, idle: bool = True) -> Lying:
    true = grown()
    return Lying(nodes=true.nodes, sessions=true.sessions, zxid=true.zxid, last_session=1, lie=lie, idle=idle)


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    "op",
    [
        Create("/d", b""), Create("/a", b""), Create("/x/y", b""), Create("/a/n-", b"", sequential=True), Delete("/c"),
        Delete("/a"), Delete("/x"), Delete("/c", 7), SetData("/c", b"4"), SetData("/c", b"4", 7), SetData("/x", b""),
    ],
    ids=repr,
)  # fmt: skip
def test_server_in_memory_keeps_the_rules(op: AnyOp, atomic: bool) -> None:
    assert submit_and_judge(grown(), op, atomic=atomic)[1] == []


def test_reads_of_the_server_in_memory_keep_the_rules() -> None:
    assert submit_and_judge(grown(), GetData("/c"), GetData("/x"), GetChildren("/a"))[1] == []


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        (Create("/d", b""), Created("/d")),
        (Create("/d", b""), NodeExists()),
        (Create("/d", b""), NoNode()),
        (SetData("/c", b"4"), Written(1)),
        (SetData("/c", b"4"), BadVersion()),
        (SetData("/c", b"4"), NoNode()),
        (Delete("/c"), Deleted()),
        (Delete("/c"), NotEmpty()),
        (GetData("/c"), Data(b"4", 0, 3)),
        (GetData("/x"), Data(b"4", 0, 3)),
        (GetChildren("/a"), Children(())),
    ],
    ids=repr,
)
def test_answer_that_the_tree_contradicts_is_recorded(op: AnyOp, answer: AnyAnswer) -> None:
    """This server changes nothing."""
    assert len(submit_and_judge(lying(answer), op)[1]) == 1


@pytest.mark.parametrize(
    ("answer", "op"),
    [(BadVersion(), SetData("/c", b"4")), (Written(2), SetData("/c", b"4")), (Deleted(), Delete("/c", 7))],
    ids=["refused and done", "another version", "done against its version"],
)
def test_effect_that_the_answer_hides_is_recorded(answer: AnyAnswer, op: AnyOp) -> None:
    assert submit_and_judge(lying(answer, idle=False), op)[1] != []


@pytest.mark.parametrize(
    "lie",
    [(NodeExists(), Checked()), (RolledBack(), RolledBack()), (NodeExists(), NodeExists())],
    ids=["in part", "for no reason", "two reasons"],
)
def test_multi_is_performed_as_a_whole_or_not_at_all(lie: Answers) -> None:
    found = submit_and_judge(lying(*lie), Create("/a", b""), Check("/c", 0), atomic=True)[1]

    assert found == ["ZooKeeper's rules: a multi was performed in part"]


def test_refused_multi_changes_nothing() -> None:
    tree = lying(RolledBack(), BadVersion(), idle=False)

    complaints = submit_and_judge(tree, Create("/d", b""), Check("/c", 0), atomic=True)[1]

    assert complaints == ["ZooKeeper's rules: a multi that was refused changed something"]


def test_missing_answers_become_unknown() -> None:
    answers, complaints = submit_and_judge(lying(), Create("/d", b""), Check("/c", 0), atomic=True)

    assert answers == (Unknown(), Unknown())
    assert complaints == ["ZooKeeper's rules: 0 answers to 2 operations"]


def test_session_that_has_ended_is_not_served() -> None:
    assert submit_and_judge(lying(Created("/d")), Create("/d", b""), session=9)[1] == [
        "ZooKeeper's rules: a session that had ended was served"
    ]


@pytest.mark.parametrize(("path", "watch"), [("/c", GetData("/c", watch=True)), ("/a/d", GetChildren("/a", watch=True))])
def test_watching_sessions_are_told_of_a_change(path: str, watch: AnyOp) -> None:
    op: AnyOp = SetData(path, b"4") if path == "/c" else Create(path, b"")
    watched, silent = grown(), lying(Written(1) if path == "/c" else Created(path), idle=False)
    watched.submit(1, (watch,))
    MemoryZooKeeper.submit(silent, 1, (watch,))

    assert submit_and_judge(watched, op)[1] == []
    assert "was not told" in submit_and_judge(silent, op)[1][0]
