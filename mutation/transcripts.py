"""Whether the transcripts of storms (tests/reference/transcripts.py) notice edits of clauses.

They are evidence beside the cited tests. A clause is proved by its own tests alone, so nothing is stored.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from msgspec.structs import replace

from mutation.prove import run_in, verdicts
from mutation.rows import MutationError, Row, clauses
from mutation.trees import mutated

NOTICED = "noticed"
_DEADLINE_S = 180.0


def drawn(count: int, seed: int) -> tuple[Row, ...]:
    """The second edits of so many clauses, drawn from all that have one."""
    return tuple(row.by_edit[1] for row in Random(seed).sample([row for row in clauses() if row.second], count))


def edits_of(chosen: Sequence[Row]) -> tuple[Row, ...]:
    """Every edit of these rows, each as a row of its own whose id says which edit it is."""
    return tuple(
        replace(edited, id=f"{row.id} {which} edit")
        for row in chosen
        if row.edit
        for which, edited in zip(("first", "second"), row.by_edit, strict=False)
    )


def tell(edits: Sequence[Row], *, jobs: int, within_s: float, say: Callable[[str], None]) -> int:
    """Say of each edit whether the transcripts notice it, and by what; the number of those that are missed."""
    missed = 0
    for row, words in verdicts(edits, jobs=jobs, deadline_s=_DEADLINE_S, within_s=within_s, judge=outcome):
        missed += not words.startswith(NOTICED)
        say(f"{row.id:10} {words}")
    say(f"{len(edits) - missed} of {len(edits)} edits are noticed")
    return missed


def outcome(tree: Path, row: Row, deadline_s: float) -> str:
    """Apply an edit to this tree, perform the storms until one differs, undo the edit."""
    path = tree / row.file
    try:
        with mutated(path, row.applied_to(path.read_text(encoding="utf-8") if path.is_file() else "")):
            run, out = run_in(tree, ["tests.reference.transcripts", "--first"], deadline_s)
    except MutationError:
        return "does not apply"
    except TimeoutError:
        return f"{NOTICED}: a storm hangs"
    if run == 0:
        return "missed"
    lines = out.strip().splitlines() or [""]
    return f"{NOTICED}: {lines[0] if run == 1 and 'Traceback' not in out else lines[-1]}"
