"""What is the same for all states of one model."""

from dataclasses import dataclass

from highwater.explore.machines import Machines
from highwater.explore.zookeeper import ZooKeepers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The machines, ZooKeeper, and how they are put together."""

    machines: Machines
    zookeepers: ZooKeepers
    zk_async: bool  # requests to ZooKeeper and its answers travel
    keep_versions: bool  # of the state znode, as they are
    epoch_end_recheck: bool  # an answer about an earlier epoch is ignored (the variant's switch)
