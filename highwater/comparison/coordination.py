"""What a simulated run asks of ZooKeeper: its transactions, and the most znodes and watches at a time."""

from msgspec import Struct

from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World

LOOK_MS = 50  # how often the tree of znodes is looked at
_ADMIN = "/admin/"


class Coordination(Struct, kw_only=True):
    """The transactions of a run, and the most of what was seen each LOOK_MS of simulated time."""

    transactions: int = 0
    admin_znodes: int = 0  # below /admin
    admin_bytes: int = 0  # of the largest of them
    watches: int = 0


class Looking:
    """Looks at the ZooKeeper of a world while it is performed, and changes nothing in it."""

    def __init__(self) -> None:
        self.seen = Coordination()

    def watch(self, world: World) -> None:
        """Begin to look at this world, before its run."""
        tree, seen = world.server.tree, self.seen
        requests = [len(znode.data) for path, znode in tree.nodes.items() if path.startswith(_ADMIN)]
        watches = sum(map(len, tree.data_watches.values())) + sum(map(len, tree.child_watches.values()))
        seen.transactions = tree.zxid
        seen.admin_znodes = max(seen.admin_znodes, len(requests))
        seen.admin_bytes = max(seen.admin_bytes, *requests, 0)
        seen.watches = max(seen.watches, watches)
        world.sim.scheduler.after(LOOK_MS * MS, self.watch, world)
