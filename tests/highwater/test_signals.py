"""Signals to a whole command: each ends it as Ctrl-C does, and nothing of it goes on living."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from highwater import __main__ as entry
from highwater.exit_codes import ExitCode
from history import store

ENDS_S = 15

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc"),
]


def _hear_signals() -> None:
    """A shell's background job may have been started with SIGINT ignored, and `nohup` with SIGHUP; that is inherited."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def command(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`highwater ...` in a group of its own, as a shell would start it; all of it is gone afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-m", "highwater", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_signals,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def children(pid: int) -> list[int]:
    """Of one process, those alive."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_children(process: subprocess.Popen[str], count: int) -> list[int]:
    deadline = time.monotonic() + ENDS_S
    while len(found := children(process.pid)) < count:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    return found


def let_it_simulate(process: subprocess.Popen[str]) -> None:
    """Until it has worked for a second after its headline, however busy this machine is."""
    assert process.stdout is not None
    assert process.stdout.readline()
    enough_s = cpu_seconds(process) + 1
    deadline = time.monotonic() + ENDS_S
    while cpu_seconds(process) < enough_s:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Of the process itself, without its children."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def remaining(pids: list[int]) -> list[int]:
    """Those that are still alive when they have had time to end."""
    deadline = time.monotonic() + ENDS_S
    while alive := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return alive


CAMPAIGN = ("campaign", "--seeds", "0..300", "--jobs", "2", "--seconds", "20")
WITH_WORKERS = 3  # two workers, and Python's own tracker of what they share


def test_sigterm_ends_a_campaign_with_its_pages_and_no_process_left(tmp_path: Path) -> None:
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        process.send_signal(signal.SIGTERM)
        printed, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert "stopped interrupted" in printed
    assert len(list((tmp_path / "store").rglob("index.html"))) == 1
    assert remaining(family) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_while_workers_start_is_no_traceback(number: signal.Signals, tmp_path: Path) -> None:
    """Workers import for a second before any line of ours runs in them."""
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        os.killpg(process.pid, number)
        _, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert remaining(family) == []


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        process.kill()

        assert remaining(family) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_keeps_what_it_recorded(number: signal.Signals, tmp_path: Path) -> None:
    with command("run", "--seed", "1", "--seconds", "4000", folder=tmp_path) as process:
        let_it_simulate(process)
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert printed.startswith("UNKNOWN")
    (run,) = store.find_runs(tmp_path)
    history = store.load_run(run)
    assert history.manifest.outcome == "interrupted"
    assert history.operations


def test_an_interrupt_stops_a_campaign_of_one_job_and_not_its_run_alone(tmp_path: Path) -> None:
    with command("campaign", "--seeds", "0..300", "--jobs", "1", "--seconds", "4000", folder=tmp_path) as process:
        let_it_simulate(process)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=ENDS_S)

    assert process.returncode == ExitCode.UNKNOWN
    assert "stopped interrupted" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_the_imports_is_one_line(number: signal.Signals, tmp_path: Path) -> None:
    with command("protocols", folder=tmp_path) as process:
        wait_until_it_catches(process, signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=ENDS_S)

    if printed:  # a fast machine was done before
        assert process.returncode == ExitCode.VALID
    else:
        assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "highwater: interrupted\n")


def test_an_interrupt_inside_an_exec_is_one_line_too(tmp_path: Path) -> None:
    """Where a dataclass is made during the imports: CPython remembers it, and `python -m` would end by SIGINT."""
    (tmp_path / "interrupted.py").write_text(
        "import highwater.cli.main as line\n"
        "from highwater.__main__ import main\n"
        "line.run_command_line = lambda words: exec('raise KeyboardInterrupt')\n"
        "main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_S, check=False)

    assert (ended.returncode, ended.stderr) == (ExitCode.UNKNOWN, "highwater: interrupted\n")


def wait_until_it_catches(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Until the interpreter itself has started; before that, no program has a say."""
    deadline = time.monotonic() + ENDS_S
    while True:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        (caught,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        if caught >> (number - 1) & 1:
            return
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_code_of_an_early_interrupt_is_that_of_every_other() -> None:
    assert entry._UNKNOWN == ExitCode.UNKNOWN
