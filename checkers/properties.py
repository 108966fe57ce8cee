"""docs/properties.md: what each checker and judge claims, reads, reports and cannot see.

`python -m checkers.properties > docs/properties.md` writes it.
"""

import sys

from checkers import foreign
from checkers.engine.checker import Checker
from checkers.kafka import names
from checkers.registry import ALL, OF_BLACK_BOXES

_HEAD = """# What the checkers claim

Generated from the checkers by `python -m checkers.properties`; do not edit.
Terms and rules are those of `docs/promise.md`; where the two differ, `docs/promise.md` is right.
Each finding below makes a run INVALID, except `not-live`: liveness is a separate field of the verdict.
A group that cannot be judged (`unknown`) makes it UNKNOWN.
"""


def document() -> str:
    """Return the text of docs/properties.md: the claim, reads and limits of each checker and judge."""
    parts = [_HEAD]
    for checker in (*ALL, *OF_BLACK_BOXES):
        reads = ", ".join(f"`{name}`" for name in (*checker.operations, *dict.fromkeys(map(str, checker.events)))) or "nothing"
        parts.append(
            f"## {checker.name}\n\n"
            f"- **The checker `{checker.name}` claims:** {checker.claim}\n"
            f"- **Findings where that is broken:**\n{_kinds_in_words(checker)}"
            f"- **Judged for each:** {', '.join(checker.group_by) or 'run'}\n"
            f"- **Assumes:** {checker.assumes}\n"
            f"- **Cannot see:** {checker.blind}\n"
            f"- **Reads operations and events of the kinds:** {reads}\n"
            f"- **Takes time of the order of:** {checker.complexity}\n"
            f"- **A large history is cut by:** {_split_in_words(checker)}\n"
        )
    return "\n".join([*parts, foreign.document(), names.section()])


def _kinds_in_words(checker: Checker) -> str:
    """Each kind with the invariants that it breaks and the variants of the protocol that show it, or why none does."""
    lines = []
    for kind in checker.reports:
        by = f"shown by {', '.join(f'`{name}`' for name in kind.shown_by)}" if kind.shown_by else kind.unshown
        invariants = f" breaks {', '.join(kind.breaks)};" if kind.breaks else ""
        lines.append(f"  - `{kind.name}`:{invariants} {by}\n")
    return "".join(lines)


def _split_in_words(checker: Checker) -> str:
    """What a checker judges piece by piece: ranges or partitions."""
    if checker.split is not None:
        return "ranges of the index; the states of the ranges are merged in order"
    fast = "; partitions that a pre-check passes are not walked" if checker.screen is not None else ""
    return f"partition{fast}"


if __name__ == "__main__":
    sys.stdout.write(document())
