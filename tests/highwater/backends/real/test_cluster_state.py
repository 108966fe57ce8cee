"""The look at everything in the end is repeated until nothing changes between two of them."""

import asyncio
from collections.abc import Iterable

import pytest

from highwater.backends.real import cluster_state
from highwater.backends.real.cluster_state import EndState, at_rest
from history.event import EventKind
from history.recorder import Recorder
from reference.coordination.api import Data
from reference.types import Address

PATH = "/brokers/topics/t/partitions/0/state"


def state(version: int) -> EndState:
    """ZooKeeper's znode was written so often; b1 tells of nothing."""
    return EndState((), {PATH: Data(b"{}", version, 7)}, {Address("b1"): ()})


def rested(looks: Iterable[EndState], monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[EndState, ...], int]:
    """What is recorded of these looks, and how many of them were taken."""
    monkeypatch.setattr(cluster_state, "BETWEEN_LOOKS_S", 0.0)
    coming, taken = iter(looks), 0

    async def see() -> EndState:
        nonlocal taken
        taken += 1
        return next(coming)

    return asyncio.run(at_rest(see)), taken


def test_two_looks_that_see_the_same_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rested([state(1), state(1)], monkeypatch) == ((state(1),), 2)


def test_an_isr_change_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written and told are two moments: a look between them accuses a broker that hears of it a millisecond later."""
    assert rested([state(1), state(2), state(3), state(3), state(4)], monkeypatch) == ((state(3),), 4)


def test_of_a_cluster_that_never_rests_both_last_looks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone would pass for what the cluster was in the end."""
    most = cluster_state.LOOKS_MAX

    found, taken = rested(map(state, range(2 * most)), monkeypatch)

    assert (found, taken) == ((state(most - 2), state(most - 1)), most)


def test_a_look_is_rows_of_what_zookeeper_holds_and_of_what_brokers_tell() -> None:
    recorder = Recorder(lambda: 5)
    topic = Data(b'{"version":1,"partitions":{"0":[1]}}', 0, 9)

    EndState((("t", topic),), {}, {Address("b1"): ()}).record(recorder)

    (row,) = recorder.events
    assert (row.kind, row.topic, row.topic_id, row.replicas, row.time_ns) == (EventKind.ZK_STATE, "t", "9", ("b1",), 5)
