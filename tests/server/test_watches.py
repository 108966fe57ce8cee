"""A watch that is set again by reading says what it would have said had the connection lived."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.coordination.api import Change, Create, Delete, Exists, GetChildren, SetData
from reference.coordination.memory import MemoryZooKeeper, Watches
from server.watches import WatchBook


@pytest.mark.parametrize(
    ("seen", "now", "missed"),
    [(7, 7, None), (7, 9, "changed"), (7, None, "deleted"), (None, 9, "created"), (None, None, None)],
)
def test_data_watch_reports_the_change_missed_while_disconnected(
    seen: int | None, now: int | None, missed: Change | None
) -> None:
    book = WatchBook()
    book.set_data("/a", seen)

    assert book.data_missed("/a", now) == missed


def test_znode_deletion_fires_data_and_child_watch_once() -> None:
    book = WatchBook()
    book.set_data("/a", None)
    book.set_data("/a", 7)
    book.set_children("/a", 7)

    assert [book.fired("/a", "deleted"), book.fired("/a", "deleted")] == [True, False]
    assert book.data_paths == book.children_paths == ()


def test_change_of_children_leaves_the_zk_data_watch_set() -> None:
    book = WatchBook()
    book.set_data("/a", 7)
    book.set_children("/a", 7)

    assert [book.fired("/a", "children"), book.fired("/a", "changed")] == [True, True]


def test_fired_zk_watch_reports_no_missed_change() -> None:
    book = WatchBook()
    book.set_data("/a", 7)
    book.fired("/a", "changed")

    assert book.data_missed("/a", 9) is None


paths = st.sampled_from(["/a", "/b"])
writes = st.one_of(
    st.builds(Create, path=st.sampled_from(["/a", "/b", "/a/x", "/b/x"]), data=st.just(b"")),
    st.builds(SetData, path=paths, data=st.just(b"1")),
    st.builds(Delete, path=st.sampled_from(["/a", "/b", "/a/x", "/b/x"])),
)


@given(st.lists(writes, max_size=6), st.lists(writes, max_size=6), st.lists(st.tuples(paths, st.booleans()), max_size=4))
def test_watch_book_agrees_with_zookeeper_on_missed_changes(
    before: list[Create | SetData | Delete], meanwhile: list[Create | SetData | Delete], watched: list[tuple[str, bool]]
) -> None:
    """The model's SetWatches is the judge: both must say the same of any writes during any outage."""
    zk = MemoryZooKeeper.boot()
    writer, watcher = zk.connect(timeout_ms=1000), zk.connect(timeout_ms=1000)
    zk.submit(writer, tuple(before))
    book = WatchBook()
    data: list[str] = []
    exist: list[str] = []
    child: list[str] = []
    for path, children in watched:
        node = zk.nodes.get(path)
        if children and node is not None:
            zk.submit(watcher, (GetChildren(path, watch=True),))
            book.set_children(path, node.pzxid)
            child.append(path)
        elif not children:
            zk.submit(watcher, (Exists(path, watch=True),))
            book.set_data(path, None if node is None else node.mzxid)
            (exist if node is None else data).append(path)
    seen = zk.zxid
    zk.forget_watches(watcher)
    zk.submit(writer, tuple(meanwhile))

    changes_seen: list[tuple[str, Change]] = []
    for path in book.data_paths:
        node = zk.nodes.get(path)
        missed = book.data_missed(path, None if node is None else node.mzxid)
        if missed is not None and book.fired(path, missed):
            changes_seen.append((path, missed))
    for path in book.children_paths:
        node = zk.nodes.get(path)
        missed = book.children_missed(path, None if node is None else node.pzxid)
        if missed is not None and book.fired(path, missed):
            changes_seen.append((path, missed))

    fired = zk.watch_again(watcher, Watches(sorted(set(data)), sorted(set(exist)), sorted(set(child))), seen_zxid=seen)
    assert sorted(changes_seen) == sorted({(path, change) for _, path, change in fired})
