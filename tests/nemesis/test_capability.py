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
    DirFailure,
    Packets,
    Partition,
    Reset,
    Slow,
    ZooKeeperLinks,
)
from nemesis.schedule import Window
from nemesis.targets import ClientPlace


def test_simulator_can_perform_every_fault() -> None:
    unable = {type(fault) for fault in map(sample, get_args(AnyFault)) if isinstance(ability("sim", fault), Cannot)}

    assert unable == set()


def test_process_backend_cannot_strike_at_effects() -> None:
    unable = {type(fault) for fault in map(sample, get_args(AnyFault)) if isinstance(ability("process", fault), Cannot)}

    assert unable == {CrashAt, AnswerLost, AnswerLate, DeposedAt, ZooKeeperLinks}


@pytest.mark.parametrize("backend", ["process", "docker"])
def test_real_backends_fail_no_directory_at_an_append(backend: Backend) -> None:
    assert isinstance(ability(backend, DirFailure(append="produce")), Cannot)
    assert isinstance(ability(backend, DirFailure()), Can)


def test_containers_refuse_faults_of_a_client_place() -> None:
    """All their clients have the host's address."""
    cut = Window(id="f1", kind="place-cut", at_ms=0, until_ms=1, fault=Partition(), target=ClientPlace(place=2))

    assert [len(refusals(backend, (cut,))) for backend in BACKENDS] == [0, 0, 1]
    assert performable("docker", (cut,)) == ()


@pytest.mark.parametrize("backend", ["process", "docker"])
def test_real_backends_refuse_duplicated_packets(backend: Backend) -> None:
    assert isinstance(ability(backend, Packets(duplicate_per_mille=1)), Cannot)
    assert isinstance(ability(backend, sample(Packets)), Can)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_can_hold_messages_of_some_kinds(backend: Backend) -> None:
    """KIP-101's first scenario delays the answers to fetches and nothing else."""
    assert isinstance(ability(backend, Clog(links=("peers",), kinds=("fetch",))), Can)


PICKING = (
    Slow(extra_ms=9, links=("clients",), kinds=("end-txn",)),
    Slow(extra_ms=9, links=("peers",), chance_per_mille=100),
    Clog(links=("clients",), kinds=("produce-reply",)),
    Clog(links=("peers",), connection="one"),
    Packets(drop_per_mille=100, kinds=("produce",), connection="one"),
    Reset(links=("clients", "peers"), kinds=("fetch-reply",)),
)


@pytest.mark.parametrize("fault", PICKING)
def test_processes_alone_pick_single_messages(fault: AnyFault) -> None:
    able = [backend for backend in BACKENDS if isinstance(ability(backend, fault, ClientPlace(place=1)), Can)]

    assert able == ["process"]


def test_simulator_chooses_kinds_between_brokers_alone() -> None:
    kinds = ("fetch",)

    assert isinstance(ability("sim", Packets(drop_per_mille=9, kinds=kinds)), Can)
    assert isinstance(ability("sim", Packets(drop_per_mille=9, kinds=kinds), ClientPlace(place=1)), Cannot)
    assert isinstance(ability("sim", Slow(extra_ms=9, links=("peers",), kinds=kinds)), Cannot)


@pytest.mark.parametrize("fault", [Clog(kinds=("fetch",)), Slow(extra_ms=9, chance_per_mille=9), Reset(kinds=("fetch",))])
def test_processes_pick_no_message_of_zookeeper(fault: AnyFault) -> None:
    """Its protocol is not Kafka's."""
    why = "a proxy tells messages apart between brokers and on clients' links only (links: peers, clients)"

    assert ability("process", fault) == Cannot(why)


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
