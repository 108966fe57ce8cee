"""The harness as one more client of a simulated cluster: it asks every broker once, at the end, for its metadata."""

from highwater.backends.sim.simulation import Simulation
from reference.events import AnyEvent, Received
from reference.messages import Metadata, MetadataReply, PartitionState
from reference.types import Address


class Observer:
    """Sends the Metadata requests; `told` has the partition states that each node answered with."""

    def __init__(self, sim: Simulation) -> None:
        self.address = Address("c-laboratory")  # draws of delays are named by it
        self.life = 1
        self.up = True
        self.told: dict[str, tuple[PartitionState, ...]] = {}
        self._sim = sim

    def ask(self, node: Address, correlation: int) -> None:
        """Send this node a Metadata request."""
        self._sim.transport.send(self, node, Metadata(correlation))

    def take(self, source: str, event: AnyEvent) -> None:
        """Keep an answer; a lost connection leaves none."""
        if isinstance(event, Received) and isinstance(event.message, MetadataReply):
            self.told[source] = event.message.states
