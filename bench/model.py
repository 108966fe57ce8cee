"""`make bench-explore`, the part of the abstract models: CPU seconds of `highwater explore model` and of TLC, in one run.

Both are whole processes, their start included, and both search the same space: TLC with one worker, on the TLA+ text of the same
model that the tests keep. The counts must be equal, or the comparison means nothing.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.tlc import TlcRun, missing_java, run_tlc
from highwater.cli.explore_model import ExploredModel
from highwater.cli.output import say
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.async_isr import IsrRules, IsrSizes
from highwater.explore.abstract.rules import VARIANTS, Rules, Sizes

_SPECS = Path(__file__).parents[1] / "tests" / "highwater" / "explore" / "abstract"
REPLICATION, ISR_REQUESTS = _SPECS / "Replication.tla", _SPECS / "IsrRequests.tla"
_VARIANT = "kip320"
_SIZES = Sizes(replicas=3, log_size=2, max_records=2, max_epoch=2)
_ASKED_RATIO = 6


class Measured(Struct, frozen=True, kw_only=True):
    """Medians of CPU seconds, and TLC's over the explorer's."""

    generated: int
    distinct: int
    depth: int
    explorer_seconds: float
    tlc_seconds: float
    ratio: float


def replication_constants(rules: Rules, sizes: Sizes) -> dict[str, str]:
    """The constants of Replication.tla for a variant and sizes."""
    return {
        "Replicas": _model_values(sizes.replicas),
        "Nobody": "Nobody",
        "LogSize": str(sizes.log_size),
        "MaxRecords": str(sizes.max_records),
        "MaxEpoch": str(sizes.max_epoch),
        "Truncation": f'"{rules.truncation}"',
        "TruncationFenced": _truth(rules.truncation_fenced),
        "Fetch": f'"{rules.fetch}"',
        "Hw": f'"{rules.hw}"',
        "Shrinking": f'"{rules.shrinking}"',
        "Expansion": f'"{rules.expansion}"',
        "ExpansionInEpoch": _truth(rules.expansion_in_epoch),
    }


def isr_constants(rules: IsrRules, sizes: IsrSizes) -> dict[str, str]:
    """The constants of IsrRequests.tla for a variant and bounds."""
    return {
        "Followers": _model_values(sizes.replicas - 1),
        "Leader": "leader",
        "MaxOffset": str(sizes.max_offset),
        "MaxVersion": str(sizes.max_version),
        "HwOver": f'"{rules.hw_over}"',
        "VersionCheck": _truth(rules.version_check),
    }


def _model_values(count: int) -> str:
    return "{" + ", ".join(f"r{number + 1}" for number in range(count)) + "}"


def _truth(value: bool) -> str:
    return "TRUE" if value else "FALSE"


def measure(rounds: int) -> Measured:
    """Run both, alternating; AssertionError if their counts differ."""
    explored = [_explore() for _ in range(rounds)]
    checked = [run_tlc(REPLICATION, replication_constants(VARIANTS[_VARIANT], _SIZES)) for _ in range(rounds)]
    explored_model = explored[0][0]
    seconds = statistics.median(used for _, used in explored)
    assert {_counts(run) for run in checked} == {(explored_model.generated, explored_model.distinct, explored_model.depth)}, (
        "TLC counts other states"
    )
    of_tlc = statistics.median(run.cpu_seconds for run in checked)
    return Measured(
        generated=explored_model.generated,
        distinct=explored_model.distinct,
        depth=explored_model.depth,
        explorer_seconds=round(seconds, 2),
        tlc_seconds=round(of_tlc, 1),
        ratio=round(of_tlc / seconds, 1),
    )


def _counts(run: TlcRun) -> tuple[int, int, int]:
    return run.generated, run.distinct, run.depth


def _explore() -> tuple[ExploredModel, float]:
    """What the explorer found, and the processor seconds of its process."""
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in msgspec.structs.asdict(_SIZES).items()]
    command = [
        sys.executable,
        "-m",
        "highwater",
        "explore",
        "model",
        "kafka-replication",
        f"--variant={_VARIANT}",
        *sizes,
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # waited for already
    if process.returncode not in (ExitCode.VALID, ExitCode.INVALID):
        raise subprocess.CalledProcessError(process.returncode, command)
    return msgspec.json.decode(output, type=ExploredModel), used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 without Java, or if TLC takes less than six times the explorer's CPU."""
    parser = argparse.ArgumentParser(prog="python -m bench.model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options_given = parser.parse_args(arguments)
    reason = missing_java()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    measured = measure(options_given.rounds)
    if options_given.json:
        sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    else:
        say(
            f"{_VARIANT} {tuple(msgspec.structs.asdict(_SIZES).values())}: {measured.generated} generated, "
            f"{measured.distinct} distinct, depth {measured.depth}"
        )
        say(
            f"CPU seconds: explorer {measured.explorer_seconds}, TLC {measured.tlc_seconds}, ratio {measured.ratio} "
            f"(asked: {_ASKED_RATIO})"
        )
    return 0 if measured.ratio >= _ASKED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
