"""The list of all checkers, and the document generated from them.

`python -m checkers.registry > docs/properties.md` writes it.
"""

import sys

from checkers import foreign
from checkers.clients import answers, calls, committed_offsets, duplicates, order, polls, producers
from checkers.control import election, electorate, fencing, incarnations, single_leader, state_writes, succession
from checkers.durability import (
    acked_loss,
    deletion,
    flushes,
    isr_agreement,
    log_matching,
    monotonic_hw,
    offset_agreement,
    topic_identity,
)
from checkers.engine.checker import Checker
from checkers.kafka import names
from checkers.liveness import (
    advance,
    availability,
    brokers,
    convergence,
    demotions,
    laggards,
    metadata,
    progress,
    promptness,
    replacement,
)
from checkers.observing import IN_PLACE_OF_NOTES
from checkers.validity import assertions, assumptions, vacuity

# acked-loss comes first: the excused losses that it finds are an input to the others.
ALL: tuple[Checker, ...] = (
    acked_loss.CHECKER,
    offset_agreement.CHECKER,
    order.CHECKER,
    duplicates.CHECKER,
    answers.CHECKER,
    producers.CHECKER,
    calls.CHECKER,
    polls.CHECKER,
    committed_offsets.CHECKER,
    monotonic_hw.CHECKER,
    single_leader.LEADERS,
    single_leader.CONTROLLERS,
    isr_agreement.CHECKER,
    log_matching.CHECKER,
    election.CHECKER,
    electorate.CHECKER,
    flushes.CHECKER,
    state_writes.CHECKER,
    succession.CHECKER,
    fencing.CHECKER,
    incarnations.CHECKER,
    deletion.CHECKER,
    topic_identity.CHECKER,
    assertions.CHECKER,
    assumptions.CHECKER,
    vacuity.CHECKER,
    availability.PARTITIONS,
    availability.CLUSTER,
    progress.CHECKER,
    advance.CHECKER,
    replacement.CHECKER,
    laggards.CHECKER,
    demotions.CHECKER,
    promptness.CHECKER,
    brokers.CHECKER,
    convergence.CHECKER,
    metadata.CHECKER,
)

# In place of the ledger, where brokers note nothing (`checkers.observing`).
OF_BLACK_BOXES: tuple[Checker, ...] = IN_PLACE_OF_NOTES

_HEAD = """# What the checkers claim

Generated from `checkers/registry.py`; do not edit.
Terms and rules are those of `docs/promise.md`; where the two differ, `docs/promise.md` is right.
Each anomaly kind below makes a run INVALID; a group that cannot be judged makes it UNKNOWN.
Liveness is a separate field of the verdict.
"""


def document() -> str:
    """Return the text of docs/properties.md: the claim, reads and limits of each checker and judge."""
    parts = [_HEAD]
    for checker in (*ALL, *OF_BLACK_BOXES):
        kinds = ", ".join(f"`{kind}`" for kind in checker.kinds) or "none; what it finds makes the run UNKNOWN or not live"
        reads = ", ".join(f"`{name}`" for name in (*checker.operations, *dict.fromkeys(map(str, checker.events)))) or "nothing"
        parts.append(
            f"## {checker.name}\n\n"
            f"- **The checker `{checker.name}` claims:** {checker.claim}\n"
            f"- **Anomalies where that is broken:** {kinds}\n"
            f"{_shown(checker)}"
            f"- **Judged for each:** {', '.join(checker.group_by) or 'run'}\n"
            f"- **Assumes:** {checker.assumes}\n"
            f"- **Cannot see:** {checker.blind}\n"
            f"- **Reads operations and events of the kinds:** {reads}\n"
            f"- **Takes time of the order of:** {checker.complexity}\n"
            f"- **A large history is cut by:** {_cut(checker)}\n"
        )
    return "\n".join([*parts, foreign.document(), names.section()])


def _shown(checker: Checker) -> str:
    """Which variants of the protocol show each kind, or why none does."""
    lines = []
    for kind in checker.reports:
        by = f"shown by {', '.join(f'`{name}`' for name in kind.shown_by)}" if kind.shown_by else kind.unshown
        invariants = f" breaks {', '.join(kind.breaks)};" if kind.breaks else ""
        lines.append(f"  - `{kind.name}`:{invariants} {by}\n")
    return "".join(lines)


def _cut(checker: Checker) -> str:
    if checker.split is not None:
        return "ranges of the index; the states of the ranges are merged in order"
    fast = "; partitions that a pre-check passes are not walked" if checker.screen is not None else ""
    return f"partition{fast}"


if __name__ == "__main__":
    sys.stdout.write(document())
