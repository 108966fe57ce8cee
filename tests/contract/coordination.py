"""The contract of ZooKeeper that the protocol relies on: subclass `CoordinationContract` and provide a `bench`."""

from typing import Protocol

import msgspec
import pytest

from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Change,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SessionExpired,
    SetData,
    Written,
)


class Bench(Protocol):
    """A ZooKeeper with clients. Tests use paths below `root`, which exists and is empty."""

    root: str

    def connect(self) -> int:
        """Open a client with a new session; returns the session id that ZooKeeper assigned."""

    def ask(self, session: int, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        """Perform one request in a session and return its answers."""

    def take_watch_events(self, session: int) -> list[tuple[str, Change]]:
        """Wait until all watch events have arrived; returns those since the last call."""

    def lose_connection(self, session: int) -> None:
        """Break the connection; the session continues."""

    def reconnect(self, session: int) -> None:
        """Let the client reach a server again."""

    def expire(self, session: int) -> None:
        """End the session and wait until its client knows."""


class CoordinationContract:
    """The tests. `bench` is a fixture of the subclass."""

    def test_create_needs_a_parent_and_a_free_path(self, bench: Bench) -> None:
        client = bench.connect()
        a, lost = f"{bench.root}/a", f"{bench.root}/no/a"

        answers = bench.ask(client, Create(a, b"1"), Create(a, b"2"), Create(lost, b""))

        assert answers == (Created(a), NodeExists(), NoNode())

    def test_write_raises_the_version_and_must_name_it(self, bench: Bench) -> None:
        client = bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b"0"))

        writes = bench.ask(client, SetData(a, b"1", 0), SetData(a, b"2", 0), SetData(a, b"3"), SetData(f"{a}/no", b""))
        deletions = bench.ask(client, Delete(a, 1), Delete(a, 2))

        assert writes == (Written(1), BadVersion(), Written(2), NoNode())
        assert deletions == (BadVersion(), Deleted())

    def test_znode_with_children_cannot_be_deleted(self, bench: Bench) -> None:
        client = bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b""), Create(f"{a}/b", b""))

        answers = bench.ask(client, Delete(a), Delete(f"{a}/b"), Delete(a), Delete(a))

        assert answers == (NotEmpty(), Deleted(), Deleted(), NoNode())

    def test_reads_return_data_version_and_sorted_children(self, bench: Bench) -> None:
        client = bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b"0"), Create(f"{a}/z", b""), Create(f"{a}/b", b""), SetData(a, b"1"))

        data, exists, children, nothing = bench.ask(client, GetData(a), Exists(a), GetChildren(a), GetChildren(f"{a}/no"))

        assert isinstance(data, Data)
        assert (data.data, data.version, data.owner) == (b"1", 1, 0)
        assert exists == data
        assert children == Children(("b", "z"))
        assert nothing == NoNode()

    def test_sequential_names_ascend_and_are_never_reused(self, bench: Bench) -> None:
        client = bench.connect()
        answers = bench.ask(client, *(Create(f"{bench.root}/n-", b"", sequential=True) for _ in range(2)))
        first, second = (answer.path for answer in answers if isinstance(answer, Created))
        bench.ask(client, Delete(second))

        (third,) = bench.ask(client, Create(f"{bench.root}/n-", b"", sequential=True))

        assert isinstance(third, Created)
        assert first < second < third.path
        assert len(first) == len(f"{bench.root}/n-") + 10

    def test_recreated_znode_has_another_czxid(self, bench: Bench) -> None:
        """KIP-380: the czxid distinguishes the incarnations of a broker."""
        client = bench.connect()
        a, b = f"{bench.root}/a", f"{bench.root}/b"

        answers = (
            *bench.ask(client, Create(a, b""), GetData(a), SetData(a, b"1"), GetData(a)),
            *bench.ask(client, Create(b, b""), Delete(a), Create(a, b""), GetData(a)),
        )

        first, same, again = (answer.czxid for answer in answers if isinstance(answer, Data))
        (second_czxid,) = (answer.czxid for answer in bench.ask(client, GetData(b)) if isinstance(answer, Data))
        assert first == same < second_czxid < again

    def test_ephemeral_names_its_owner_and_ends_with_the_session(self, bench: Bench) -> None:
        owner, observer = bench.connect(), bench.connect()
        ephemeral, kept = f"{bench.root}/mine", f"{bench.root}/kept"
        bench.ask(owner, Create(ephemeral, b"", ephemeral=True), Create(kept, b""))
        (before,) = bench.ask(observer, GetData(ephemeral))
        bench.expire(owner)

        answers = bench.ask(observer, Exists(ephemeral), Exists(kept))

        assert isinstance(before, Data)
        assert before.owner == owner
        assert answers[0] == NoNode()
        assert isinstance(answers[1], Data)

    def test_expired_session_performs_nothing(self, bench: Bench) -> None:
        client, observer = bench.connect(), bench.connect()
        bench.expire(client)

        answers = bench.ask(client, Create(f"{bench.root}/a", b""), GetData(bench.root))

        assert answers == (SessionExpired(), SessionExpired())
        assert bench.ask(observer, Exists(f"{bench.root}/a")) == (NoNode(),)

    def test_multi_performs_all_operations(self, bench: Bench) -> None:
        client = bench.connect()
        a, b = f"{bench.root}/a", f"{bench.root}/b"
        bench.ask(client, Create(a, b""))

        answers = bench.ask(client, Check(a, 0), SetData(a, b"1", 0), Create(b, b""), Create(f"{b}/c", b""), atomic=True)

        assert answers == (Checked(), Written(1), Created(b), Created(f"{b}/c"))
        assert bench.ask(client, GetChildren(b)) == (Children(("c",)),)

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (Check("/a", 7), BadVersion()),
            (Check("/no", 0), NoNode()),
            (SetData("/a", b"", 7), BadVersion()),
            (Create("/a", b""), NodeExists()),
            (Delete("/p"), NotEmpty()),
        ],
    )
    def test_multi_performs_nothing_if_one_operation_fails(self, bench: Bench, last: AnyOp, error: AnyAnswer) -> None:
        """Guarded controller writes rely on it: no state is written if /controller_epoch has changed."""
        client = bench.connect()
        root = bench.root
        watcher = bench.connect()
        bench.ask(client, Create(f"{root}/a", b"0"), Create(f"{root}/p", b""), Create(f"{root}/p/q", b""))
        before = bench.ask(client, GetData(f"{root}/a"), GetChildren(root), GetChildren(f"{root}/p"))
        bench.ask(watcher, GetData(f"{root}/a", watch=True), GetChildren(root, watch=True))

        answers = bench.ask(
            client,
            SetData(f"{root}/a", b"1"),
            Create(f"{root}/new", b""),
            Create(f"{root}/new/x", b"", ephemeral=True),
            Create(f"{root}/n-", b"", sequential=True),
            msgspec.structs.replace(last, path=root + last.path),
            Delete(f"{root}/p/q"),
            atomic=True,
        )

        assert answers == (RolledBack(), RolledBack(), RolledBack(), RolledBack(), error, RolledBack())
        assert bench.ask(client, GetData(f"{root}/a"), GetChildren(root), GetChildren(f"{root}/p")) == before
        assert bench.take_watch_events(watcher) == []

    def test_data_watch_fires_once(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b""))
        bench.ask(watcher, GetData(a, watch=True))
        bench.ask(client, SetData(a, b"1"), SetData(a, b"2"))

        assert bench.take_watch_events(watcher) == [(a, "changed")]
        assert bench.take_watch_events(client) == []

    def test_read_without_watch_sets_none(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b""))
        bench.ask(watcher, GetData(a), Exists(a), GetChildren(bench.root))
        bench.ask(client, SetData(a, b"1"), Delete(a))

        assert bench.take_watch_events(watcher) == []

    def test_only_exists_watches_a_missing_znode(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a, b = f"{bench.root}/a", f"{bench.root}/b"
        bench.ask(watcher, Exists(a, watch=True), GetData(b, watch=True), GetChildren(b, watch=True))
        bench.ask(client, Create(b, b""), Create(a, b""))

        assert bench.take_watch_events(watcher) == [(a, "created")]

    def test_children_watch_fires_for_creation_and_deletion_only(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a = f"{bench.root}/a"
        bench.ask(watcher, GetChildren(bench.root, watch=True))
        bench.ask(client, SetData(bench.root, b"1"))
        silence = bench.take_watch_events(watcher)
        bench.ask(client, Create(a, b""))
        coming = bench.take_watch_events(watcher)
        bench.ask(watcher, GetChildren(bench.root, watch=True))
        bench.ask(client, SetData(a, b"1"), Delete(a))

        assert silence == []
        assert coming == [(bench.root, "children")]
        assert bench.take_watch_events(watcher) == [(bench.root, "children")]

    def test_deletion_fires_data_and_children_watches_once(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b""))
        bench.ask(watcher, GetData(a, watch=True), GetChildren(a, watch=True))
        bench.ask(client, Delete(a))

        assert bench.take_watch_events(watcher) == [(a, "deleted")]

    def test_session_end_fires_the_watches_of_others(self, bench: Bench) -> None:
        """Nothing else reports the death of a broker or controller."""
        owner, watcher = bench.connect(), bench.connect()
        ephemeral = f"{bench.root}/mine"
        bench.ask(owner, Create(ephemeral, b"", ephemeral=True))
        bench.ask(watcher, Exists(ephemeral, watch=True), GetChildren(bench.root, watch=True))
        bench.expire(owner)

        assert sorted(bench.take_watch_events(watcher)) == [(bench.root, "children"), (ephemeral, "deleted")]

    def test_reconnect_fires_watches_for_missed_changes(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        changed, gone, born, still = (f"{bench.root}/{name}" for name in ("changed", "gone", "born", "still"))
        bench.ask(client, Create(changed, b""), Create(gone, b""), Create(still, b""))
        bench.ask(watcher, GetData(changed, watch=True), Exists(gone, watch=True), Exists(born, watch=True))
        bench.ask(watcher, GetData(still, watch=True), GetChildren(still, watch=True))
        bench.lose_connection(watcher)
        bench.ask(client, SetData(changed, b"1"), Delete(gone), Create(born, b""))
        bench.reconnect(watcher)

        assert sorted(bench.take_watch_events(watcher)) == [(born, "created"), (changed, "changed"), (gone, "deleted")]

    def test_reconnect_keeps_the_other_watches(self, bench: Bench) -> None:
        client, watcher = bench.connect(), bench.connect()
        a = f"{bench.root}/a"
        bench.ask(client, Create(a, b""))
        bench.ask(watcher, GetData(a, watch=True), GetChildren(a, watch=True))
        bench.lose_connection(watcher)
        bench.reconnect(watcher)
        before = bench.take_watch_events(watcher)
        bench.ask(client, SetData(a, b"1"), Create(f"{a}/b", b""))

        assert before == []
        assert bench.take_watch_events(watcher) == [(a, "changed"), (a, "children")]

    def test_session_survives_its_connection(self, bench: Bench) -> None:
        client, observer = bench.connect(), bench.connect()
        ephemeral = f"{bench.root}/mine"
        bench.ask(client, Create(ephemeral, b"", ephemeral=True))
        bench.lose_connection(client)
        bench.reconnect(client)

        (answer,) = bench.ask(observer, GetData(ephemeral))

        assert isinstance(answer, Data)
        assert answer.owner == client
