"""Proves that faults take effect and end: probes run beside the schedule, and what they find becomes history rows.

A fault has acted once a probe has seen its effect. A fault without effect is recorded as such, and a run in which no fault had an
effect is vacuous. A fault that still acts after it was undone is a failure of the harness. A finding about something that was
changed again while the probe looked is dropped: the later change has a probe of its own.
"""

import asyncio
from collections.abc import Callable, Coroutine

from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError
from history.event import EventKind
from history.recorder import Recorder
from nemesis.schedule import Window
from reference.types import Address


class Proving:
    """The probes of one run. `acted` is called with fault, broker and count when a fault was seen to take effect."""

    def __init__(self, recorder: Recorder, *, acted: Callable[[Window, Address, int], None]) -> None:
        self._recorder = recorder
        self._changes: dict[str, int] = {}  # by subject, how often it was changed
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}  # by window
        self._acted = acted
        self.failure: HarnessError | None = None

    def changed(self, *subjects: str) -> None:
        """Drop what running probes of these links, processes or directories find, because these are changed now."""
        for subject in subjects:
            self._changes[subject] = self._changes.get(subject, 0) + 1

    def acts(self, window: Window, node: Address, probe: Probe, *subjects: str) -> None:
        """Start a probe that measures whether the fault takes effect on this broker."""
        self._begin(window, self._prove(window, node, probe, self._unchanged_since(subjects), healing=False))

    def healed(self, window: Window, node: Address, probe: Probe, *subjects: str) -> None:
        """Start a probe that measures whether the fault's effect on this broker is over."""
        self._begin(window, self._prove(window, node, probe, self._unchanged_since(subjects), healing=True))

    async def settle(self, window_id: str | None = None) -> None:
        """Wait until the probes of this fault, or all, have ended. HarnessError if a fault's effect is not over."""
        names = list(self._tasks) if window_id is None else [window_id]
        await asyncio.gather(*(task for name in names for task in self._tasks.pop(name, ())))
        if self.failure is not None:
            raise self.failure

    def _begin(self, window: Window, work: Coroutine[None, None, None]) -> None:
        self._tasks.setdefault(window.id, []).append(asyncio.get_running_loop().create_task(work))

    async def _prove(
        self, window: Window, node: Address, probe: Probe, is_unchanged: Callable[[], bool], *, healing: bool
    ) -> None:
        """Run a probe and record what it found, unless its subject changed meanwhile; an unhealed fault fails the run."""
        try:
            proof = await probe()
        except HarnessError as error:
            self.failure = self.failure or error
            return
        except OSError as error:
            # A probe starts processes and opens connections, for which this machine may lack memory or ports.
            self.failure = self.failure or HarnessError(f"probing window {window.id} ({window.kind}): {error}")
            return
        if not is_unchanged():
            return
        word = _word_of_proof(proof, healing=healing)
        detail = f"{word}: {proof.detail}"
        self._recorder.event(EventKind.FAULT_PROBED, fault=window.id, node=node, detail=detail, count=proof.orphans)
        if healing and proof.holds is False:
            self.failure = self.failure or HarnessError(f"window {window.id} ({window.kind}) is not healed: {proof.detail}")
        if not healing and proof.holds:
            self._acted(window, node, proof.count)

    def _unchanged_since(self, subjects: tuple[str, ...]) -> Callable[[], bool]:
        """A function that is true while none of these subjects has changed since this call, before the probe begins."""
        before = {subject: self._changes.get(subject, 0) for subject in subjects}
        return lambda: all(self._changes.get(subject, 0) == count for subject, count in before.items())


def _word_of_proof(proof: Proof, *, healing: bool) -> str:
    """What a proof says of the fault, as histories name it."""
    if proof.holds is None:
        return "not-measured"
    if healing:
        return "healed" if proof.holds else "still-there"
    return "acts" if proof.holds else "no-effect"
