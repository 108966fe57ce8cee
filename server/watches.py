"""The ZooKeeper watches that a session has set, and the zxid of the last change that each has seen.

ZooKeeper's own client hands its watches to the server after a reconnect, and gets every missed change at once. A library that
cannot do so (kazoo) reads each watched node again; this book compares zxids and finds the events that the watches missed.
"""

from reference.coordination.api import Change


class WatchBook:
    """ZooKeeper watches by path, each with the zxid of the last change seen; None if the znode did not exist."""

    def __init__(self) -> None:
        self._data: dict[str, int | None] = {}
        self._children: dict[str, int] = {}

    @property
    def data_paths(self) -> tuple[str, ...]:
        """The znodes watched for their data or for their creation."""
        return tuple(self._data)

    @property
    def children_paths(self) -> tuple[str, ...]:
        """The znodes watched for their children."""
        return tuple(self._children)

    def set_data(self, path: str, zxid: int | None) -> None:
        """A read set a watch on a znode's data (`zxid` is its mzxid), or on its absence (None)."""
        self._data[path] = zxid

    def set_children(self, path: str, zxid: int) -> None:
        """A read set a watch on a znode's children (`zxid` is its pzxid)."""
        self._children[path] = zxid

    def data_missed(self, path: str, zxid: int | None) -> Change | None:
        """The change that a data watch missed, given the zxid of a new read of the znode; None if none."""
        last_zxid = self._data.get(path, zxid)
        if last_zxid == zxid:
            return None
        return "created" if last_zxid is None else "deleted" if zxid is None else "changed"

    def children_missed(self, path: str, zxid: int | None) -> Change | None:
        """The change that a child watch missed, given the zxid of a new read of the znode; None if none."""
        if self._children.get(path, zxid) == zxid:
            return None
        return "deleted" if zxid is None else "children"

    def fired(self, path: str, change: Change) -> bool:
        """Remove the watches that a change of a znode fires; False if there was none.

        A deletion fires the data watch and the child watch of a node, and is delivered once.
        """
        had_children = change in ("children", "deleted") and self._children.pop(path, None) is not None
        had_data = change != "children" and path in self._data
        if had_data:
            del self._data[path]
        return had_children or had_data
