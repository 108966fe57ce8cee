"""Faults of simulated log directories: operations fail, are slow, or records are lost."""

from functools import partial
from typing import assert_never

from highwater.backends.sim.disk import Refusal
from highwater.backends.sim.fault_processes import ProcessFaults
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.rig.nemesis import Nemesis
from nemesis.faults import DirFailure, DirFile, DirUnreadable, DiskFault, DiskFull, DiskSlow, DiskSwap


class DiskFaults:
    """Injects disk faults into the log directories of simulated brokers."""

    def __init__(self, processes: ProcessFaults, nemesis: Nemesis) -> None:
        self._processes = processes
        self._nemesis = nemesis

    def do(self, opened: OpenWindow, fault: DiskFault, node: NodeHost, acting: Acting) -> None:
        """Apply a disk fault to this broker, and register how to undo it at the fault's end."""
        directory = node.disk.dirs[fault.dir]
        match fault:
            case DirUnreadable():  # as the system tests of KIP-112 do to a leader and to a follower
                self._refuse(opened, node, fault.dir, Refusal(acting, "EACCES", reads=False))
            case DirFile(removed=removed):
                # A process that still has files open goes on with them until it ends.
                undo = partial(self._swap, fault.dir, node) if removed else None
                self._refuse(opened, node, fault.dir, Refusal(acting, "ENOTDIR", reads=False), undo)
            case DirFailure(drop_unflushed=drop_unflushed):
                undo = partial(self._drop, opened.id, fault.dir, node) if drop_unflushed else None
                self._refuse(opened, node, fault.dir, Refusal(acting, "EIO", reads=False), undo)
            case DiskFull():
                self._refuse(opened, node, fault.dir, Refusal(acting, "ENOSPC", reads=True))
            case DiskSlow():
                opened.hold_in(directory.slows, (fault.extra_ms * MS, acting))
            case DiskSwap():
                self._processes.kill(opened, node, acting, partial(self._swap, fault.dir, node))
            case _:
                assert_never(fault)

    def _refuse(
        self, opened: OpenWindow, node: NodeHost, dir_: int, refusal: Refusal, undo: "partial[None] | None" = None
    ) -> None:
        """The directory refuses until the window closes; then `undo` comes before the broker is restarted."""
        opened.undo.append(partial(self._restart_after_repair, node))
        if undo is not None:
            opened.undo.append(undo)
        opened.hold_in(node.disk.dirs[dir_].refusals, refusal)

    def _swap(self, index: int, node: NodeHost) -> None:
        node.stop("crash")
        self._nemesis.swapped(node.address, index, node.disk.swap(index))

    def _drop(self, window_id: str, index: int, node: NodeHost) -> None:
        """The device loses what was not synced. A process that still has it in the page cache is killed before that."""
        node.stop("crash")
        lost = node.disk.lose_unflushed(index, f"drop {window_id}", torn=False, all_of_it=False)
        self._nemesis.wounded(node.address, index, lost, "dropped")

    def _restart_after_repair(self, node: NodeHost) -> None:
        """Restart a broker that knows of its directory's failure, now that the directory works again (KIP-112)."""
        if node.wrong:
            return
        if node.failed_dirs:
            node.stop("crash")
        if not node.up and not self._processes.holds(node).down:
            self._processes.holds(node).down += 1
            self._processes.start_soon(node)
