"""What a backend cannot perform it refuses before the run."""

from typing import get_args

import pytest

from nemesis.capability import BACKENDS, Backend, Can, Cannot, ability, refusals
from nemesis.document import sample
from nemesis.faults import AnyFault, Clog, Crash, Packets, Partition, Pause, Restart, Shutdown
from nemesis.schedule import Window


@pytest.mark.parametrize("fault", get_args(AnyFault))
def test_the_simulator_performs_everything(fault: type[AnyFault]) -> None:
    assert isinstance(ability("sim", sample(fault)), Can)


def test_processes_are_killed_and_stopped_and_nothing_else() -> None:
    able = {type(fault) for fault in map(sample, get_args(AnyFault)) if isinstance(ability("process", fault), Can)}

    assert able == {Crash, Restart, Shutdown, Pause}


def test_a_session_that_ends_at_once_is_more_than_a_signal() -> None:
    """B-47's bounce needs somebody who closes the session; a killed process leaves it to its timeout."""
    assert isinstance(ability("process", Restart(session_ends=True)), Cannot)
    assert isinstance(ability("docker", Restart(session_ends=True)), Can)


@pytest.mark.parametrize("fault", [Packets(duplicate_per_mille=1), Packets(kinds=("fetch",)), Clog(kinds=("fetch",))])
def test_containers_cannot_tell_messages_apart(fault: AnyFault) -> None:
    assert isinstance(ability("docker", fault), Cannot)
    assert isinstance(ability("docker", sample(type(fault))), Can)


def test_a_refusal_names_the_window_and_the_reason() -> None:
    windows = (
        Window(id="f1", kind="crash-random", at_ms=0, until_ms=1, fault=Crash()),
        Window(id="f2", kind="isolate-one", at_ms=0, until_ms=1, fault=Partition()),
    )

    assert refusals("process", windows) == (
        "window f2 (isolate-one): the process backend cannot: "
        "processes share one loopback interface; links are cut in containers",
    )
    assert refusals("sim", windows) == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_says_something_about_every_fault(backend: Backend) -> None:
    for fault in get_args(AnyFault):
        answer = ability(backend, sample(fault))
        assert (answer.how if isinstance(answer, Can) else answer.why) != ""
