"""The final state of the cluster is read until two readings in a row are equal."""

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
    """A reading with the partition's znode at this version and empty metadata from b1."""
    return EndState((), {PATH: Data(b"{}", version, 7)}, {Address("b1"): ()})


def rested(looks: Iterable[EndState], monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[EndState, ...], int]:
    """What `at_rest` returns for these readings, and how many it took."""
    monkeypatch.setattr(cluster_state, "BETWEEN_LOOKS_S", 0.0)
    coming, taken = iter(looks), 0

    async def see() -> EndState:
        nonlocal taken
        taken += 1
        return next(coming)

    return asyncio.run(at_rest(see)), taken


def test_cluster_state_is_final_after_two_equal_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rested([state(1), state(1)], monkeypatch) == ((state(1),), 2)


def test_final_cluster_state_waits_for_an_isr_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper has the change before the brokers do; a reading in between would accuse a broker that learns of it 1 ms later."""
    assert rested([state(1), state(2), state(3), state(3), state(4)], monkeypatch) == ((state(3),), 4)


def test_last_two_cluster_states_are_kept_if_they_never_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them alone would pass for the final state."""
    most = cluster_state.LOOKS_MAX

    end_states, taken = rested(map(state, range(2 * most)), monkeypatch)

    assert (end_states, taken) == ((state(most - 2), state(most - 1)), most)


def test_cluster_state_becomes_history_rows() -> None:
    recorder = Recorder(lambda: 5)
    topic = Data(b'{"version":1,"partitions":{"0":[1]}}', 0, 9)

    recorder.record(EndState((("t", topic),), {}, {Address("b1"): ()}).rows())

    (row,) = recorder.events
    assert (row.kind, row.topic, row.topic_id, row.replicas, row.time_ns) == (EventKind.ZK_STATE, "t", "9", ("b1",), 5)
