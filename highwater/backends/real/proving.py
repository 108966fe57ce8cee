"""Proof that faults act and are healed: probes run beside the schedule, and what they found becomes rows.

A fault counts as having acted once a probe has seen its effect; one that had none is said to have had none, and a run whose
faults had none is vacuous. A fault that is still there after it was healed is a failure of the laboratory. What was changed again
while a probe was looking is looked at no more: the later deed has a probe of its own.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError
from history.event import EventKind
from history.recorder import Recorder
from nemesis.schedule import Window
from reference.types import Address


class Proving:
    """The probes of one run. `acted` counts, by kind of fault, the deeds that were seen to act."""

    def __init__(self, recorder: Recorder, kinds: Iterable[str]) -> None:
        self._recorder = recorder
        self._changes: dict[str, int] = {}  # how often each thing that a fault can hit was changed
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}  # by window
        self.acted: dict[str, int] = dict.fromkeys(kinds, 0)
        self.failure: HarnessError | None = None

    def changed(self, *subjects: str) -> None:
        """These things are changed now: what is being measured of them is worthless."""
        for subject in subjects:
            self._changes[subject] = self._changes.get(subject, 0) + 1

    def acts(self, window: Window, node: Address, probe: Probe, *subjects: str) -> None:
        """Measure that the window has its effect on this node."""
        self._begin(window, self._prove(window, node, probe, self._since(subjects), healing=False))

    def healed(self, window: Window, node: Address, probe: Probe, *subjects: str) -> None:
        """Measure that its effect is over."""
        self._begin(window, self._prove(window, node, probe, self._since(subjects), healing=True))

    async def settle(self, window_id: str | None = None) -> None:
        """Until the probes of this window, or of all, have found what they look for. HarnessError where healing failed."""
        names = list(self._tasks) if window_id is None else [window_id]
        await asyncio.gather(*(task for name in names for task in self._tasks.pop(name, ())))
        if self.failure is not None:
            raise self.failure

    def _begin(self, window: Window, work: Coroutine[None, None, None]) -> None:
        self._tasks.setdefault(window.id, []).append(asyncio.get_running_loop().create_task(work))

    async def _prove(self, window: Window, node: Address, probe: Probe, is_so: Callable[[], bool], *, healing: bool) -> None:
        try:
            proof = await probe()
        except HarnessError as error:
            self.failure = self.failure or error
            return
        except OSError as error:
            # A probe starts processes and opens connections, and this machine may have no room for another.
            self.failure = self.failure or HarnessError(f"looking at window {window.id} ({window.kind}): {error}")
            return
        if not is_so():
            return
        word = _word(proof, healing=healing)
        self._recorder.event(EventKind.FAULT_PROBED, fault=window.id, node=node, detail=f"{word}: {proof.detail}")
        if healing and proof.holds is False:
            self.failure = self.failure or HarnessError(f"window {window.id} ({window.kind}) is not healed: {proof.detail}")
        if not healing and proof.holds:
            self.acted[window.kind] += 1
            self._recorder.event(EventKind.FAULT_ACTED, fault=window.id, node=node, detail=window.kind, count=1)

    def _since(self, subjects: tuple[str, ...]) -> Callable[[], bool]:
        """Are these things as they are now? What is changed before a probe has begun counts too."""
        before = {subject: self._changes.get(subject, 0) for subject in subjects}
        return lambda: all(self._changes.get(subject, 0) == count for subject, count in before.items())


def _word(proof: Proof, *, healing: bool) -> str:
    if proof.holds is None:
        return "not-measured"
    if healing:
        return "healed" if proof.holds else "still-there"
    return "acts" if proof.holds else "no-effect"
