"""A wrong wall clock is set through libfaketime's file and measured from the clocks in the node's notes."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.node.clocks import FakeClock, library, remove_faketime_memory
from highwater.backends.real.site import RIGHT, ClockCondition, Proof
from reference.effects import Note
from server.lab.notes import NoteLine

_PRINT = "import time; print(time.time_ns(), time.monotonic_ns())"
_PRINT_AGAIN = "import time\nwhile input() != 'end': print(time.time_ns(), flush=True)"


def says(file: Path) -> float:
    """The offset in the file, in seconds."""
    return float(file.read_text())


def line(*, off_ms: float) -> NoteLine:
    """A note written now by a node whose wall clock is off by `off_ms`."""
    wall_ns = time.time_ns() + int(off_ms * 1e6)
    return NoteLine(node="b1", life=1, time_ns=time.monotonic_ns(), wall_ns=wall_ns, note=Note(kind="hw"))


def measured(clock: FakeClock, condition: ClockCondition, *, off_ms: float, after_s: float = 0.01) -> Proof:
    """What a probe finds if the node writes a note `after_s` after the clock was set."""
    notes: list[NoteLine] = []

    async def scene() -> Proof:
        probe = clock.set(condition, lambda: notes)
        asyncio.get_running_loop().call_later(after_s, lambda: notes.append(line(off_ms=off_ms)))
        try:
            return await probe()
        finally:
            clock.close()

    return asyncio.run(scene())


def drifting(tmp_path: Path, condition: ClockCondition, *, off_ms: float) -> Proof:
    """What a probe finds if the node writes a note 0.2 s after the drift was set."""
    return measured(FakeClock(tmp_path / "clock"), condition, off_ms=off_ms, after_s=0.2)


def test_clock_offset_is_proven_by_times_in_broker_reports(tmp_path: Path) -> None:
    clock = FakeClock(tmp_path / "clock")

    proof = measured(clock, ClockCondition(offset_ms=-7_200_000), off_ms=-7_200_000)

    assert says(tmp_path / "clock") == -7200
    assert proof.holds
    assert proof.detail.startswith("its wall clock is off by -7200000")


def test_clock_drift_grows_over_time(tmp_path: Path) -> None:
    async def scene() -> list[float]:
        clock = FakeClock(tmp_path / "clock")
        clock.set(ClockCondition(drift_ppm=500_000), list)
        found = []
        for _ in range(3):
            await asyncio.sleep(0.05)
            found.append(says(tmp_path / "clock"))
        clock.close()
        return found

    found = asyncio.run(scene())

    assert 0 < found[0] < found[1] < found[2] < 5


@pytest.mark.slow
def test_clock_drift_proof_may_use_an_offset_written_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy harness writes the next step late, so a clock that runs 30 % fast never shows the current offset."""
    monkeypatch.setattr("highwater.backends.real.node.clocks.NOTED_S_MAX", 0.5)
    monkeypatch.setattr("highwater.backends.real.node.clocks.LATE_NS", 100_000_000)
    fast = ClockCondition(drift_ppm=300_000)

    assert drifting(tmp_path, fast, off_ms=30).holds
    assert drifting(tmp_path, fast, off_ms=0.1).holds is False  # two readings may differ by that
    assert drifting(tmp_path, fast, off_ms=-30).holds is False
    assert drifting(tmp_path, fast, off_ms=300).holds is False  # more than the drift so far


def test_clock_offset_without_effect_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.node.clocks.NOTED_S_MAX", 0.1)

    proof = measured(FakeClock(tmp_path / "clock"), ClockCondition(offset_ms=5000), off_ms=0)

    assert proof.holds is False


def test_clock_that_is_wrong_after_healing_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.node.clocks.HEALED_S_MAX", 0.1)

    assert measured(FakeClock(tmp_path / "clock"), RIGHT, off_ms=5000).holds is False
    assert measured(FakeClock(tmp_path / "clock"), RIGHT, off_ms=0).holds is True


def test_clock_of_a_broker_without_reports_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node may be down; that is neither an effect nor a failure to heal."""
    monkeypatch.setattr("highwater.backends.real.node.clocks.HEALED_S_MAX", 0.05)

    async def scene() -> Proof:
        return await FakeClock(tmp_path / "clock").set(RIGHT, list)()

    assert asyncio.run(scene()) == Proof(None, "the node wrote no note")


def test_report_from_before_the_clock_change_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.node.clocks.HEALED_S_MAX", 0.1)
    old = replace(line(off_ms=5000), time_ns=time.monotonic_ns() - 10**9)
    notes: list[NoteLine] = []

    async def scene() -> Proof:
        probe = FakeClock(tmp_path / "clock").set(RIGHT, lambda: notes)
        asyncio.get_running_loop().call_later(0.01, notes.append, old)
        return await probe()

    assert asyncio.run(scene()) == Proof(None, "the node wrote no note")


def test_process_has_wrong_wall_and_right_monotonic_clock(tmp_path: Path) -> None:
    path = library()
    if path is None:
        pytest.skip("libfaketime is not installed")
    clock = FakeClock(tmp_path / "clock")
    (tmp_path / "clock").write_text("+3600.0\n")
    before_ns = time.monotonic_ns()

    process = subprocess.Popen(
        [sys.executable, "-c", _PRINT], env={**os.environ, **clock.environment(path)}, stdout=subprocess.PIPE
    )
    printed, _ = process.communicate(timeout=20)
    remove_faketime_memory(process.pid)

    wall_ns, monotonic_ns = map(int, printed.split())
    assert abs(wall_ns - time.time_ns() - 3600 * 10**9) < 10 * 10**9
    assert before_ns < monotonic_ns < time.monotonic_ns()


def test_process_sees_every_jump_of_its_clock_at_once(tmp_path: Path) -> None:
    """A clock that jumps off and back every 20 ms was read by libfaketime once a second, and hardly jumped."""
    path = library()
    if path is None:
        pytest.skip("libfaketime is not installed")
    clock = FakeClock(tmp_path / "clock")
    process = subprocess.Popen(
        [sys.executable, "-c", _PRINT_AGAIN],
        env={**os.environ, **clock.environment(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seen = []
    for offset_ms in (3_600_000, 0) * 5:
        clock.set(ClockCondition(offset_ms=offset_ms), list)
        print("look", file=process.stdin, flush=True)
        seen.append(round((int(process.stdout.readline()) - time.time_ns()) / 3.6e12))
    process.communicate("end\n", timeout=20)
    remove_faketime_memory(process.pid)

    assert seen == [1, 0] * 5
