"""`make bench-shrink`: shrink ten failing runs of different mistakes on one core.

CPU seconds are those of performing and judging, in this process. The aims: median at most 30 s, worst at most two minutes; at
most three windows, and at most 20 operations of clients up to the proof for the seeds of `v3`.
"""

import argparse
import statistics
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from highwater.cli.output import say
from highwater.plans.derive import derive
from highwater.shrink.folder import ShrinkOrder, Shrunk, Size, folder_of, shrink_in
from highwater.shrink.search import Budget

# Protocol and seed of the workload produce-consume: ten different signatures.
CASES: tuple[tuple[str, int], ...] = (
    ("v3", 1),
    ("v3", 3),
    ("v3", 10),
    ("unclean-election", 1),
    ("isr-eager", 8),
    ("consumers-read-to-leo", 1),
    ("no-idempotence", 2),
    ("no-epoch-bump", 1),
    ("stuck-zk-version", 1),
    ("empty-isr", 1),
)


class Measurement(Struct, frozen=True, kw_only=True):
    """The result of shrinking one run."""

    protocol: str
    seed: int
    signature: str
    before: Size
    after: Size
    trials: int
    cpu_seconds: float
    stopped: str | None
    sentences: int  # of the story

    @property
    def line(self) -> str:
        """The row of the table in docs/performance.md."""
        before, after = self.before, self.after
        return (
            f"| `{self.protocol}` {self.seed} | {self.signature} | {before.windows} -> {after.windows} "
            f"| {before.operations} -> {after.operations} | {before.acked} -> {after.acked} "
            f"| {before.brokers} -> {after.brokers} | {before.faults_ms / 1000:.0f} -> {after.faults_ms / 1000:.1f} "
            f"| {self.trials} | {self.cpu_seconds:.0f} |"
        )


def measure(protocol: str, seed: int, store: Path) -> tuple[Measurement, Shrunk]:
    """Shrink the run of one seed in a folder that holds no answers yet."""
    plan = derive(seed, protocol=protocol)
    folder = folder_of(store, plan)
    rmtree(folder, ignore_errors=True)
    found = shrink_in(folder, ShrinkOrder(plan=plan), budget=Budget(trials=2000, cpu_seconds=600), workers=1)
    measured = Measurement(
        protocol=protocol,
        seed=seed,
        signature=found.signature,
        before=found.before,
        after=found.after,
        trials=found.trials,
        cpu_seconds=found.cpu_seconds,
        stopped=found.stopped,
        sentences=len(found.story),
    )
    return measured, found


def main() -> None:
    """Shrink the ten runs and print a table; write the results as JSON."""
    parser = argparse.ArgumentParser(prog="bench.shrink", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("store/bench-shrink.json"))
    parser.add_argument("--only", help="protocol:seed of one run, in place of the ten")
    parser.add_argument("--store", type=Path, help="folder in which the shrunk plans are kept")
    arguments = parser.parse_args()
    protocol, _, seed = (arguments.only or "").partition(":")
    cases = CASES if arguments.only is None else ((protocol, int(seed)),)
    measurements: list[Measurement] = []
    with TemporaryDirectory(prefix="highwater-bench-") as aside:
        for protocol, seed in cases:
            measured, _ = measure(protocol, seed, arguments.store or Path(aside))
            measurements.append(measured)
            say(measured.line)
    seconds = [measurement.cpu_seconds for measurement in measurements]
    say(f"median {statistics.median(seconds):.0f} s of CPU, worst {max(seconds):.0f} s")
    say(
        f"at most {max(measurement.after.windows for measurement in measurements)} windows, "
        f"{max(measurement.after.operations for measurement in measurements)} operations"
    )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(msgspec.json.format(msgspec.json.encode(measurements), indent=2) + b"\n")


if __name__ == "__main__":
    main()
