"""The judges of histories from elsewhere, as docs/properties.md tells of them beside the checkers of our own.

A history of linearizable objects, of transactions, or of a queue like Kafka; each judged by what clients saw alone.
"""

from msgspec import Struct

from checkers.elle.consistency import FORBIDS
from checkers.linearizability.registry import NAMES, model_named


class Judge(Struct, frozen=True, kw_only=True):
    """One judge, in the words of `checkers.checker.Checker`. `group` says in what parts a history is judged."""

    name: str
    claim: str
    kinds: tuple[str, ...]
    group: str
    assumes: str
    blind: str
    complexity: str


_CYCLES = tuple(
    f"{kind}{time}" for kind in ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item") for time in ("", "-process", "-realtime")
)
_LISTS_ALONE = ("dirty-update", "duplicate-elements", "incompatible-order")
_OF_LISTS = (*_LISTS_ALONE, "G1a", "G1b", "internal", "future-read", "fractured-read", "lost-update")
_OF_REGISTERS = ("cyclic-versions", "G1a", "G1b", "internal", "future-read", "fractured-read", "lost-update")
_OF_QUEUES = (
    "inconsistent-offsets", "duplicate", "phantom-read", "G1a", "precommitted-read", "lost-write", "unseen",
    "poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "int-nonmonotonic-send", "nonmonotonic-send",
    "G1c", "G1c-realtime",
)  # fmt: skip

JUDGES: tuple[Judge, ...] = (
    Judge(
        name="linearizability",
        claim="One order of all calls, each within its time, is what the object would have answered.",
        kinds=("nonlinearizable",),
        group="object (the key, where calls have one or all values are Jepsen's `[key value]`); "
        "the transactions of a multi-register together",
        assumes="The order of the lines is the order of time. A call of unknown outcome took effect at any time later, or never.",
        blind="What nobody observed; parts that are not decided within the budget of steps (they are unchecked).",
        complexity="n log n where values are unique (register, set, queue) or tell their place (log); else a search that is "
        "exponential in the calls open at once, linear in the length of a history that has an order, with a budget of steps",
    ),
    Judge(
        name="list-append",
        claim="Transactions that append to lists and read them are isolated as was promised.",
        kinds=(*_CYCLES, *_OF_LISTS),
        group="history",
        assumes="A value is appended to a key once. The longest read of a key is the order of its versions.",
        blind="The order of what several appended and nobody read; predicates; keys where a value was appended twice.",
        complexity="n log n in micro-operations and elements read; G-single that, times the reachable components by 4096",
    ),
    Judge(
        name="rw-register",
        claim="Transactions that write registers and read them are isolated as was promised.",
        kinds=(*_CYCLES, *_OF_REGISTERS),
        group="history",
        assumes="A value is written to a key once; nil was there first.",
        blind="Versions whose order neither a read before a write, nor time, nor nil tells; predicates; keys written twice.",
        complexity="n log n, n the micro-operations and the pairs of versions that follow each other in time",
    ),
    Judge(
        name="kafka",
        claim="Sends and polls of processes show a log that keeps what it acknowledged, in order, and once.",
        kinds=_OF_QUEUES,
        group="history (logs by key, skips by process)",
        assumes="A value is sent to a key once. What an operation of unknown outcome sent counts once it was read.",
        blind="What is inside of the cluster; consumers in a group may skip; interleaved sends, which are allowed (notes).",
        complexity="n log n in the records sent and polled",
    ),
)


_HEAD = """# What the judges of other histories claim

`highwater check FILE --model M` asks them; `docs/proof.md` says how far they are proven.
"""


def document() -> str:
    """The sections of docs/properties.md."""
    parts = [_HEAD]
    for judge in JUDGES:
        parts.append(
            f"## {judge.name}\n\n"
            f"{judge.claim}\n\n"
            f"- **Anomalies:** {_listed(judge.kinds)}\n"
            f"- **Judged for each:** {judge.group}\n"
            f"- **Assumes:** {judge.assumes}\n"
            f"- **Cannot see:** {judge.blind}\n"
            f"- **Takes:** {judge.complexity}\n"
        )
    models = [f"| {name} | {model_named(name).claim} |" for name in NAMES]
    parts.append("\n".join(["## Models of linearizability\n", "| model | what it is |", "|---|---|", *models, ""]))
    levels = [f"| {name} | {_forbidden(name)} |" for name in FORBIDS]
    parts.append(
        "\n".join(["## What each promise of transactions forbids\n", "| promise | anomalies |", "|---|---|", *levels, ""])
    )
    return "\n".join(parts)


def _forbidden(name: str) -> str:
    """All of it, or what a strong one adds to the one that it makes strong."""
    base = name.removeprefix("strong-").removeprefix("session-") if name.startswith("strong-") else ""
    added = FORBIDS[name] - FORBIDS.get(base, frozenset())
    return (f"all of {base}, and " if base else "") + _listed(sorted(added))


def _listed(kinds: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)
