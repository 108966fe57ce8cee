"""The laboratory as one more client of a simulated cluster: asks every broker what it tells clients, once, at the end."""

from highwater.backends.sim.stage import Stage
from reference.events import AnyEvent, Received
from reference.messages import Metadata, MetadataReply, PartitionState
from reference.types import Address


class Laboratory:
    """Asks and keeps the answers: `told` by node."""

    def __init__(self, stage: Stage) -> None:
        self.address = Address("c-laboratory")
        self.life = 1
        self.up = True
        self.told: dict[str, tuple[PartitionState, ...]] = {}
        self._stage = stage

    def ask(self, node: Address, correlation: int) -> None:
        """What do you tell clients?"""
        self._stage.transport.send(self, node, Metadata(correlation))

    def take(self, source: str, event: AnyEvent) -> None:
        """An answer, or the news that none will come."""
        if isinstance(event, Received) and isinstance(event.message, MetadataReply):
            self.told[source] = event.message.states
