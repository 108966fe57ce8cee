"""Faults at named steps of simulated brokers: an answer of ZooKeeper that is lost or late, a controller deposed in mid-write."""

from functools import partial
from typing import Literal, assert_never

from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZooKeeper
from nemesis.faults import AnswerLate, AnswerLost, Clog, DeposedAt, StepFault
from reference.coordination import paths
from reference.coordination.api import Delete
from reference.effects import AnyEffect, ZkRequest


class StepFaults:
    """Injects faults at the requests that a simulated broker sends to ZooKeeper."""

    def __init__(self, server: ZooKeeper, links: LinkFaults) -> None:
        self._server = server
        self._links = links

    def do(self, opened: OpenWindow, fault: StepFault, node: NodeHost, acting: Acting) -> None:
        """Wait for the named step of this broker, and register how to undo the fault at its end."""
        step = f"zk-request:{fault.step}"
        match fault:
            case AnswerLost():
                trap = Trap(step, fault.nth, before=False, strike=partial(_lose_answer, node, acting))
            case AnswerLate():
                trap = Trap(step, fault.nth, before=False, strike=partial(self._hold, opened, node, acting, "inbound"))
            case DeposedAt():
                trap = Trap(step, fault.nth, before=True, strike=partial(self._depose, opened, node, acting))
            case _:
                assert_never(fault)
        opened.hold_in(node.traps, trap)

    def _hold(
        self, opened: OpenWindow, node: NodeHost, acting: Acting, direction: Literal["inbound", "outbound"], _: AnyEffect
    ) -> None:
        """Hold all messages between ZooKeeper and this broker in one direction until the fault ends."""
        acting.count += 1
        clog = Clog(links=("zookeeper",), direction=direction)
        self._links.disturb(opened, clog, node.address)

    def _depose(self, opened: OpenWindow, node: NodeHost, acting: Acting, effect: AnyEffect) -> None:
        """Delete /controller while the request of this broker is on its way."""
        self._hold(opened, node, acting, "outbound", effect)
        self._server.administer((Delete(paths.CONTROLLER),))


def _lose_answer(node: NodeHost, acting: Acting, effect: AnyEffect) -> None:
    if isinstance(effect, ZkRequest):
        node.zk.lose_answer(effect.id, acting)
