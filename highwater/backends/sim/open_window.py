"""An open fault window of the simulator: the nodes it acts on, and what is undone when it closes."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from highwater.backends.sim.network import Acting
from nemesis.schedule import Window
from reference.types import Address

T = TypeVar("T")
Undo = Callable[[], None]


class OpenWindow:
    """`over` once it is closed: callbacks that were scheduled for it then do nothing."""

    __slots__ = ("actings", "id", "nodes", "over", "undo", "window")

    def __init__(self, window: Window, nodes: tuple[Address, ...]) -> None:
        self.window = window
        self.id = window.id
        self.nodes = nodes
        self.actings = {node: Acting(window.id, node) for node in nodes}
        self.undo: list[Undo] = []
        self.over = False

    def hold_in(self, place: list[T], item: T) -> None:
        """Put the item into this list for as long as the window is open."""
        place.append(item)
        self.undo.append(partial(place.remove, item))

    def close(self) -> None:
        """Undo what the window did, latest first."""
        self.over = True
        for undo in reversed(self.undo):
            undo()
