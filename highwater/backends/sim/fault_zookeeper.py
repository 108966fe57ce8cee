"""Faults of the simulated ZooKeeper, whose one server stands for the ensemble: brokers cannot reach it, or it answers late."""

from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.open_window import OpenWindow
from nemesis.faults import Clog, Partition, ZooKeeperFault


class ZooKeeperFaults:
    """Injects ZooKeeper faults as faults of the links between brokers and ZooKeeper."""

    def __init__(self, links: LinkFaults) -> None:
        self._links = links

    def do(self, opened: OpenWindow, fault: ZooKeeperFault) -> None:
        """Stop the traffic between these brokers and ZooKeeper: clog the links for `pause`, cut them for `kill` and `cut`."""
        down = Clog(links=("zookeeper",)) if fault.how == "pause" else Partition(links=("zookeeper",))
        self._links.do(opened, down)
