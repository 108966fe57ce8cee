"""Administrators of Kafka: what the Java client is asked for, what its answers mean, and which plans cannot be performed."""

import asyncio
import sys

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.clients.administrators import Administrators
from highwater.backends.real.systems.registry import system_for
from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from highwater.rig.administration import AdminCommand, AlterConfig
from highwater.rig.attempts import Reply
from reference.client.commands import AllowReassignments, CancelReassignments, CreateTopic, DeleteTopic, Reassign
from reference.types import Address, BrokerId, TopicPartition
from tests.tidy.sources import ROOT
from workloads.parameters import Step

T0 = TopicPartition("t-0")
# Answers with the request itself as what was found, or with the error that the topic's name is.
PROGRAM = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    call = asked["call"] or {}
    heard = {"id": call.get("id", 0), "attempts": 1, "found": [asked["act"], json.dumps(call, sort_keys=True)]}
    if call.get("topic", "").isupper():
        heard["error"] = call["topic"]
    sys.stdout.write(json.dumps({"number": asked["number"], "heard": heard}) + "\\n")
    sys.stdout.flush()
"""


def told(command: AdminCommand, monkeypatch: pytest.MonkeyPatch) -> Reply:
    """What an administrator is told whose requests this program answers."""
    monkeypatch.setattr("highwater.backends.real.clients.java.command", lambda _: (sys.executable, "-c", PROGRAM))

    async def run() -> Reply:
        administrators = Administrators("4.1.0", settings={"new": {"min.insync.replicas": "2"}}, request_timeout_ms=50)
        administrator = administrators.administrator(Address("a1"), {Address("b1"): ("127.0.0.1", 9092)})
        await administrator.open()
        try:
            return await asyncio.wait_for(administrator.call(command), 20)
        finally:
            await administrator.close()

    return asyncio.run(run())


def test_topic_is_made_with_the_settings_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    act, call = told(CreateTopic(id=3, topic="new", assignment=((BrokerId(1), BrokerId(2)),)), monkeypatch).found

    assert act == "CreateTopic"
    assert (
        call == '{"assignment": [[1, 2]], "id": 3, "settings": {"min.insync.replicas": "2"}, "timeout_ms": 10000, "topic": "new"}'
    )


@pytest.mark.parametrize("extra", [False, True])
def test_both_ways_to_move_are_one_request(extra: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Reassign(id=3, tp=T0, replicas=(BrokerId(2), BrokerId(1)), extra=extra)

    assert told(command, monkeypatch).found == ("Reassign", '{"id": 3, "replicas": [2, 1], "timeout_ms": 10000, "tp": "t-0"}')


def test_change_of_settings_is_asked_for_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    command = AlterConfig(id=3, topic="t", settings={"min.insync.replicas": "1"})

    act, call = told(command, monkeypatch).found
    assert (act, '"settings": {"min.insync.replicas": "1"}' in call) == ("AlterConfig", True)


def test_moves_are_allowed_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancellation of Kafka's is over with its answer; KIP-236 lets it stand until it is taken back."""
    assert told(AllowReassignments(id=3), monkeypatch) == Reply(id=3, attempts=1)


def test_deletion_that_finds_no_topic_has_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(DeleteTopic(id=3, topic="UNKNOWN_TOPIC_OR_PARTITION"), monkeypatch).error is None


def test_refusal_may_be_about_the_request_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers hand a request on again when the controller is deposed: the topic that exists may be that of the first attempt."""
    reply = told(CreateTopic(id=3, topic="TOPIC_ALREADY_EXISTS", assignment=()), monkeypatch)

    assert (reply.error, reply.earlier) == ("TOPIC_ALREADY_EXISTS", ("_RETRIED",))


def moves(**changes: object) -> Plan:
    return replace(load_plan(ROOT / "corpus" / "real" / "moves.yaml"), **changes)


def refusal(plan: Plan, system: str) -> str | None:
    return system_for(replace(plan, system=parsed_system(system))).refuse()


def test_release_without_moves_by_request_is_refused() -> None:
    assert refusal(moves(), "kafka:2.0.1") == "kafka 2.0.1 has no requests that move partitions, which came with 2.4 (KIP-455)"


def test_release_whose_own_client_is_too_old_names_another() -> None:
    wanted = "kafka 2.4.1 is administered by a Java client of 2.5 or later: add --client java:3.9.1"

    assert refusal(moves(), "kafka:2.4.1") == wanted


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            Step(at_ms=0, do="depose-controller"),
            "kafka 4.1.0 cannot be asked to depose-controller; scripts",
        ),
        (
            Step(at_ms=0, do="remove-partition", topic="t", partition=2),
            "kafka 4.1.0 cannot be asked to remove-partition; scripts",
        ),
    ],
)
def test_request_that_kafka_lacks_is_refused(step: Step, words: str) -> None:
    assert (refusal(moves(script=(step,)), "kafka:4.1.0") or "").startswith(words)


def test_move_below_min_insync_replicas_is_refused() -> None:
    """Kafka moves there; of KIP-966's ELR, brokers may then be left that hold no replica, and nobody can lead."""
    step = Step(at_ms=0, do="reassign", topic="t", partition=0, replicas=((2,),))

    assert (refusal(moves(script=(step,)), "kafka:4.1.0") or "").startswith("kafka 4.1.0 would move t-0 to 1 replicas, which")


def test_audit_is_refused_on_kafka() -> None:
    wanted = "kafka 4.1.0 cannot perform an audit, which deposes controllers: no request of Kafka's does that"

    assert refusal(moves(audit_ms=1000), "kafka:4.1.0") == wanted


def test_change_of_settings_is_refused_on_the_reference() -> None:
    step = Step(at_ms=0, do="alter-config", topic="t", settings={"min.insync.replicas": 1})

    assert "alter-config needs another system" in (SimBackend().refuse(moves(script=(step,), system=UNSET)) or "")


def test_cancellation_names_what_it_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(CancelReassignments(id=3), monkeypatch).found[0] == "CancelReassignments"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"retention.ms": 1000}, "kafka 4.1.0 would be told retention.ms of t, by which it may delete records"),
        ({"min.insync.replicas": 4}, "kafka 4.1.0 would be told min.insync.replicas=4 of t, which has 3 replicas"),
    ],
)
def test_setting_that_takes_the_promise_away_is_refused(settings: dict[str, str | int | bool], words: str) -> None:
    step = Step(at_ms=1000, do="alter-config", topic="t", settings=settings)

    assert (refusal(moves(script=(step,)), "kafka:4.1.0") or "").startswith(words)


def test_move_below_a_raised_min_insync_replicas_is_refused() -> None:
    raises = Step(at_ms=1000, do="alter-config", topic="t", settings={"min.insync.replicas": 3})
    step = Step(at_ms=2000, do="reassign-request", topic="t", replicas=((1, 2),))

    assert "fewer than min.insync.replicas, 3" in (refusal(moves(script=(raises, step)), "kafka:4.1.0") or "")
