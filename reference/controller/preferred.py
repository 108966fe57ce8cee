"""Elections on request: of the first replica of the assignment (R-147), or of anybody where nobody may lead (docs/promise.md
DUR-7).

A preferred replica that is not live, or not in the ISR as it is stamped there, is left alone: this is balance, not repair.
An unclean election is repair: where no counted-on replica can lead, the longest log leads that can be shown not to have been
emptied (DUR-6). A partition that has a leader, or can have one without loss, keeps to that; so an order is safe to repeat.
"""

from typing import Literal

from reference.controller import state_change
from reference.controller.context import AdminProcedure, Controller
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Data, Delete
from reference.machine import Turn

_Kind = Literal["preferred", "unclean"]


def on_read(turn: Turn, controller: Controller, kind: _Kind, answers: tuple[AnyAnswer, ...]) -> None:
    """Go through V3 §A step 3 for each partition that is listed, with another wish."""
    procedure = controller.admin[kind]
    found = answers[0]
    if not isinstance(found, Data):
        procedure.step = "idle"
        return
    listed = sorted(set(paths.decode_preferred(found.data)))
    procedure.partitions = {tp: controller.assignments[tp] for tp in listed if tp in controller.assignments}
    path = paths.PREFERRED_ELECTION if kind == "preferred" else paths.UNCLEAN_ELECTION
    procedure.writes = [(Delete(path, found.version),)]
    procedure.step = "electing"
    for tp in procedure.partitions:
        state_change.start(turn, controller, tp, kind)


def wait(controller: Controller, kind: str, procedure: AdminProcedure) -> None:
    """All done (R-147); one that waits for the logs of brokers has no leader to replace, but perhaps one to be elected."""
    changes = [controller.changes[tp] for tp in procedure.partitions if tp in controller.changes]
    if all(change.step == "asking" and kind == "preferred" for change in changes):
        procedure.step = "ready"
