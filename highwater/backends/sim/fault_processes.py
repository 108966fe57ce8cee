"""Faults of simulated processes and their sessions: paused, crashed, restarted, shut down, without power, expired."""

from functools import partial
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZooKeeper
from highwater.rig.nemesis import Holds, Nemesis
from nemesis.faults import Crash, CrashAt, ExpireSession, Pause, PowerLoss, ProcessFault, Restart, Shutdown
from reference.effects import AnyEffect
from reference.events import ShutDown

RESTART_MS_MIN = 20  # from the end of a process to the start of the next
RESTART_MS_MAX = 500
BOUNCE_MS_MIN = 1  # the same for a restart whose session ended at once: the controller has not read yet
BOUNCE_MS_MAX = 10
SILENT_MS_MIN = 500  # after a power loss, until peers notice that the host is gone
SILENT_MS_MAX = 3000


class ProcessFaults:
    """Injects process faults into simulated brokers; `kill`, `let_run` and `start_soon` serve faults of disks too."""

    def __init__(self, sim: Simulation, server: ZooKeeper, nemesis: Nemesis) -> None:
        self._sim = sim
        self._server = server
        self._nemesis = nemesis

    def holds(self, node: NodeHost) -> Holds:
        """How many active faults keep this broker down or pause it."""
        return self._nemesis.holds[node.config.broker]

    def do(self, opened: OpenWindow, fault: ProcessFault, node: NodeHost, acting: Acting) -> None:
        """Apply a process fault to this broker, and register how to undo it at the fault's end."""
        match fault:
            case Pause():
                self._pause(opened, node, acting)
            case Crash():
                self.kill(opened, node, acting, partial(node.stop, "crash"))
            case CrashAt():
                strike = partial(self._kill_at_trap, opened, node, acting)
                opened.hold_in(node.traps, Trap(fault.effect, fault.nth, before=fault.before, strike=strike))
            case Restart(session_ends=True):
                self.holds(node).down += 1
                acting.count += 1
                self._bounce(node)
            case Restart():
                self._strike(node, acting, partial(node.stop, "crash"))
                self.start_soon(node)
            case Shutdown():
                self.holds(node).down += 1
                acting.count += node.up
                node.take("operator", ShutDown())
                opened.undo.append(partial(self._end_shutdown, node, node.life, fault))
            case PowerLoss():
                self.kill(opened, node, acting, partial(self._lose_power, opened.id, fault, node))
            case ExpireSession():
                session = self._server.session_of(node.address)
                if session:
                    acting.count += self._server.expire(session)
            case _:
                assert_never(fault)

    def kill(self, opened: OpenWindow, node: NodeHost, acting: Acting, blow: "partial[None]") -> None:
        """Call `blow` to end a broker process, and keep it down until the fault ends."""
        self._strike(node, acting, blow)
        opened.undo.append(partial(self.let_run, node))

    def let_run(self, node: NodeHost) -> None:
        """Remove one reason to keep a broker down, and start it if none is left."""
        node.spring()
        if self.holds(node).release() and not node.wrong:
            node.start()
            if self.holds(node).pauses:
                node.pause()

    def start_soon(self, node: NodeHost, lo_ms: int = RESTART_MS_MIN, hi_ms: int = RESTART_MS_MAX) -> None:
        """After a random delay, remove one reason to keep a broker down, and start it if none is left."""
        wait_ms = self._sim.draws.between(f"restart {node.address}", lo_ms, hi_ms)
        self._sim.scheduler.after(wait_ms * MS, self.let_run, node)

    def _strike(self, node: NodeHost, acting: Acting, blow: "partial[None]") -> None:
        """Keep a broker process down; `blow` ends it, at once or within a few milliseconds."""
        self.holds(node).down += 1
        acting.count += 1
        node.ambush(blow)

    def _pause(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        self.holds(node).pauses += 1
        acting.count += node.up
        node.pause()
        opened.undo.append(partial(self._unpause, node))

    def _unpause(self, node: NodeHost) -> None:
        if self.holds(node).unpause():
            node.resume()

    def _end_shutdown(self, node: NodeHost, life: int, fault: Shutdown) -> None:
        """Kill a broker process that was told to shut down and has not exited by itself; it may start with another protocol."""
        if node.life == life:
            node.stop("crash")
        if fault.protocol is not UNSET:
            node.config = replace(node.config, inter_broker_protocol=fault.protocol)
        self.let_run(node)

    def _kill_at_trap(self, opened: OpenWindow, node: NodeHost, acting: Acting, _: AnyEffect) -> None:
        """Kill a broker process at its crash point (fault `crash-at`)."""
        self.holds(node).down += 1
        acting.count += 1
        node.stop("crash")
        opened.undo.append(partial(self.let_run, node))

    def _bounce(self, node: NodeHost) -> None:
        """Restart a broker before the controller has seen its registration disappear (B-47, KAFKA-1120)."""
        session = self._server.session_of(node.address)
        node.stop("crash")
        if session:
            self._server.expire(session)
        self.start_soon(node, BOUNCE_MS_MIN, BOUNCE_MS_MAX)

    def _lose_power(self, window_id: str, fault: PowerLoss, node: NodeHost) -> None:
        """Stop the broker, and undo in each directory what was not flushed."""
        silent_ms = self._sim.draws.between(f"silent {node.address}", SILENT_MS_MIN, SILENT_MS_MAX)
        node.stop("power-loss", silent_ns=silent_ms * MS)
        for index in range(len(node.disk.dirs)):
            wounds = node.disk.lose_unflushed(index, f"power {window_id}", torn=fault.torn, all_of_it=fault.lose_all)
            self._nemesis.wounded(node.address, index, wounds, "power-loss")
