"""A simulated run depends on its seed only: in another process, under another PYTHONHASHSEED, after storing and replaying.

Repeating failures, shrinking plans and the corpus rely on this.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from highwater.plans.derive import derive
from highwater.plans.plan import Plan, plan_digest
from highwater.plans.text import plan_from_yaml, plan_to_yaml
from highwater.rig.backend import Provenance
from highwater.runs.run import backend_named
from highwater.runs.summary import Summary

SECONDS = "4"


def _digest(plan: Plan) -> str:
    run = backend_named("sim").perform(plan, Provenance(run_id="test", plan_digest=plan_digest(plan)))
    return run.history.digest


def _highwater(arguments: Sequence[str], *, hash_seed: str) -> Summary:
    command = [sys.executable, "-m", "highwater", *arguments, "--json"]
    completed = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=False
    )
    assert completed.stdout, completed.stderr
    return msgspec.json.decode(completed.stdout, type=Summary)


@pytest.fixture(scope="module")
def summary_of_seed_1(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """The summary of seed 1, performed and stored."""
    store = str(tmp_path_factory.mktemp("store"))
    return _highwater(["run", "--seed", "1", "--seconds", SECONDS, "--store", store, "--no-report"], hash_seed="1")


@pytest.mark.slow
def test_another_pythonhashseed_gives_the_same_digest(summary_of_seed_1: Summary) -> None:
    second_run = _highwater(["run", "--seed", "1", "--seconds", SECONDS, "--no-store"], hash_seed="77")

    assert (summary_of_seed_1.digest, summary_of_seed_1.verdict, summary_of_seed_1.ops, summary_of_seed_1.events) == (
        second_run.digest,
        second_run.verdict,
        second_run.ops,
        second_run.events,
    )


@pytest.mark.slow
def test_replay_of_a_stored_run_gives_the_same_digest(summary_of_seed_1: Summary) -> None:
    assert summary_of_seed_1.store is not None

    assert _highwater(["replay", summary_of_seed_1.store], hash_seed="3").digest == summary_of_seed_1.digest


@pytest.mark.slow
def test_replay_with_another_digest_exits_14(summary_of_seed_1: Summary, tmp_path: Path) -> None:
    assert summary_of_seed_1.store is not None
    for name in ("manifest.json", "plan.yaml"):
        text = (Path(summary_of_seed_1.store) / name).read_text()
        (tmp_path / name).write_text(text.replace(summary_of_seed_1.digest, "0" * len(summary_of_seed_1.digest)))

    completed = subprocess.run(
        [sys.executable, "-m", "highwater", "replay", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert completed.returncode == 14
    assert "highwater replay" in completed.stderr


def test_another_seed_gives_another_history() -> None:
    assert _digest(derive(1, seconds=2)) != _digest(derive(2, seconds=2))


@pytest.mark.slow
def test_plan_runs_without_its_seed_and_from_its_text() -> None:
    plan = derive(5, seconds=2)

    assert _digest(plan_from_yaml(plan_to_yaml(plan))) == _digest(plan)
    assert _digest(msgspec.structs.replace(plan, seed=None)) == _digest(plan)


def test_another_random_number_in_the_plan_changes_history() -> None:
    plan = derive(5, seconds=2)

    assert _digest(msgspec.structs.replace(plan, draws=plan.draws + 1)) != _digest(plan)
