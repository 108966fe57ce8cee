"""everything: the administrators and the misfit of the other workloads, at once and on the same topics."""

import msgspec
import pytest

from tests.workloads.test_admin_storm import run
from tests.workloads.test_audit import AUDITED, SHAPE
from workloads import everything
from workloads.admin_storm import Administrator
from workloads.generate import generate
from workloads.parameters import ParametersError, TopicShape

SCRATCH = TopicShape("scratch", 1, ((1, 2),))
PARAMETERS = msgspec.structs.replace(AUDITED, audited=False, topics=(SHAPE,), scratch=SCRATCH)


def test_everything_has_the_clients_of_the_other_workloads() -> None:
    asked = {invocation.f for process in generate("everything", 5, PARAMETERS) for invocation in run(process, "faults")}

    assert {"produce", "reassign", "add-partition", "create-topic", "delete-topic", "depose-controller"} <= asked


def test_no_two_producers_of_everything_write_the_same_value() -> None:
    admin = next(p for p in everything.processes(5, PARAMETERS) if isinstance(p, Administrator))
    run(admin, "faults")
    processes = generate("everything", 5, PARAMETERS)
    written = [value for process in processes for invocation in run(process, "faults") for value in invocation.values]

    assert len(set(written)) == len(written)


def test_scratch_topic_is_moved_while_it_exists() -> None:
    processes = generate("everything", 5, PARAMETERS)
    storm, creator = processes[-5], processes[-2]
    assert "scratch" not in {invocation.topic for invocation in run(storm, "faults", until_ms=30_000)}

    run(creator, "faults", until_ms=1)

    assert "scratch" in {invocation.topic for invocation in run(storm, "faults") if invocation.f.startswith("reassign")}


def test_everything_without_a_scratch_topic_is_refused() -> None:
    with pytest.raises(ParametersError, match="needs the parameter `scratch`"):
        generate("everything", 5, msgspec.structs.replace(PARAMETERS, scratch=None))
