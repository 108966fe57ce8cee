"""The explored world: its canonical form preserves the future, and its actions have the documented extent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from highwater.explore.machine_world import Impossible, MachineWorld
from highwater.explore.state import Bounds
from highwater.explore.transition import Key
from highwater.plans.actions import AnyAction, Crash, Deliver, Double, Fire, Notice, Produce, Restart, ZkHear, ZkPerform
from reference.config import VARIANTS

BOUNDS = Bounds(records=2, max_epochs=9, crashes=1, expiries=1, losses=1)
PLAIN = {name: MachineWorld(replace(VARIANTS[name], unclean_election=False), BOUNDS) for name in ("safe", "v3", "kip101")}
EXACT = {
    name: MachineWorld(replace(VARIANTS[name], unclean_election=False), BOUNDS, keep_versions=True)
    for name in ("safe", "v3", "kip101")
}


def state_after(model: MachineWorld, state: Key, *actions: AnyAction) -> Key:
    for action in actions:
        state = model.after(state, action)
    return state


@given(protocol=st.sampled_from(sorted(PLAIN)), choices=st.lists(st.integers(0, 30), max_size=25))
def test_explored_state_with_renumbered_versions_acts_the_same(protocol: str, choices: list[int]) -> None:
    """A state with canonical versions has the same actions as the one without, at every step."""
    plain, exact = PLAIN[protocol], EXACT[protocol]
    here, there = plain.initial(), exact.initial()
    for choice in choices:
        actions = [action for action, _ in plain.successors(here)]
        assert sorted(map(repr, actions)) == sorted(repr(action) for action, _ in exact.successors(there))
        if not actions or plain.ghost(here).wrong:
            return
        action = actions[choice % len(actions)]
        here, there = plain.after(here, action), exact.after(there, action)
        assert plain.ghost(here) == exact.ghost(there)
        assert [host.values for host in plain.hosts(here)] == [host.values for host in exact.hosts(there)]


def test_explored_fetch_at_the_log_end_waits_for_records() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds())

    state = state_after(
        model,
        model.initial(),
        Produce(node="b1"),
        Deliver(message="FetchReply", source="b1", to="b2"),
        Deliver(message="Fetch", source="b2", to="b1"),
    )

    assert model.state(state).network == ()
    assert model.ghost(state).partitions[0].committed == (("v1", 0),)


def test_explored_crash_drops_messages_to_the_broker() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds())
    state = model.after(model.initial(), Produce(node="b1"))

    network = model.state(state).network
    assert [flight.to for flight in network] == [1]
    assert model.state(model.after(state, Crash(node="b2"))).network == ()
    assert model.state(model.after(state, Crash(node="b1"))).network == network


def test_doubled_message_arrives_twice() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds(doubles=1))
    produced = model.after(model.initial(), Produce(node="b1"))
    doubles = [(action, after) for action, after in model.successors(produced) if isinstance(action, Double)]

    ((action, doubled),) = doubles
    arrived = state_after(model, doubled, Deliver(message="FetchReply", source="b1", to="b2"))

    assert action == Double(message="FetchReply", source="b1", to="b2")
    assert len(model.state(doubled).network) == 2
    assert model.spent(doubled).doubles == 1
    assert not [action for action, _ in model.successors(doubled) if isinstance(action, Double)]
    assert model.hosts(arrived)[1].values == (("v1",),)


def test_restarted_broker_waits_for_its_old_session() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds())
    back = state_after(model, model.initial(), Crash(node="b2"), Restart(node="b2"))

    assert model.standing(back).sessions == (1, 2, 4)  # 3 was the session of the administrator


def test_async_zk_writes_and_answers_are_separate_actions() -> None:
    """An ISR change: first ZooKeeper does not know it, then ZooKeeper knows it but the leader does not."""
    model = MachineWorld(VARIANTS["v3"], Bounds(zk_async=True))
    initial = model.initial()

    (timer_fired,) = (after for action, after in model.successors(initial) if getattr(action, "timer", "") == "isr")
    performed = model.after(timer_fired, ZkPerform(node="b1"))
    heard = model.after(performed, ZkHear(node="b1"))

    assert [model.standing(s).partitions[0].isr for s in (timer_fired, performed, heard)] == [(1, 2), (1,), (1,)]
    assert [model.hosts(s)[0].replicas[0].isr for s in (timer_fired, performed, heard)] == [(1, 2), (1, 2), (1,)]


def test_explored_controller_drops_a_silent_broker_from_the_isr() -> None:
    """KIP-343: a broker that the controller has not heard of leaves the ISR; its next heartbeat is not late for ever."""
    model = MachineWorld(VARIANTS["safe"], Bounds(kip343=True))
    initial = model.initial()
    silent = state_after(model, initial, Fire(node="b1", timer="silent:2"))
    beat = state_after(model, silent, Fire(node="b2", timer="heartbeat"))

    assert [model.standing(state).partitions[0].isr for state in (initial, silent)] == [(1, 2), (1,)]
    assert "MetadataHeartbeat" in [type(flight.message).__name__ for flight in model.state(beat).network]
    assert Fire(node="b2", timer="heartbeat") not in [action for action, _ in model.successors(beat)]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Deliver(message="Fetch", source="b2", to="b1"), "no Fetch number 0 from b2 to b1 is in flight"),
        (Restart(node="b1"), "b1 is up"),
        (Crash(node="b3"), "unknown broker b3; brokers are b1 to b2"),
        (Notice(node="b1"), "the session of b1 has not expired"),
        (ZkHear(node="b1"), "no event from ZooKeeper to b1 is in flight"),
    ],
)
def test_impossible_explorer_action_is_refused_with_a_reason(action: AnyAction, reason: str) -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds())

    with pytest.raises(Impossible, match=reason):
        model.after(model.initial(), action)


def test_expired_broker_reconnects_with_a_new_session() -> None:
    model = MachineWorld(VARIANTS["safe"], Bounds())
    initial = model.initial()
    expired = next(after for action, after in model.successors(initial) if repr(action) == "Expire(node='b2')")

    back = model.after(expired, Notice(node="b2"))

    assert model.standing(expired).partitions[0].isr == (1,)
    session = model.hosts(back)[1].session
    assert session in model.standing(back).sessions
    assert session != model.hosts(initial)[1].session
