"""Ctrl-C while a run is taken down and stored: it waits, so that a second Ctrl-C does not lose the record of the run."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Held:
    """Whether Ctrl-C was pressed while it was held back."""

    def __init__(self) -> None:
        self.pressed = False

    def press(self, number: int, frame: FrameType | None) -> None:
        """Remember the signal; the handler while interrupts are held back."""
        self.pressed = True


@contextmanager
def held() -> Iterator[Held]:
    """A context that Ctrl-C does not end; `pressed` tells whether it was tried. Does nothing outside of the main thread."""
    interrupts_held = Held()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts_held
        return
    before = signal.signal(signal.SIGINT, interrupts_held.press)
    try:
        yield interrupts_held
    finally:
        signal.signal(signal.SIGINT, before)
