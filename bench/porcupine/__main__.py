"""Compares the judges of linearizability with Porcupine, and counts the histories on which they disagree.

`make porcupine` draws 100,000 histories of each kind of object (`bench.porcupine.histories`), judges each by
`checkers.linearizability` and by Porcupine (`bench.porcupine.judging`), which share no code and no language, and replaces the
table of docs/evidence.md. A history on which they disagree is saved as a file that `highwater check` reads. Without Go nothing is
compared, and the command says so.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from bench.porcupine.histories import KINDS, SEARCHED_MAX, Kind, drawn, model_of, options_of
from bench.porcupine.judging import SECONDS_MAX, build, go, judged, version
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import judge
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

NO_GO = "skipped: no Go here, so Porcupine cannot be built; install Go 1.21 or later (https://go.dev/dl)"
_BATCH = 1_000
_STEPS_MAX = 200_000
_BEGIN, _END = "<!-- porcupine -->", "<!-- end of porcupine -->"


class Tally(Struct):
    """Counts of the histories of one kind, and the time that each side took."""

    model: str
    histories: int = 0
    long: int = 0  # with more than SEARCHED_MAX calls
    lost: int = 0  # with calls of unknown outcome
    valid: int = 0  # by Porcupine
    invalid: int = 0
    undecided: int = 0  # by us
    undecided_there: int = 0
    ours_s: float = 0
    theirs_s: float = 0
    disagreements: list[tuple[Call, ...]] = []  # msgspec copies it


def compare(kind: Kind, program: Path, *, count: int, seed: int) -> Tally:
    """Draw and judge `count` histories of one kind of object."""
    tally, model = Tally(kind.name), model_of(kind)
    rng = Rng(seed).fork(kind.name)
    for first in range(0, count, _BATCH):
        batch = [drawn(kind, rng.fork(str(number))) for number in range(first, min(first + _BATCH, count))]
        begun = time.perf_counter()
        ours = [judge(model, calls, steps_max=_STEPS_MAX).validity for calls in batch]
        tally.ours_s += time.perf_counter() - begun
        for calls, mine, theirs in zip(batch, ours, judged(program, kind.name, batch), strict=True):
            tally.theirs_s += theirs.seconds
            _count(tally, calls, mine, theirs.validity)
    return tally


def _count(tally: Tally, calls: tuple[Call, ...], ours: Validity, theirs: Validity) -> None:
    tally.histories += 1
    tally.long += len(calls) > SEARCHED_MAX
    tally.lost += any(call.crashed for call in calls)
    tally.valid += theirs is Validity.VALID
    tally.invalid += theirs is Validity.INVALID
    tally.undecided += ours is Validity.UNKNOWN
    tally.undecided_there += theirs is Validity.UNKNOWN
    if Validity.UNKNOWN not in (ours, theirs) and ours is not theirs:
        tally.disagreements.append(calls)


def table_of(tallies: Sequence[Tally]) -> str:
    """The table of docs/evidence.md."""
    head = (
        f"| model | histories | over {SEARCHED_MAX} calls | with unknown outcomes | valid | invalid "
        "| undecided here, there | seconds here, there | disagreements |\n"
    )
    return head + "|---|---|---|---|---|---|---|---|---|\n" + "".join(map(_row, tallies))


def _row(tally: Tally) -> str:
    shares = [f"{100 * part / tally.histories:.0f} %" for part in (tally.long, tally.lost, tally.valid, tally.invalid)]
    undecided, seconds = f"{tally.undecided}, {tally.undecided_there}", f"{tally.ours_s:.0f}, {tally.theirs_s:.0f}"
    cells = [tally.model, f"{tally.histories:,}", *shares, undecided, seconds, str(len(tally.disagreements))]
    return f"| {' | '.join(cells)} |\n"


def save(calls: Sequence[Call], path: Path) -> None:
    """Write a history as JSON lines, for `highwater check PATH --model MODEL`. Each call has a process of its own."""
    moments = [(call.start, "invoke", call) for call in calls]
    moments += [(call.end, "ok", call) for call in calls if call.end is not None]
    lines = []
    for _, step, call in sorted(moments, key=lambda moment: moment[0]):
        value = call.argument if step == "invoke" or call.result is UNKNOWN or _repeats(call) else call.result
        plain = sorted(value) if isinstance(value, frozenset) else value
        lines.append({"process": call.index, "type": step, "f": call.f, "key": call.key, "value": plain})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _repeats(call: Call) -> bool:
    return call.result is None and call.argument is not None and call.f != "read"  # the answer says nothing but "done"


def main(
    histories: Annotated[int, typer.Option(min=1, help="How many histories of each kind of object.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the random histories.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Kinds of objects; all if not given.")] = None,
    write: Annotated[Path | None, typer.Option(help="Page whose table is replaced.")] = None,
    save_to: Annotated[Path, typer.Option(help="Folder for histories on which the two disagree.")] = Path("store/porcupine"),
) -> None:
    """Print a table; exit with 1 if the two disagree on a history."""
    names = [kind.name for kind in KINDS]
    strange = [name for name in only or () if name not in names]
    if strange:
        raise typer.BadParameter(f"{strange[0]} is none of {', '.join(names)}", param_hint="--only")
    command = go()
    if command is None:
        sys.stdout.write(f"{NO_GO}\n")
        return
    kinds = [kind for kind in KINDS if not only or kind.name in only]
    with TemporaryDirectory() as folder:
        try:
            program = build(command, Path(folder))
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"porcupine: `go build` failed: {error.stderr.strip()}\n")
            raise typer.Exit(2) from None
        tallies = [compare(kind, program, count=histories, seed=seed) for kind in kinds]
    table = table_of(tallies)
    sys.stdout.write(table)
    for kind, tally in zip(kinds, tallies, strict=True):
        for number, calls in enumerate(tally.disagreements):
            path = save_to / f"{kind.name}-{seed}-{number}.jsonl"
            save(calls, path)
            sys.stdout.write(f"they disagree: highwater check {path} {options_of(kind)}\n")
    if write is not None:
        _replace(write, table, seed)
    raise typer.Exit(1 if any(tally.disagreements for tally in tallies) else 0)


def _replace(page: Path, table: str, seed: int) -> None:
    measured = (
        f"Porcupine {version()}, seed {seed}, {datetime.now(UTC):%Y-%m-%d}; "
        f"a history is undecided after {SECONDS_MAX} s there and {_STEPS_MAX:,} steps here."
    )
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    page.write_text(f"{before}{_BEGIN}\n\n{table}\n{measured}\n\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
