"""Judges random histories of one kind of object on both sides, and counts what they say."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.porcupine.histories import SEARCHED_MAX, Kind, drawn, model_of
from bench.porcupine.judging import judged
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import judge
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

STEPS_MAX = 30_000  # of our search; the few histories that need more are counted as undecided
HEAD = (
    f"| model | histories | over {SEARCHED_MAX} calls | with unknown outcomes | valid | invalid "
    "| undecided here, there | seconds here, there | disagreements |\n|---|---|---|---|---|---|---|---|---|\n"
)
_BATCH = 1_000


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
        started = time.perf_counter()
        our_verdicts = [judge(model, calls, steps_max=STEPS_MAX).validity for calls in batch]
        tally.ours_s += time.perf_counter() - started
        for calls, our_verdict, their_judgement in zip(batch, our_verdicts, judged(program, kind.name, batch), strict=True):
            tally.theirs_s += their_judgement.seconds
            _count(tally, calls, our_verdict, their_judgement.validity)
    return tally


def _count(tally: Tally, calls: tuple[Call, ...], our_verdict: Validity, their_verdict: Validity) -> None:
    tally.histories += 1
    tally.long += len(calls) > SEARCHED_MAX
    tally.lost += any(call.crashed for call in calls)
    tally.valid += their_verdict is Validity.VALID
    tally.invalid += their_verdict is Validity.INVALID
    tally.undecided += our_verdict is Validity.UNKNOWN
    tally.undecided_there += their_verdict is Validity.UNKNOWN
    if Validity.UNKNOWN not in (our_verdict, their_verdict) and our_verdict is not their_verdict:
        tally.disagreements.append(calls)


def row_of(tally: Tally) -> str:
    """The row of one kind in the table below `HEAD`."""
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
