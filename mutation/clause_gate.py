"""How many edits of clauses do judges turn red in the stored plans? `python -m mutation --clauses N [--after M]`.

A clause of the register names tests that fail under its edit; a gate judges runs. So N clauses are drawn by a fixed seed, and
each edit is performed in the runs of `corpus` and `plans` that reach it until one is red. An edit acts if the history of a run
differs from that of the unmutated code. An edit that acts in no run cannot be caught there, whatever is judged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from highwater.plans.plan import Plan
from mutation.groups import measure_together
from mutation.measure import ROUNDS, Bench, Gate, Progress
from mutation.rows import Row, clauses
from mutation.trees import ROOT

_DRAW = 36
_LOOKED_AT = 540  # of the drawn clauses, before rules over turns were written for those that no judge saw
_PAGE = ROOT / "docs" / "evidence.md"
_BEGIN, _END = "<!-- clauses -->", "<!-- end of clauses -->"


def sample(count: int) -> list[Row]:
    """That many clauses with an edit of the protocol, drawn by a fixed seed; a larger sample begins with a smaller one."""
    with_edit = [row for row in clauses() if row.file.startswith("reference/")]
    Random(_DRAW).shuffle(with_edit)
    return with_edit[:count]


def measured(
    plans: Mapping[str, Plan], count: int, *, after: int, jobs: int, within_s: float, say: Callable[[str], None]
) -> list[Progress]:
    """Perform the edits of that many clauses, `after` so many of the sample, in these plans, as far as the time allows."""
    chosen = sample(after + count)[after:]
    bench = Bench(jobs, plans, within_s=within_s, say=say)
    names = list(plans)
    with bench.open():
        bench.baseline(names)
        gate = Gate(names, bench.folder)
        bench.measure(gate, lambda: chosen, rounds=ROUNDS[:2])
        measure_together(bench, gate, chosen)
        bench.measure(gate, lambda: chosen)
        return [gate.progress(row) for row in chosen]


def table(progress_rows: Sequence[Progress], *, after: int) -> Iterator[str]:
    """Lines of Markdown: what became of the edits of a sample from `after` on, and which checkers turn runs red."""
    looked_at = max(0, _LOOKED_AT - after)
    yield "| clauses | drawn | act in a run of `corpus` or `plans` | red by judges alone |"
    yield "|---|---|---|---|"
    parts = {"looked at when the rules were written": progress_rows[:looked_at], "others": progress_rows[looked_at:]}
    yield from (_line(what, part) for what, part in parts.items() if part)
    yield ""
    yield "| red by | edits |"
    yield "|---|---|"
    by = Counter(row.kill.killed_by.partition("/")[0] for row in progress_rows if row.kill is not None)
    for name, number in sorted(by.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {name} | {number} |"


def _line(what: str, progress_rows: Sequence[Progress]) -> str:
    red = [row for row in progress_rows if row.kill is not None]
    acts = len(red) + sum(1 for row in progress_rows if row.kill is None and row.differed)
    undecided = sum(row.outcome == "undecided" for row in progress_rows)
    drawn = f"{len(progress_rows)}, {undecided} of them undecided" if undecided else str(len(progress_rows))
    return f"| {what} | {drawn} | {acts} | {len(red)} ({100 * len(red) // max(1, acts)} %) |"


def missed(progress_rows: Sequence[Progress]) -> Iterator[str]:
    """A line for each edit that acts and is not red."""
    for row in progress_rows:
        if row.outcome == "survived" and row.differed:
            yield f"{row.mutant.id} {row.mutant.aim.at}: differs in {row.differed} of {row.reached} runs: {row.mutant.text}"


def write(progress_rows: Sequence[Progress], *, after: int) -> None:
    """Put the table into docs/evidence.md."""
    before, _, rest = _PAGE.read_text(encoding="utf-8").partition(f"{_BEGIN}\n")
    text = "\n".join([_BEGIN, "", *table(progress_rows, after=after), "", _END])
    _PAGE.write_text(f"{before}{text}{rest.partition(_END)[2]}", encoding="utf-8")
