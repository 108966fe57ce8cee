"""What storms do is what was accepted: evidence of every clause at once, beside the tests that each cites.

`python -m tests.reference.transcripts --accept` accepts a change that is meant; `--show PROTOCOL SEED --against HEAD` tells it.
"""

import os
import subprocess
import sys
from typing import get_args

import pytest

from reference.messages import AnyMessage
from reference.messages import LeaderAndIsr as Command
from server.wire import control
from tests.reference import transcripts
from tests.reference.lab import Envelope
from tests.reference.transcripts import (
    ALL,
    FAMILIES,
    LINES_MAX,
    Cell,
    Digests,
    Run,
    differences,
    digests_of,
    stored,
    tables_in,
    text_of,
)
from tests.reference.wired import WiredCluster

SHORT = ("--exact", "--show", "safe", "0")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_storms_do_what_was_accepted(family: str) -> None:
    """A change of any step, field, write, timer or answer in any storm must be seen and meant."""
    now = {run: digests_of(run) for run in FAMILIES[family]}

    assert differences(stored(), now) == []


def test_file_has_each_storm_and_no_other() -> None:
    assert set(stored()) == {run for runs in FAMILIES.values() for run in runs}


def test_file_is_read_as_it_was_written() -> None:
    assert tables_in(text_of(stored())) == stored()


def test_each_kind_of_message_is_sent_in_some_storm() -> None:
    """A layout that no storm encodes, or an answer that none gives, would be evidence of nothing."""
    sent = {kind.split()[0] for cells in stored().values() for kind in cells if kind.endswith(" sent")}

    assert sorted({kind.__name__ for kind in get_args(AnyMessage)} - sent) == []


def test_messages_of_storms_are_read_as_they_were_sent() -> None:
    """Decoded and encoded again, a message has the same bytes; in the newest layouts it is the same message."""
    assert [(run, kind) for run, cells in stored().items() for kind in cells if "otherwise" in kind] == []


@pytest.mark.slow
def test_another_layout_changes_transcripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port of a broker's address is another number, though the bytes are read as they were sent."""
    monkeypatch.setattr(control, "_PLAINTEXT", ("PLAINTEXT", 1))
    run = Run("safe", 0, "kip112")

    assert {kind for kind in _changed(run) if "Metadata" in kind} == {"UpdateMetadata sent"}


@pytest.mark.slow
def test_message_lost_on_the_wire_changes_transcripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender does the same at first, so a transcript must also tell what comes of it."""
    hand_over = WiredCluster._hand_over

    def lose(lab: WiredCluster, envelope: Envelope) -> None:
        if not isinstance(envelope.message, Command) or envelope.receiver != "b9":
            hand_over(lab, envelope)

    monkeypatch.setattr(WiredCluster, "_hand_over", lose)

    assert ALL in _changed(Run("safe", 0))


def _changed(run: Run) -> set[str]:
    """The kinds of a storm that differ from the file."""
    before, now = stored()[run], digests_of(run)
    return {kind for kind in before.keys() | now.keys() if before.get(kind) != now.get(kind)}


@pytest.mark.slow
def test_transcript_is_the_same_under_any_hash_seed() -> None:
    """An order of a set in a transcript would make each process another one."""
    first, second = (_lines_under(seed) for seed in ("1", "2"))

    assert len(first) > transcripts.STEPS
    assert first == second


def _lines_under(hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "tests.reference.transcripts", *SHORT]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_difference_names_kind_storms_and_counts() -> None:
    safe, v3 = Run("safe", 0), Run("v3", 2)
    before = {safe: {"Fetch sent": Cell(3, "aa"), "notes": Cell(1, "cc")}, v3: {"Fetch sent": Cell(4, "bb")}}
    now = {safe: {"Fetch sent": Cell(3, "ab"), "notes": Cell(1, "cc")}, v3: {"Fetch sent": Cell(5, "bb"), "notes": Cell(2, "dd")}}

    assert differences(before, now) == [
        "Fetch sent: 2 of 2 storms differ (first: safe 0: 3 before, 3 now)",
        "notes: 1 of 2 storms differ (first: v3 2: 0 before, 2 now)",
    ]


def test_difference_of_many_kinds_is_cut() -> None:
    now = {Run("safe", 0): {f"kind {n}": Cell(1, "aa") for n in range(100)}}

    lines = differences({}, now)
    assert len(lines) == LINES_MAX
    assert lines[-1] == f"and {100 - LINES_MAX + 1} other kinds"


def test_digests_tell_the_order_of_different_kinds() -> None:
    """Each kind has the same data in the same order; only everything together differs."""
    one, other = Digests(), Digests()
    for digests, whos in ((one, ("a", "b")), (other, ("b", "a"))):
        for who in whos:
            digests(who, f"kind {who}", 1)

    assert one.cells.items() ^ other.cells.items() == {(ALL, one.cells[ALL]), (ALL, other.cells[ALL])}
