"""What every part of a simulated run shares: virtual time, random numbers, the network, the speed of disks, and the recorder."""

from typing import Final

from highwater.backends.sim.network import Network
from highwater.backends.sim.scheduler import US, Scheduler
from highwater.backends.sim.transport import Transport
from highwater.plans.plan import NetworkShape
from history.recorder import Recorder
from history.seed import Draws


class Simulation:
    """The shared parts of one simulated run.

    `handled` counts the events that brokers, clients and ZooKeeper handled; `flush_ns` is the least and most time of a flush,
    `zk_write_ns` the time of one of ZooKeeper's transactions, which is 0 until the workload begins.
    """

    __slots__ = ("draws", "flush_ns", "handled", "network", "recorder", "scheduler", "transport", "zk_write_ns")

    def __init__(self, draws: int, network: NetworkShape, scheduler: Scheduler | None = None) -> None:
        self.scheduler: Final = scheduler or Scheduler()
        self.draws: Final = Draws(draws)
        self.network: Final = Network(self.scheduler, self.draws, network)
        self.transport: Final = Transport(self.scheduler, self.network, self.draws)
        self.flush_ns: Final = (network.flush_us_min * US, network.flush_us_max * US)
        self.zk_write_ns = 0
        self.recorder: Final = Recorder(self._now_ns)
        self.handled = 0

    def _now_ns(self) -> int:
        return self.scheduler.now
