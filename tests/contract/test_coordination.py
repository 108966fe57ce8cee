"""The coordination contract with the in-memory ZooKeeper, and properties of that model alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference.coordination.api import AnyAnswer, AnyOp, Change, Check, Create, Delete, Exists, GetChildren, GetData, SetData
from reference.coordination.memory import MemoryZooKeeper, Watches
from tests.contract.coordination import CoordinationContract


class MemoryBench:
    """The model, with the watches that a client library remembers."""

    root = "/root"

    def __init__(self) -> None:
        self.zk = MemoryZooKeeper.boot()
        self._watch_events: dict[int, list[tuple[str, Change]]] = {}
        self._seen: dict[int, int] = {}
        self._watches: dict[int, Watches] = {}
        self.ask(self.connect(), Create(self.root, b""))

    def connect(self) -> int:
        session = self.zk.connect(timeout_ms=1000)
        self._watch_events[session] = []
        self._watches[session] = Watches()
        return session

    def ask(self, session: int, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        for op in ops:
            self._remember(session, op)
        answers, fired = self.zk.submit(session, ops, atomic=atomic)
        self._tell(fired)
        self._seen[session] = self.zk.zxid
        return answers

    def _remember(self, session: int, op: AnyOp) -> None:
        """Set the watch that an operation asks for, as the model of the test."""
        watches = self._watches[session]
        match op:
            case GetChildren(path=path, watch=True):
                watches.child.append(path)
            case Exists(path=path, watch=True) if path not in self.zk.nodes:
                watches.exist.append(path)
            case Exists(path=path, watch=True) | GetData(path=path, watch=True):
                watches.data.append(path)
            case _:
                pass

    def _tell(self, fired: list[tuple[int, str, Change]]) -> None:
        for session, path, change in fired:
            self._watch_events[session].append((path, change))

    def take_watch_events(self, session: int) -> list[tuple[str, Change]]:
        told, self._watch_events[session] = self._watch_events[session], []
        return told

    def lose_connection(self, session: int) -> None:
        self.zk.forget_watches(session)

    def reconnect(self, session: int) -> None:
        assert self.zk.touch(session, now_ms=0)
        self._tell(self.zk.watch_again(session, self._watches[session], seen_zxid=self._seen[session]))

    def expire(self, session: int) -> None:
        self._tell(self.zk.expire(session))


class TestMemory(CoordinationContract):
    @pytest.fixture
    def bench(self) -> MemoryBench:
        return MemoryBench()


def test_zk_session_expires_after_its_timeout_without_contact() -> None:
    zk = MemoryZooKeeper.boot()
    session = zk.connect(timeout_ms=100, now_ms=7)
    at_first = zk.due_ms(session)
    assert zk.touch(session, now_ms=50)

    assert at_first == 107
    assert zk.due_ms(session) == 150


def test_expired_zk_session_cannot_be_renewed() -> None:
    zk = MemoryZooKeeper.boot()
    session = zk.connect(timeout_ms=100)
    zk.expire(session)

    assert not zk.touch(session, now_ms=0)
    assert zk.due_ms(session) is None
    assert zk.expire(session) == []


paths = st.sampled_from(["/a", "/b", "/a/c", "/a/d", "/b/e"])
versions = st.integers(-1, 1)
writes = st.one_of(
    st.builds(Create, path=paths, data=st.just(b"x"), ephemeral=st.booleans(), sequential=st.booleans()),
    st.builds(Delete, path=paths, version=versions),
    st.builds(SetData, path=paths, data=st.just(b"y"), version=versions),
)
reads = st.one_of(
    st.builds(GetData, path=paths, watch=st.booleans()),
    st.builds(Exists, path=paths, watch=st.booleans()),
    st.builds(GetChildren, path=paths, watch=st.booleans()),
)
requests = st.lists(st.tuples(st.integers(1, 2), st.lists(writes | reads, min_size=1, max_size=3)), max_size=12)


def tree_after(history: list[tuple[int, list[AnyOp]]]) -> MemoryZooKeeper:
    """A ZooKeeper in memory after these operations of two sessions."""
    zk = MemoryZooKeeper.boot()
    for _ in range(2):
        zk.connect(timeout_ms=1000)
    for session, ops in history:
        zk.submit(session, tuple(ops))
    return zk


@given(requests, st.lists(writes, max_size=5))
@example([], [Create("/a", b""), Create("/a/c", b"", sequential=True)])  # name and parent of the child are new
def test_failed_zk_multi_leaves_all_znodes_unchanged(history: list[tuple[int, list[AnyOp]]], ops: list[AnyOp]) -> None:
    zk = tree_after(history)
    before = zk.fingerprint()

    _, fired = zk.submit(1, (*ops, Check("/never", 0)), atomic=True)

    assert fired == []
    assert zk.fingerprint() == before


@given(requests, requests)
def test_zk_clone_is_independent_of_the_original(
    history: list[tuple[int, list[AnyOp]]], more: list[tuple[int, list[AnyOp]]]
) -> None:
    zk = tree_after(history)
    before = zk.fingerprint()
    clone, twin = zk.clone(), zk.clone()
    for session, ops in more:
        assert clone.submit(session, tuple(ops)) == twin.submit(session, tuple(ops))

    assert clone.fingerprint() == twin.fingerprint()
    assert zk.fingerprint() == before


@given(requests)
def test_zk_tree_is_consistent_after_any_requests(history: list[tuple[int, list[AnyOp]]]) -> None:
    """Children, owners and ephemerals are consistent with each other."""
    zk = tree_after(history)

    listed = sorted(f"{path.rstrip('/')}/{name}" for path, node in zk.nodes.items() for name in node.children)
    assert listed == sorted(path for path in zk.nodes if path != "/")
    owned = sorted(path for path, node in zk.nodes.items() if node.owner)
    assert owned == sorted(path for session in zk.sessions.values() for path in session.ephemerals)
    zk.expire(1)
    zk.expire(2)
    assert not any(node.owner for node in zk.nodes.values())
    assert not zk.data_watches
    assert not zk.child_watches
