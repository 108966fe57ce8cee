"""The second opinion on runs: the judge of linearizability beside the checkers of runs."""

import msgspec
import pytest

from bench import second_opinion
from checkers.engine.verdict import Validity
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import judge
from highwater.backends.sim.backend import SimBackend
from highwater.catalogue.mutants import load_mutants, plans_of
from highwater.runs.provenance import present_build
from highwater.runs.run import perform
from history.foreign import ours


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "validity"), [("truncate-to-hw", Validity.INVALID), ("safe", Validity.VALID)])
def test_clients_alone_show_the_record_that_kip_101_keeps(protocol: str, validity: Validity) -> None:
    (row,) = (row for row in load_mutants(second_opinion._MUTANTS).caught if row.protocol == "truncate-to-hw")
    (plan,) = plans_of(row, second_opinion._MUTANTS.parent)
    history = perform(msgspec.structs.replace(plan, protocol=protocol), SimBackend(), present_build()).history

    assert judge(PartitionLog(), ours.calls(history).calls).validity is validity
