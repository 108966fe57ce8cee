"""A backend refuses faults that it cannot perform before the run."""

from typing import get_args

import pytest

from nemesis.capability import BACKENDS, Backend, Can, Cannot, ability, performable, refusals
from nemesis.document import sample
from nemesis.faults import (
    AnswerLate,
    AnswerLost,
    AnyFault,
    Clog,
    Crash,
    CrashAt,
    DeposedAt,
    Packets,
    Partition,
    ZooKeeperLinks,
)
from nemesis.schedule import Window
from nemesis.targets import ClientPlace


@pytest.mark.parametrize("fault", get_args(AnyFault))
def test_simulator_can_perform_every_fault(fault: type[AnyFault]) -> None:
    assert isinstance(ability("sim", sample(fault)), Can)


def test_process_backend_cannot_strike_at_effects() -> None:
    unable = {type(fault) for fault in map(sample, get_args(AnyFault)) if isinstance(ability("process", fault), Cannot)}

    assert unable == {CrashAt, AnswerLost, AnswerLate, DeposedAt, ZooKeeperLinks}


def test_containers_refuse_faults_of_a_client_place() -> None:
    """All their clients have the host's address."""
    cut = Window(id="f1", kind="place-cut", at_ms=0, until_ms=1, fault=Partition(), target=ClientPlace(place=2))

    assert [len(refusals(backend, (cut,))) for backend in BACKENDS] == [0, 0, 1]
    assert performable("docker", (cut,)) == ()


@pytest.mark.parametrize("fault", [Packets(duplicate_per_mille=1), Packets(kinds=("fetch",))])
@pytest.mark.parametrize("backend", ["process", "docker"])
def test_real_backends_refuse_duplicated_and_selected_packets(backend: Backend, fault: AnyFault) -> None:
    assert isinstance(ability(backend, fault), Cannot)
    assert isinstance(ability(backend, sample(type(fault))), Can)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_can_hold_messages_of_some_kinds(backend: Backend) -> None:
    """KIP-101's first scenario delays the answers to fetches and nothing else."""
    assert isinstance(ability(backend, Clog(links=("peers",), kinds=("fetch",))), Can)


@pytest.mark.parametrize("backend", ["process", "docker"])
def test_real_backends_tell_messages_apart_between_brokers_only(backend: Backend) -> None:
    why = "a proxy tells messages apart between brokers only (links: peers)"

    assert ability(backend, Clog(links=("clients",), kinds=("fetch",))) == Cannot(why)
    assert ability(backend, Clog(kinds=("fetch",))) == Cannot(why)


def test_refused_fault_error_names_window_and_reason() -> None:
    windows = (
        Window(id="f1", kind="crash-random", at_ms=0, until_ms=1, fault=Crash()),
        Window(id="f2", kind="crash-at", at_ms=0, until_ms=1, fault=CrashAt()),
    )

    assert refusals("process", windows) == (
        "window f2 (crash-at): the process backend cannot: the effects of a machine cannot be seen from outside its process",
    )
    assert refusals("sim", windows) == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_says_if_it_can_perform_each_fault(backend: Backend) -> None:
    for fault in get_args(AnyFault):
        answer = ability(backend, sample(fault))
        assert (answer.how if isinstance(answer, Can) else answer.why) != ""
