"""The machines against the abstract model: steps that its actions explain, and the first step of a bad protocol."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.kafka_replication import KafkaReplication, Situation
from highwater.explore.abstract.pictures import Picture, ReplicaPicture, Unexplained, explain
from highwater.explore.abstract.rules import VARIANTS, Rules, Sizes
from highwater.explore.machine_world import MachineWorld
from highwater.explore.refinement import Refined, Refinement
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget
from highwater.explore.transition import Key
from reference.config import VARIANTS as PROTOCOLS

# What the model's actions are called by `explain`.
WORDS = {
    "elects": {"elect"},
    "the controller removes": {"controller removes", "ISR kept"},
    "becomes leader": {"become leader"},
    "follows": {"follow", "reply in flight"},
    "writes": {"write"},
    "raises": {"raise HW"},
    "removes": {"leader removes"},
    "adds": {"leader adds"},
    "fetches": {"fetch"},
    "truncates": {"truncate late"},
}


def pictured(situation: Situation) -> Picture:
    leader = situation.requests[-1][0] if situation.requests else None
    return Picture(
        replicas=tuple(
            ReplicaPicture(
                up=True,
                log=tuple((str(record), epoch) for record, epoch in replica.log),
                hw=replica.hw,
                epoch=replica.epoch,
                leader=replica.leader,
                isr=replica.isr if replica.leader == index else frozenset(),
            )
            for index, replica in enumerate(situation.replicas)
        ),
        leader=leader,
        epoch=len(situation.requests) - 1,
        isr=situation.isr,
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_step_of_a_model_is_explained_by_its_action(variant: str) -> None:
    """The model as arrays and the guards of `explain` are written twice; neither may know an action that the other does not."""
    model = KafkaReplication(VARIANTS[variant], Sizes(replicas=2, log_size=2, max_records=2, max_epoch=1))
    level = [model.initial()]
    seen = {model.initial()}

    while level:
        following = []
        for key in level:
            before = pictured(model.situation(key))
            for batch in model.successors(np.array([key])):
                after = int(batch.keys[0]) if batch.keys.size else key
                expected = next(words for start, words in WORDS.items() if start in batch.action)
                explained = set(explain(VARIANTS[variant], before, pictured(model.situation(after))))
                assert explained <= expected, batch.action
                if after not in seen:
                    seen.add(after)
                    following.append(after)
        level = following


def refined(protocol: str, rules: Rules, bounds: Bounds, *, depth: int | None = None) -> Refined:
    model = MachineWorld(replace(PROTOCOLS[protocol], unclean_election=False), bounds)
    return Refinement(model, rules, lambda: 0.0).run(Budget(depth=depth))


@pytest.mark.slow
def test_every_step_of_safe_is_one_of_kip320() -> None:
    result = refined("safe", VARIANTS["kip320"], Bounds(records=1, max_epochs=2, crashes=1, expiries=0))

    assert (result.end, result.states, result.transitions, result.depth) == ("exhausted", 5888, 14584, 20)
    assert {"elect", "become leader", "follow", "write", "fetch", "raise HW", "leader adds", "crash"} <= set(result.explained)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "wrong"),
    [
        ("v3", "b1 added b2 to the ISR, which lacks records below offset 1"),
        ("truncate-to-hw", "b2 truncated its log while it followed b1"),
        ("truncate-on-fetch", "b1 truncated its log from 1 to 1 and not to 0 to follow b2 in epoch 1"),
        ("no-fetch-fencing", "b2 fetched a record of epoch 1 in epoch 0"),
    ],
)
def test_bad_protocol_takes_a_step_that_kip320_has_not(protocol: str, wrong: str) -> None:
    result = refined(protocol, VARIANTS["kip320"], Bounds(records=1, max_epochs=2))

    assert (result.end, result.wrong) == ("left", wrong)


ASYNC = Bounds(records=1, max_epochs=1, crashes=1, expiries=0, zk_async=True)


@pytest.mark.slow
def test_isr_write_of_a_crashed_leader_is_explained() -> None:
    result = refined("safe", VARIANTS["kip320"], ASYNC, depth=10)

    assert (result.end, result.wrong, result.stopped_by) == ("budget", "", "depth 10")
    assert "ISR change in flight" in result.explained


@pytest.mark.slow
def test_isr_write_without_the_last_record_leaves_the_model() -> None:
    """The HW rises over the current ISR, although a new member is on its way (KIP-497)."""
    result = refined("isr-current", VARIANTS["kip320"], replace(ASYNC, records=2))

    assert result.end == "left"
    assert result.wrong == "b1 added b2 to the ISR, which lacks records below offset 2"


def test_leader_outside_the_isr_is_unexplained() -> None:
    replica = ReplicaPicture(up=True, log=(), hw=0, epoch=0, leader=None)
    before = Picture(replicas=(replica, replica), leader=0, epoch=0, isr=frozenset({0}))

    with pytest.raises(Unexplained, match="the controller elected b2, which is not in the ISR"):
        explain(VARIANTS["kip320"], before, msgspec.structs.replace(before, leader=1, epoch=1))


def test_refinement_names_the_step_that_leaves_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "refine", "kip320", "--protocol", "no-fetch-fencing"]) == ExitCode.INVALID

    printed = capsys.readouterr().out
    assert "INVALID: step 4 is no step of kip320: b2 fetched a record of epoch 1 in epoch 0" in printed
    assert "repeat  highwater explore refine kip320 --protocol no-fetch-fencing" in printed


def test_refinement_out_of_budget_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "refine", "kip320", "--max-depth", "3", "--json"]) == ExitCode.UNKNOWN

    result = msgspec.json.decode(capsys.readouterr().out)
    assert (result["verdict"], result["stopped_by"], result["refines"]) == ("UNKNOWN", "depth 3", "kip320")


def test_refinement_of_an_unknown_variant_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "refine", "kip1"]) == ExitCode.USAGE

    assert "unknown variant 'kip1' of kafka-replication; known: truncate-to-hw, " in capsys.readouterr().err


def test_interrupted_refinement_is_unknown_with_its_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expand, expanded = Refinement._expand, []

    def interrupted(self: Refinement, state: Key, following: list[Key]) -> Refined | None:
        expanded.append(state)
        if len(expanded) > 10:
            raise KeyboardInterrupt
        return expand(self, state, following)

    monkeypatch.setattr(Refinement, "_expand", interrupted)

    assert run_command_line(["explore", "refine", "kip320"]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "UNKNOWN: every step so far is one of kip320, stopped at an interrupt: no proof" in printed
    assert "repeat  highwater explore refine kip320 --protocol safe" in printed
