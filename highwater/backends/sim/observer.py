"""The harness's own client: at the end of a simulated run it asks every broker once for its metadata."""

from highwater.backends.sim.simulation import Simulation
from reference.events import AnyEvent, Received
from reference.messages import Metadata, MetadataReply, PartitionState
from reference.types import Address


class Observer:
    """Asks brokers for their metadata at the end of a run; `told` has the partition states of each answer."""

    def __init__(self, sim: Simulation) -> None:
        self.address = Address("c-laboratory")  # draws of delays are named by it
        self.life = 1
        self.up = True
        self.told: dict[str, tuple[PartitionState, ...]] = {}
        self._sim = sim

    def ask(self, node: Address, correlation: int) -> None:
        """Ask this broker for its metadata."""
        self._sim.transport.send(self, node, Metadata(correlation))

    def take(self, source: str, event: AnyEvent) -> None:
        """Keep the partition states of a broker's metadata answer; ignore all other events."""
        if isinstance(event, Received) and isinstance(event.message, MetadataReply):
            self.told[source] = event.message.states
