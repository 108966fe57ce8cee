"""Which watches a session has set, and what each of them has seen: for a client library that must set them again by itself.

ZooKeeper's own client hands its watches to the server after a reconnect and hears at once what changed meanwhile. A library
that cannot do so reads each watched node again; comparing zxids, this book tells what the watch would have said.
"""

from reference.coordination.api import Change


class WatchBook:
    """Watches by path. A zxid is that of the last change that was seen; None: there was no such node."""

    def __init__(self) -> None:
        self._data: dict[str, int | None] = {}
        self._children: dict[str, int] = {}

    @property
    def data_paths(self) -> tuple[str, ...]:
        """Watched for their data or for coming to be."""
        return tuple(self._data)

    @property
    def children_paths(self) -> tuple[str, ...]:
        """Watched for their children."""
        return tuple(self._children)

    def set_data(self, path: str, zxid: int | None) -> None:
        """A read left a watch on a node's data (its mzxid), or on its absence."""
        self._data[path] = zxid

    def set_children(self, path: str, zxid: int) -> None:
        """A read left a watch on a node's children (its pzxid)."""
        self._children[path] = zxid

    def data_missed(self, path: str, zxid: int | None) -> Change | None:
        """The node was read again: what its data watch missed, if it is still set."""
        seen = self._data.get(path, zxid)
        if seen == zxid:
            return None
        return "created" if seen is None else "deleted" if zxid is None else "changed"

    def children_missed(self, path: str, zxid: int | None) -> Change | None:
        """The same of a watch on children."""
        if self._children.get(path, zxid) == zxid:
            return None
        return "deleted" if zxid is None else "children"

    def fired(self, path: str, change: Change) -> bool:
        """Take out the watches that this change uses up; False where there was none, so that nobody is to be told.

        A deletion uses up the data watch and the child watch of a node, and is told once.
        """
        had_children = change in ("children", "deleted") and self._children.pop(path, None) is not None
        had_data = change != "children" and path in self._data
        if had_data:
            del self._data[path]
        return had_children or had_data
