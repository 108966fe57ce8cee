"""An active fault of the simulator: the brokers that it hits, and how to undo it when it ends."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from highwater.backends.sim.network import Acting
from nemesis.schedule import Window
from reference.types import Address

T = TypeVar("T")
Undo = Callable[[], None]


class OpenWindow:
    """An active fault. `over` is True once it has ended: actions scheduled for it then do nothing."""

    __slots__ = ("actings", "id", "nodes", "over", "undo", "window")

    def __init__(self, window: Window, nodes: tuple[Address, ...]) -> None:
        self.window = window
        self.id = window.id
        self.nodes = nodes
        self.actings = {node: Acting(window.id, node) for node in nodes}
        self.undo: list[Undo] = []
        self.over = False

    def hold_in(self, place: list[T], item: T) -> None:
        """Add an item to a list until the fault ends."""
        place.append(item)
        self.undo.append(partial(place.remove, item))

    def close(self) -> None:
        """End the fault and undo its effects, latest first."""
        self.over = True
        for undo in reversed(self.undo):
            undo()
