"""Two versions of the protocol under one harness: which runs became worse, which better.

The present harness performs the same plans and seeds on the present `reference/` and on that of another commit, and judges both.
Only the protocol is taken from the other commit; it runs in a process of its own, because a process has one `reference`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from checkers.severity import SEVERITY, severity
from highwater.behaviour.difference import Behaviour, differences, summary
from highwater.campaigns.chaos import Phase, RunLine
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.revisions import commit_of, highwater_on, protocol_of

COMPARED: tuple[Phase, ...] = ("corpus", "plans", "seeds")


class Other(Struct, frozen=True, kw_only=True):
    """The runs on the protocol of another commit."""

    revision: str  # as it was given
    commit: str
    lines: tuple[RunLine, ...]


class Changed(Struct, frozen=True, kw_only=True):
    """One run whose result differs between the two protocols."""

    part: str
    name: str
    worse: bool
    before: str  # in words, on the other commit
    now: str
    repeat: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The runs of one commit beside those of the present protocol. `lost` runs ended on one side only, or had other plans."""

    revision: str
    commit: str
    runs: int
    other_histories: int  # runs of another digest, whatever their verdicts
    acked: tuple[int, int]  # acknowledged produces: before, now
    changed: tuple[Changed, ...]
    lost: int = 0
    behaviour: tuple[str, ...] = ()  # how the present runs behave otherwise, in lines

    @property
    def code(self) -> ExitCode:
        """INVALID if a run became worse, UNKNOWN if runs cannot be compared."""
        if any(change.worse for change in self.changed):
            return ExitCode.INVALID
        return ExitCode.UNKNOWN if self.lost or not self.runs else ExitCode.VALID


def perform_on(revision: str, arguments: Sequence[str], phases: Sequence[Phase]) -> Other:
    """Perform `highwater chaos` with these arguments on the protocol of another commit; of its runs only the lines are kept.

    UsageError if there is no such commit, or if its protocol does not fit this harness.
    """
    commit = commit_of(revision, option="--against")
    arguments = (*arguments, "--parts", ",".join(phases), "--keep-going")
    with protocol_of(revision, option="--against") as folder:
        runs = Path(folder, "runs.jsonl")
        files = ("--store", f"{folder}/store", "--runs", str(runs))
        highwater_on(folder, "chaos", *arguments, *files, what=f"--against {revision}")
        lines_of_runs = [msgspec.json.decode(line, type=RunLine) for line in runs.read_bytes().splitlines()]
    if lines_of_runs and all(line.failure for line in lines_of_runs):
        raise UsageError(f"--against {revision}: no run of its protocol works in this harness: {lines_of_runs[0].failure}")
    return Other(revision=revision, commit=commit, lines=tuple(lines_of_runs))


def compare(after: Other, now: Sequence[RunLine], behaviours: Mapping[str, Behaviour]) -> Comparison:
    """Compare the runs of two protocols on the same plans; `behaviours` are those of the present runs."""
    old = {(line.part, line.name, line.protocol): line for line in after.lines}
    pairs = [(old[key], line) for line in now if (key := (line.part, line.name, line.protocol)) in old]
    same = [
        (before, after) for before, after in pairs if before.plan_digest == after.plan_digest or before.failure or after.failure
    ]
    return Comparison(
        revision=after.revision,
        commit=after.commit,
        runs=len(same),
        other_histories=sum(before.digest != after.digest for before, after in same),
        acked=(sum(before.acked for before, _ in same), sum(after.acked for _, after in same)),
        changed=tuple(sorted(_changed_runs(same), key=lambda change: not change.worse)),
        lost=len(after.lines) + len(now) - 2 * len(same),
        behaviour=tuple(_differences_of_behaviour(after, behaviours)),
    )


def _differences_of_behaviour(other_run: Other, now: Mapping[str, Behaviour]) -> list[str]:
    """How the runs that ended on both sides behave otherwise."""
    before = {f"{line.part}/{line.name}": line.behaviour for line in other_run.lines if line.behaviour is not UNSET}
    both = {name: behaviour for name, behaviour in now.items() if name in before}
    return summary(differences(before, both, all_plans=False), len(both))


def _changed_runs(pairs: Sequence[tuple[RunLine, RunLine]]) -> Iterator[Changed]:
    """The runs that ended better or worse on the other commit."""
    for before, now in pairs:
        if _rank_of_end(before) != _rank_of_end(now):
            yield Changed(
                part=now.part,
                name=f"{now.name} on {now.protocol}",
                worse=_rank_of_end(now) > _rank_of_end(before),
                before=_end_in_words(before),
                now=_end_in_words(now),
                repeat=now.repeat,
            )


def _rank_of_end(line: RunLine) -> tuple[int, int]:
    """How bad the result of a run is: a crash, the worst kind of anomaly, not live, not judged."""
    if line.crash:
        return 5, 0
    if line.kinds:
        return 4, len(SEVERITY) - min(severity(kind)[0] for kind in line.kinds)
    if line.live is False:
        return 3, 0
    if line.failure:
        return 2, 0
    return int(line.verdict == "UNKNOWN"), 0


def _end_in_words(line: RunLine) -> str:
    """How a run ended, in words."""
    if line.crash:
        return f"crash at {line.crash}"
    if line.failure:
        return "the harness failed"
    live = ", not live" if line.live is False else ""
    return f"{line.verdict}{live}" + (f": {', '.join(line.kinds)}" if line.kinds else "")
