"""Signals to a command: each ends it as Ctrl-C does and leaves no process."""

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
    """Reset SIGINT and SIGHUP, which a background job or `nohup` may ignore; children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def command(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`highwater ...` in its own process group, as a shell starts it; the group is killed at the end."""
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
    """The running child processes of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_children(process: subprocess.Popen[str], count: int) -> list[int]:
    deadline = time.monotonic() + ENDS_S
    while len(found := children(process.pid)) < count:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    return found


def let_it_simulate(process: subprocess.Popen[str]) -> None:
    """Wait until the process has used one CPU second after printing its first line."""
    assert process.stdout is not None
    assert process.stdout.readline()
    enough_s = cpu_seconds(process) + 1
    deadline = time.monotonic() + ENDS_S
    while cpu_seconds(process) < enough_s:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """CPU seconds of the process without its children."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def remaining(pids: list[int]) -> list[str]:
    """The processes that still run after ENDS_S seconds: id, name, state and parent of each.

    An ended process whose new parent has not read its exit code, a zombie, does not run.
    """
    deadline = time.monotonic() + ENDS_S
    while alive := [found for pid in pids if (found := _process(pid)) and ") Z " not in found]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return alive


def _process(pid: int) -> str:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        return f"{name}) {' '.join(rest.split()[:2])}"
    except (FileNotFoundError, ProcessLookupError):
        return ""


CAMPAIGN = ("campaign", "--seeds", "0..300", "--jobs", "2", "--seconds", "20")
WITH_WORKERS = 3  # two workers and Python's resource tracker


def test_sigterm_ends_a_campaign_with_pages_and_no_process(tmp_path: Path) -> None:
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        process.send_signal(signal.SIGTERM)
        printed, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert "stopped interrupted" in printed
    assert len(list((tmp_path / "store").rglob("index.html"))) == 1
    (runs,) = (tmp_path / "store").rglob("runs.jsonl")
    assert len(runs.read_text().splitlines()) == len(list(runs.parent.glob("ledger/*.json")))
    assert not list((tmp_path / "store").rglob(".aside"))
    assert remaining(family) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_group_signal_while_workers_start_prints_no_traceback(number: signal.Signals, tmp_path: Path) -> None:
    """Workers import for a second before they run any of this code."""
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        os.killpg(process.pid, number)
        _, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert remaining(family) == []


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    with command(*CAMPAIGN, folder=tmp_path) as process:
        family = wait_for_children(process, WITH_WORKERS)
        process.kill()

        assert remaining(family) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_run_and_keeps_its_history(number: signal.Signals, tmp_path: Path) -> None:
    with command("run", "--seed", "2", "--seconds", "4000", folder=tmp_path) as process:
        let_it_simulate(process)
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=ENDS_S)

    assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "")
    assert printed.startswith("UNKNOWN")
    (run,) = store.find_runs(tmp_path)
    history = store.load_run(run)
    assert history.manifest.outcome == "interrupted"
    assert history.operations


def test_interrupt_ends_a_campaign_of_one_job(tmp_path: Path) -> None:
    with command("campaign", "--seeds", "0..300", "--jobs", "1", "--seconds", "4000", folder=tmp_path) as process:
        let_it_simulate(process)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=ENDS_S)

    assert process.returncode == ExitCode.UNKNOWN
    assert "stopped interrupted" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_during_imports_prints_one_line(number: signal.Signals, tmp_path: Path) -> None:
    with command("protocols", folder=tmp_path) as process:
        wait_until_it_catches(process, signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=ENDS_S)

    if printed:  # a fast machine finished earlier
        assert process.returncode == ExitCode.VALID
    else:
        assert (process.returncode, complaints) == (ExitCode.UNKNOWN, "highwater: interrupted\n")


@pytest.mark.parametrize("caught", [False, True], ids=["by nobody", "by the command"])
def test_interrupt_during_dataclass_creation_prints_one_line(caught: bool, tmp_path: Path) -> None:
    """As when a dataclass is created during the imports: CPython sets a flag, and `python -m` would end by SIGINT."""
    replaced = "line.build" if caught else "line.run_command_line"
    (tmp_path / "interrupted.py").write_text(
        "import highwater.cli.main as line\n"
        "from highwater.__main__ import main\n"
        f"{replaced} = lambda words: exec('raise KeyboardInterrupt')\n"
        "main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENDS_S, check=False)

    assert (ended.returncode, ended.stderr) == (ExitCode.UNKNOWN, "highwater: interrupted\n")


def wait_until_it_catches(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Wait until the interpreter has started; earlier no Python code can handle a signal."""
    deadline = time.monotonic() + ENDS_S
    while True:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        (caught,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        if caught >> (number - 1) & 1:
            return
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_exit_code_of_an_early_interrupt_is_unknown() -> None:
    assert entry._UNKNOWN == ExitCode.UNKNOWN
