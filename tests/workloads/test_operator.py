"""operator: hand-made edits under /admin, none of which asks for the end of something that exists."""

import msgspec
import pytest

from history.op import OpType
from tests.workloads.test_admin_storm import run
from tests.workloads.test_audit import AUDITED, SHAPE
from workloads import operator
from workloads.client import Completion, Edit
from workloads.generate import generate
from workloads.operator import Operator
from workloads.parameters import Parameters

PARAMETERS = msgspec.structs.replace(AUDITED, audited=False, topics=(SHAPE,), edits=True, brokers=(1, 2, 3))


def edits(parameters: Parameters = PARAMETERS) -> list[Edit]:
    edits_found = []
    for draws in range(20):
        (process,) = operator.processes(draws, parameters)
        edits_found += [invocation.edit for invocation in run(process, "faults", until_ms=200_000) if invocation.edit is not None]
    return edits_found


@pytest.mark.parametrize("by_requests", [False, True])
def test_operator_edits_pending_moves_and_other_requests(by_requests: bool) -> None:
    edits_found = edits(msgspec.structs.replace(PARAMETERS, by_requests=by_requests))
    kinds = {(edit.data is None, edit.over) for edit in edits_found}
    roots = {edit.path.split("/")[2] for edit in edits_found}

    assert kinds == {(True, False), (False, False), (False, True)}
    assert {"reassign_partitions", "preferred_replica_election", "delete_topics", "partitions_add", "partitions_remove"} <= roots
    assert ("reassignments" in roots, "reassign_cancel" in roots) == (by_requests, not by_requests)


def test_operator_never_asks_for_the_deletion_of_what_exists() -> None:
    """The promises of its records would end."""
    gone = [edit.path for edit in edits() if edit.path.startswith("/admin/partitions_remove")]
    deleted = [edit.data for edit in edits() if edit.path == "/admin/delete_topics"]

    assert {path for path in gone if path.endswith(tuple("012345"))} <= {
        "/admin/partitions_remove/no-such-topic/0",
        f"/admin/partitions_remove/{SHAPE.name}/900",
    }
    assert not any(SHAPE.name in (data or "") for data in deleted)


def test_operator_overwrites_no_znode_but_those_of_moves() -> None:
    """A client that waits for its own request would take it for done."""
    assert {edit.path.rstrip("/0123456789") for edit in edits() if edit.over} <= {
        "/admin/reassign_partitions",
        "/admin/reassign_partitions_extra",
        "/admin/reassignments",
    }


def test_operator_allows_moves_again_until_that_succeeds() -> None:
    (process,) = operator.processes(1, PARAMETERS)
    lost = Completion(type=OpType.INFO)

    assert len(run(process, "quiet", lost, until_ms=2000)) > 1
    assert [invocation.f for invocation in run(process, "quiet")] == ["allow-reassignments"]
    assert run(process, "final") == []


def test_plan_without_edits_has_no_operator() -> None:
    plain = msgspec.structs.replace(PARAMETERS, edits=False)

    assert not any(isinstance(process, Operator) for process in generate("produce-consume", 5, plain))
    assert isinstance(generate("produce-consume", 5, PARAMETERS)[-1], Operator)
