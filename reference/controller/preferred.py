"""Leadership goes back to the first replica of the assignment (/admin/preferred_replica_election, R-147).

A preferred replica that is not live, or not in the ISR as it is stamped there, is left alone: this is balance, not repair.
"""

from reference.controller import state_change
from reference.controller.context import AdminProcedure, Controller
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Data, Delete
from reference.machine import Turn


def on_read(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """Go through V3 §A step 3 for each partition that is listed, with another wish."""
    procedure = controller.admin["preferred"]
    found = answers[0]
    if not isinstance(found, Data):
        procedure.step = "idle"
        return
    listed = sorted(set(paths.decode_preferred(found.data)))
    procedure.partitions = {tp: controller.assignments[tp] for tp in listed if tp in controller.assignments}
    procedure.writes = [(Delete(paths.PREFERRED_ELECTION, found.version),)]
    procedure.step = "electing"
    for tp in procedure.partitions:
        state_change.start(turn, controller, tp, "preferred")


def wait(controller: Controller, procedure: AdminProcedure) -> None:
    """All done (R-147); one that waits for the logs of brokers has no leader to replace."""
    changes = [controller.changes[tp] for tp in procedure.partitions if tp in controller.changes]
    if all(change.step == "asking" for change in changes):
        procedure.step = "ready"
