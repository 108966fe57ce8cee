"""Kill workers, executors and the driver of a campaign on Spark, resume it, and compare it with a campaign on local processes.

    python -m bench.kills --seeds 2000 [--protocol safe,v3] [--seconds S] [--rounds 2] [--folder DIR]

A standalone cluster of two executors performs the campaign. When a share of the runs has a row in the ledger, a Python worker is
killed -9, then an executor, then the driver, which is started again with --resume, all this `--rounds` times. Exit 1 unless the
runs are complete, each once, and equal to those of the local campaign: the summaries without their wall seconds, and the bytes of
the stored histories.

With --folder, a campaign that an ended bench left there is resumed: DIR/killed is killed only at the shares that it has not
reached, and DIR/local may be performed beside the bench (`highwater campaign … --store DIR/local`).
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.cost import Cost, cost_of
from bench.local_spark import CONF, LocalSpark, local_spark
from highwater.campaigns.folder import LEDGER
from highwater.campaigns.pages import RUNS
from highwater.cli.output import say
from highwater.errors import HarnessError
from highwater.exit_codes import ExitCode
from highwater.runs.summary import Summary
from history.store import EVENTS, OPERATIONS
from pipeline.blocks import Blocks
from pipeline.storage import storage_at

_HIGHWATER = (sys.executable, "-m", "highwater")
_LOOK_S = 0.2
_STUCK_S = 900  # without a new row


class _Campaign:
    """A campaign that runs in a process of its own."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._command = [*_HIGHWATER, "campaign", *options, "--store", str(folder)]
        self._folder = folder
        self.driver = self._started_process(*_resumed(folder))

    def resume(self) -> None:
        """Start the driver again."""
        self.driver.wait()
        self.driver = self._started_process("--resume")

    def rows(self) -> int:
        """The finished runs: those with a row of their own, and those of whole blocks."""
        alone = sum(1 for _ in self._folder.glob(f"campaigns/*/{LEDGER}/*.json"))
        ledgers = [Blocks(storage_at(ledger)) for ledger in self._folder.glob(f"campaigns/*/{LEDGER}")]
        return alone + sum(blocks.header(block).rows for blocks in ledgers for block in blocks.finished())

    def wait_for(self, rows: int) -> bool:
        """Wait until so many runs have a row; False if the driver ends before. HarnessError if no row appears for long."""
        last, since = self.rows(), time.monotonic()
        while last < rows and self.driver.poll() is None:
            time.sleep(_LOOK_S)
            if (now := self.rows()) > last:
                last = now
                since = time.monotonic()
            if time.monotonic() > since + _STUCK_S:
                raise HarnessError(f"no new run for {_STUCK_S} s; {last} of {rows} have a row")
        return last >= rows

    def _started_process(self, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._command, *more], stdout=subprocess.DEVNULL, start_new_session=True)


def kill_all_kinds(campaign: _Campaign, cluster: LocalSpark, *, wanted: int, rounds: int) -> list[str]:
    """Kill a worker, an executor and the driver in turn, at equal shares of the runs; say what was killed and when."""
    kinds: tuple[tuple[str, Callable[[], list[int]]], ...] = (
        ("Python worker", cluster.python_workers),
        ("executor", cluster.executors),
        ("driver", lambda: [campaign.driver.pid]),
    )
    report = []
    begun_with = campaign.rows()
    for number in range(rounds * len(kinds)):
        name, find = kinds[number % len(kinds)]
        share = (number + 1) * wanted // (rounds * len(kinds) + 1)
        if share <= begun_with:
            continue
        if not campaign.wait_for(share):
            report.append(f"the campaign ended before a {name} was killed")
            break
        pid = _one_of(find)
        os.kill(pid, signal.SIGKILL)
        report.append(f"killed {name} {pid} after {campaign.rows()} runs")
        say(f"  {report[-1]}")
        if name == "driver":
            campaign.resume()
    return report


def _resumed(store: Path) -> tuple[str, ...]:
    """The option that goes on with the campaign in a store, if there is one."""
    return ("--resume",) if any(store.glob("campaigns/*")) else ()


def _one_of(find: Callable[[], list[int]]) -> int:
    """A process to kill; it may be starting. Raises HarnessError if there is none for a minute."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        with suppress(OSError):
            if differences := find():
                return differences[-1]
        time.sleep(_LOOK_S)
    raise HarnessError("no process to kill")


def summaries(store: Path) -> Iterator[Summary]:
    """The runs of the only campaign in a store."""
    (path,) = store.glob(f"campaigns/*/{RUNS}")
    with path.open("rb") as lines:
        for line in lines:
            yield msgspec.structs.replace(msgspec.json.decode(line, type=Summary), wall_seconds=0.0, cpu_seconds=0.0)


def digest_of_runs(store: Path) -> str:
    """The digest of all summaries without their wall seconds."""
    digest = hashlib.sha256()
    for summary in summaries(store):
        digest.update(msgspec.json.encode(summary))
    return digest.hexdigest()[:16]


def digest_of_histories(store: Path) -> str:
    """The digest of the names and bytes of all stored tables."""
    digest = hashlib.sha256()
    for path in sorted(path for name in (OPERATIONS, EVENTS) for path in store.rglob(name)):
        digest.update(f"{path.relative_to(store)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def complaints(local: Path, killed: Path, wanted: int) -> list[str]:
    """How the killed campaign differs from the local one; empty if it does not."""
    repeats = [summary.repeat for summary in summaries(killed)]
    differences = []
    if len(repeats) != wanted:
        differences.append(f"{len(repeats)} runs instead of {wanted}")
    if len(set(repeats)) != len(repeats):
        differences.append(f"{len(repeats) - len(set(repeats))} runs twice")
    if digest_of_runs(killed) != digest_of_runs(local):
        differences.append("other summaries than those of the local campaign")
    if digest_of_histories(killed) != digest_of_histories(local):
        differences.append("other histories than those of the local campaign")
    return differences


def main(arguments: Sequence[str]) -> int:
    """Perform both campaigns, print what was killed and what differs; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="bench.kills")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--protocol", default="safe")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep both stores here")
    options_given = parser.parse_args(arguments)
    options = ["--seeds", f"0..{options_given.seeds - 1}", "--protocol", options_given.protocol]
    options += ["--seconds", str(options_given.seconds)] if options_given.seconds else []
    wanted = options_given.seeds * len(options_given.protocol.split(","))
    with TemporaryDirectory(prefix="highwater-kills-") as aside:
        folder = options_given.folder or Path(aside)
        local, killed = folder / "local", folder / "killed"
        with local_spark() as cluster:
            settings = [word for key, value in CONF.items() for word in ("--spark-conf", f"{key}={value}")]
            campaign = _Campaign(killed, [*options, "--spark", cluster.master, *settings])
            try:
                kill_all_kinds(campaign, cluster, wanted=wanted, rounds=options_given.rounds)
                campaign.driver.wait()
            finally:
                campaign.driver.kill()
                campaign.driver.wait()
        say(f"killed  runs {digest_of_runs(killed)}, histories {digest_of_histories(killed)}")
        local_cost = cost_of([*_HIGHWATER, "campaign", *options, "--store", str(local), *_resumed(local)])
        if local_cost.exit_code == ExitCode.USAGE:
            raise HarnessError(f"the local campaign was refused; {killed} is kept only with --folder")
        say(f"local   runs {digest_of_runs(local)}, histories {digest_of_histories(local)}; {_words(local_cost)}")
        differences = complaints(local, killed, wanted)
    say("equal" if not differences else f"DIFFERENT: {'; '.join(differences)}")
    return 1 if differences else 0


def _words(cost: Cost) -> str:
    return f"{cost.clock_s:.0f} s by the clock, {cost.cpu_s:.0f} CPU s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
