"""Runs that many mutants perform at once: all their edits are in one tree.

Most mutants that survive change no history at all. If a run of the tree with all their edits has the history of the unmutated
code, it counts as such a run of each of them: that two edits undo each other in every message, state and answer is not expected.
If its history differs, halves of the group perform the run again until the mutants that change it are found; these go on alone.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from mutation.measure import Bench, Gate
from mutation.rows import MutationError, Row, texts_with
from mutation.worker import RunRow


def measure_together(bench: Bench, gate: Gate, mutants: Sequence[Row]) -> None:
    """Perform the runs that are left for mutants that changed no history so far."""
    group = _compatible([mutant for mutant in mutants if _is_silent(gate, mutant)])
    runs_wanted = {name for mutant in group for name in gate.progress(mutant).left}
    names = [name for name in gate.names if name in runs_wanted and name in gate.baseline]
    step = -(-len(names) // bench.jobs) or 1
    bench.each(
        lambda chunk: _perform_together(bench, gate, list(group), chunk),
        [names[n : n + step] for n in range(0, len(names), step)],
    )


def _is_silent(gate: Gate, mutant: Row) -> bool:
    progress = gate.progress(mutant)
    return bool(progress.rows) and progress.outcome == "undecided" and progress.differed == 0


def _compatible(mutants: Sequence[Row]) -> list[Row]:
    """The mutants whose edits leave each other's text alone."""
    compatible: list[Row] = []
    for mutant in mutants:
        try:
            texts_with([*compatible, mutant])
        except MutationError:
            continue
        compatible.append(mutant)
    return compatible


def _perform_together(bench: Bench, gate: Gate, group: list[Row], runs: Sequence[str]) -> None:
    """Perform runs with all mutants of the group at once; of a run that differs find the mutants that change it."""
    runs_left = list(runs)
    while runs_left and len(group) > 1 and not bench.is_over:
        for row in list(bench.performed(group, runs_left, gate, "differs")):
            runs_left.remove(row.run)
            if not row.differs:
                _credit(bench, gate, group, row)
                continue
            changing = {mutant.id for mutant in _changing(bench, gate, group, row.run)}
            group[:] = [mutant for mutant in group if mutant.id not in changing]
            bench.say(
                f"{row.run}: {', '.join(sorted(changing)) or 'no mutant alone'} changes it; {len(group)} mutants go on together"
            )


def _changing(bench: Bench, gate: Gate, group: Sequence[Row], name: str) -> list[Row]:
    """The mutants of a group that change the history of a run."""
    changing: list[Row] = []
    for half in (group[: len(group) // 2], group[len(group) // 2 :]):
        if not half:
            continue
        row = next(iter(list(bench.performed(half, [name], gate))))
        if not row.differs or len(half) == 1:
            _credit(bench, gate, half, row)
            changing += half if row.differs else []
        else:
            changing += _changing(bench, gate, half, name)
    return changing


def _credit(bench: Bench, gate: Gate, group: Sequence[Row], row: RunRow) -> None:
    """Store a run with each mutant of the group for which it was left."""
    for mutant in group:
        if row.run in gate.progress(mutant).left:
            bench.add(mutant, replace(row, shared=len(group)) if len(group) > 1 else row)
