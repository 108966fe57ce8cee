"""Running the processes of one broker: a system says what is started, a runner where: on this machine, or in a container."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Protocol

from msgspec import Struct

from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError
from nemesis.faults import Roll
from reference.types import Address

OUTPUT = "output.log"  # in the broker's folder: what its processes printed
SAYS_S_MAX = 60.0  # until a broker that was started has said its version
LOOK_S = 0.1


class Launch(Struct, frozen=True, kw_only=True):
    """What is started: a command, environment variables beside those of the place, and what the process needs.

    `watches_stdin`: it ends when its stdin does, so that it does not outlive the harness. `permissions`: file permissions must
    hold for it, even under root. `fake_clock`: its environment loads libfaketime.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    watches_stdin: bool = False
    permissions: bool = False
    fake_clock: bool = False


class Runner(Protocol):
    """Runs the processes of one broker, one at a time."""

    @property
    def user(self) -> int | None:
        """The uid that the processes run as; None if it is the harness's."""

    @property
    def python(self) -> Launch:
        """How Python is started there with the packages of the reference."""

    @property
    def faketime(self) -> Path | None:
        """Where the processes find libfaketime; None if it is not there."""

    def reads(self, folder: Path) -> Path:
        """Let the processes read a folder of this machine; returns its path there. Call it before the first start."""

    async def start(self, launch: Launch, folder: Path) -> Probe:
        """Start a process that may write in `folder`; what it prints is appended to OUTPUT there. The probe sees it run."""

    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""

    def exit_code(self) -> int | None:
        """The exit code of a process that ended without `end`; None if it runs, was ended, or needed too much memory."""

    async def kill(self) -> Probe:
        """Send SIGKILL and wait for the end. The probe fails if no process ran: the fault had no effect."""

    def end(self) -> None:
        """Send SIGKILL and wait for the end, without a probe; for callers outside of the asyncio loop. May be called again."""

    async def terminate(self) -> Probe:
        """Send SIGTERM."""

    async def pause(self) -> Probe:
        """Freeze the process."""

    async def resume(self) -> Probe:
        """Continue a frozen process."""


class BrokerProcess(ABC):
    """One broker through all its restarts, in the hands of a runner. `folder` is its own."""

    address: Address
    life: int

    def __init__(self, runner: Runner, folder: Path) -> None:
        self.runner = runner
        self._folder = folder
        self._output = folder / OUTPUT

    @abstractmethod
    def _launch(self) -> Launch:
        """Count a new process and prepare its files."""

    @abstractmethod
    def stopped_itself(self) -> str | None:
        """Why the broker's process stopped itself; None if it did not."""

    async def start(self) -> Probe:
        """Start the broker's process anew."""
        assert not self.runner.is_running()
        return self._holds_or_stopped(await self.runner.start(self._launch(), self._folder))

    def change(self, roll: Roll) -> None:
        """Raises HarnessError: a system with one version refuses this fault before the run."""
        raise HarnessError(f"{self.address} has one version")

    async def is_running(self) -> bool:
        """Whether the broker's process exists, paused or not."""
        return self.runner.is_running()

    async def kill(self) -> Probe:
        """Send the broker SIGKILL and wait for the end; the page cache survives."""
        return await self.runner.kill()

    def end(self) -> None:
        """Send the broker SIGKILL and wait for the end, without a probe; for callers outside of the asyncio loop."""
        self.runner.end()

    async def terminate(self) -> Probe:
        """Send the broker SIGTERM; a controlled shutdown may take a while."""
        return await self.runner.terminate()

    async def pause(self) -> Probe:
        """Freeze the broker."""
        return self._holds_or_stopped(await self.runner.pause())

    async def resume(self) -> Probe:
        """Continue the broker."""
        return self._holds_or_stopped(await self.runner.resume())

    def last_words(self) -> str:
        """The last line that the broker's process printed; empty unless something went wrong."""
        lines = self._output.read_text(errors="replace").strip().splitlines() if self._output.exists() else []
        return lines[-1] if lines else ""

    def _probe_of_roll(self, starts: Probe, says: Callable[[], Awaitable[Proof | None]]) -> Probe:
        """The probe of a start that also sees which version the broker has become, as it says itself; `says`: None until then."""
        life = self.life

        async def probe() -> Proof:
            proof = await starts()
            end_s = monotonic() + SAYS_S_MAX
            while proof.holds and self.life == life and self.runner.is_running() and monotonic() < end_s:
                report = await says()
                if report is not None:
                    return Proof(report.holds, f"{proof.detail}, as {report.detail}")
                await asyncio.sleep(LOOK_S)
            return Proof(None, f"{proof.detail}; it has not said its version") if proof.holds else proof

        return probe

    def _holds_or_stopped(self, probe: Probe) -> Probe:
        """The same probe, which also holds if the broker has stopped itself."""

        async def excused() -> Proof:
            proof = await probe()
            why = None if proof.holds else self.stopped_itself()
            return proof if why is None else Proof(True, f"the broker stopped by itself: {why}")

        return excused
