"""The digest tells whether two runs were the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from history import jsonl
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from tests.strategies import MANIFEST, histories

ROOT = Path(__file__).parents[2]
HISTORY = History(
    MANIFEST,
    operations=[Operation(index=0, process=1, type=OpType.INVOKE, f="poll", time_ns=1)],
    events=[ClusterEvent(index=1, kind=EventKind.WOUND, time_ns=2, node="b1", partition=0, offset=7)],
)


@pytest.mark.slow
@given(histories(), histories())
def test_history_digests_are_equal_exactly_if_the_rows_are(one: History, other: History) -> None:
    same = (one.operations, one.events) == (other.operations, other.events)

    assert (one.digest == other.digest) == same


@given(histories())
def test_manifest_is_not_part_of_the_history_digest(history: History) -> None:
    """Two runs of one seed differ in their wall time."""
    later = replace(history.manifest, wall_seconds=1.5, commit="f" * 40)

    assert History(later, operations=history.operations, events=history.events).digest == history.digest


@pytest.mark.slow
@given(histories())
def test_history_digest_is_the_same_for_rows_and_columns(history: History) -> None:
    read = History.from_tables(history.manifest, operations=history.operations_table, events=history.events_table)

    assert read.digest == history.digest


@pytest.mark.slow
def test_history_digest_is_equal_in_every_process(tmp_path: Path) -> None:
    """The corpus holds digests: a change of the canonical bytes must be a decision."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl.encode(HISTORY))
    script = f"from pathlib import Path; from history import jsonl; print(jsonl.read(Path({str(path)!r})).digest)"
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]

    assert [*digests, HISTORY.digest] == ["c796b039df92ab4a427c427ede546507"] * 3
