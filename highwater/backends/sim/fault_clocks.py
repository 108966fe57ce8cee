"""Clock faults in the simulator: a broker's clocks show the sum of the offsets and drifts of all active faults."""

from functools import partial
from typing import assert_never

from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS, Scheduler
from nemesis.faults import ClockDrift, ClockFault, ClockJump, ClockStrobe
from reference.types import Address


class _Wrong:
    """The drifts and offsets of one node's clocks, by open fault window."""

    __slots__ = ("drifts_ppm", "jumps_ns")

    def __init__(self) -> None:
        self.drifts_ppm: dict[str, int] = {}
        self.jumps_ns: dict[str, int] = {}


class ClockFaults:
    """Injects clock faults into simulated brokers."""

    def __init__(self, scheduler: Scheduler, nodes: tuple[Address, ...]) -> None:
        self._scheduler = scheduler
        self._wrong = {address: _Wrong() for address in nodes}

    def do(self, opened: OpenWindow, fault: ClockFault, node: NodeHost, acting: Acting) -> None:
        """Apply a clock fault to this broker, and register how to undo it at the fault's end."""
        wrong, before = self._wrong[node.address], node.clock.off
        opened.undo.append(partial(self._over, node, opened.id))
        match fault:
            case ClockDrift(ppm=ppm):
                wrong.drifts_ppm[opened.id] = ppm
            case ClockJump(offset_ms=offset_ms):
                wrong.jumps_ns[opened.id] = offset_ms * MS
            case ClockStrobe(offset_ms=offset_ms, period_ms=period_ms):
                self._scheduler.after(0, self._strobe, opened, node, offset_ms * MS, period_ms * MS)
            case _:
                assert_never(fault)
        self._apply(node)
        acting.count += node.clock.off != before

    def heal(self, node: NodeHost) -> None:
        """Remove all clock faults from this broker and set its clocks right."""
        self._wrong[node.address] = _Wrong()
        self._apply(node)

    def _strobe(self, opened: OpenWindow, node: NodeHost, offset_ns: int, period_ns: int) -> None:
        """Turn the offset over, and again after the period, until the window is over."""
        if opened.over:
            return
        jumps_ns, before = self._wrong[node.address].jumps_ns, node.clock.off
        jumps_ns[opened.id] = offset_ns - jumps_ns.get(opened.id, 0)
        self._apply(node)
        opened.actings[node.address].count += node.clock.off != before
        self._scheduler.after(period_ns, self._strobe, opened, node, offset_ns, period_ns)

    def _over(self, node: NodeHost, window_id: str) -> None:
        wrong = self._wrong[node.address]
        wrong.jumps_ns.pop(window_id, None)
        wrong.drifts_ppm.pop(window_id, None)
        self._apply(node)

    def _apply(self, node: NodeHost) -> None:
        """Set the node's clocks to the sum of all that is wrong with them."""
        wrong = self._wrong[node.address]
        if not wrong.jumps_ns and not wrong.drifts_ppm:
            node.clock.set_right()
        else:
            node.clock.drift(sum(wrong.drifts_ppm.values()))
            node.clock.jump(sum(wrong.jumps_ns.values()))
        node.timers.clock_changed()
