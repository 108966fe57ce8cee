"""An open fault window of the simulator: the nodes that it hits, and how to undo the fault when it closes."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from highwater.backends.sim.network import Acting
from nemesis.schedule import Window
from reference.types import Address

T = TypeVar("T")
Undo = Callable[[], None]


class OpenWindow:
    """An open fault window. `over` is True once it is closed: callbacks scheduled for it then do nothing."""

    __slots__ = ("actings", "id", "nodes", "over", "undo", "window")

    def __init__(self, window: Window, nodes: tuple[Address, ...]) -> None:
        self.window = window
        self.id = window.id
        self.nodes = nodes
        self.actings = {node: Acting(window.id, node) for node in nodes}
        self.undo: list[Undo] = []
        self.over = False

    def hold_in(self, place: list[T], item: T) -> None:
        """Add an item to a list, and remove it when the window closes."""
        place.append(item)
        self.undo.append(partial(place.remove, item))

    def close(self) -> None:
        """Close the window and undo its faults, latest first."""
        self.over = True
        for undo in reversed(self.undo):
            undo()
