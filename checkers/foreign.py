"""Descriptions, for docs/properties.md, of the judges for histories recorded by other tools.

They judge linearizable objects, transactions, queues like Kafka, and workloads of Jepsen's, by the observations of clients alone.
"""

from msgspec import Struct

from checkers.elle.consistency import FORBIDS
from checkers.elle.levels import BETWEEN, OTHER_NAMES
from checkers.jepsen.judge import MODELS as JEPSEN
from checkers.linearizability.own import KIND as OWN_READ
from checkers.linearizability.registry import NAMES, model_named


class Judge(Struct, frozen=True, kw_only=True):
    """The description of one judge of foreign histories, for docs/properties.md. `group`: what is judged separately."""

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
_LISTS_ALONE = ("dirty-update", "duplicate-elements", "incompatible-order", "no-version-order")
_OF_LISTS = (*_LISTS_ALONE, "phantom-read", "G1a", "G1b", "internal", "future-read", "fractured-read", "lost-update")
_OF_REGISTERS = (
    "cyclic-versions",
    "no-version-order",
    "phantom-read",
    "G1a",
    "G1b",
    "internal",
    "future-read",
    "fractured-read",
    "lost-update",
)
_OF_QUEUES = (
    "inconsistent-offsets", "duplicate", "phantom-read", "G1a", "precommitted-read", "lost-write", "unseen",
    "poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "int-nonmonotonic-send", "nonmonotonic-send",
    "G1c", "G1c-realtime",
)  # fmt: skip

JUDGES: tuple[Judge, ...] = (
    Judge(
        name="linearizability",
        claim="Some order of all calls, each between its invocation and completion, explains every answer of the object.",
        kinds=("nonlinearizable",),
        group="object (the key, where calls have one or all values are Jepsen's `[key value]`); "
        "the transactions of a multi-register together",
        assumes="Lines are in time order. A call of unknown outcome took effect at some time after its invocation, or never.",
        blind="Effects that no call observed; parts not decided within the budget of steps (verdict UNKNOWN).",
        complexity="n log n if values are unique (register, set, queue) or carry their position (log); else a search with a "
        "budget of steps, exponential in the calls open at once and linear in the length of a linearizable history",
    ),
    Judge(
        name="list-append",
        claim="Transactions that append to lists and read them keep the promised isolation level.",
        kinds=(*_CYCLES, *_OF_LISTS),
        group="history",
        assumes="Each value is appended to a key at most once. The longest read of a key gives the order of its versions. "
        "All clients of the run are in the history.",
        blind="Predicates; keys to which a value was appended twice, or whose lists all begin with values that no transaction "
        "appended; an order of unread appends that is not found within the budget (verdict UNKNOWN).",
        complexity="n log n in micro-operations and elements read; for G-single the same times the reachable components by 4096; "
        "for unread appends of transactions on allowed cycles a search with a budget",
    ),
    Judge(
        name="rw-register",
        claim="Transactions that write registers and read them keep the promised isolation level.",
        kinds=(*_CYCLES, *_OF_REGISTERS),
        group="history",
        assumes="Each value is written to a key at most once; the first version is nil. All clients of the run are in the "
        "history.",
        blind="Predicates; keys to which a value was written twice, or that were never nil and have one value that no "
        "transaction wrote; an order of blind writes that is not found within the budget (verdict UNKNOWN).",
        complexity="n log n, where n counts micro-operations and pairs of versions that follow each other in time; for writes "
        "whose order neither reads nor time show a search with a budget",
    ),
    Judge(
        name="kafka",
        claim="The log keeps each acknowledged record, in order and once, as the sends and polls of processes show it.",
        kinds=_OF_QUEUES,
        group="history (logs by key, skips by process)",
        assumes="Each value is sent to a key at most once. A send of unknown outcome counts once its record was read.",
        blind="The inside of the cluster; offsets that consumers in a group skip, and sends that interleave, which Kafka allows "
        "(and noted).",
        complexity="n log n in the records sent and polled",
    ),
    Judge(
        name="a model of your own",
        claim="Some order explains every answer of the object (`first`, `step`), or each read holds (`reads`, `holds`).",
        kinds=("nonlinearizable", OWN_READ),
        group="key, where all calls have Jepsen's values `[key value]`; else history",
        assumes="Lines are in time order. The code is yours: its step, or its predicate, says what is right.",
        blind="What the code does not look at. A history whose answers it never doubts is UNKNOWN.",
        complexity="a search as for linearizability, or one question a read",
    ),
    *(
        Judge(
            name=model.name,
            claim=f"{model.claim[0].upper()}{model.claim[1:]}.",
            kinds=model.kinds,
            group="key, where all calls have Jepsen's values `[key value]`; else history" if model.keyed else "history",
            assumes="Lines are in time order. All clients of the run are in the history.",
            blind=model.blind,
            complexity="n log n in the calls and the values read",
        )
        for model in JEPSEN
    ),
)


_HEAD = """# What the judges of foreign histories claim

`highwater check FILE --model M` runs them; `docs/proof.md` says on how many histories they were compared with their definitions.
"""


def document() -> str:
    """Return the sections of docs/properties.md on these judges, as Markdown."""
    parts = [_HEAD]
    for judge in JUDGES:
        parts.append(
            f"## {judge.name}\n\n"
            f"- **The judge `{judge.name}` claims:** {judge.claim}\n"
            f"- **Anomalies where that is broken:** {_names_listed(judge.kinds)}\n"
            f"- **Judged for each:** {judge.group}\n"
            f"- **Assumes:** {judge.assumes}\n"
            f"- **Cannot see:** {judge.blind}\n"
            f"- **Takes time of the order of:** {judge.complexity}\n"
        )
    models = [f"| {name} | {model_named(name).claim} |" for name in NAMES]
    parts.append("\n".join(["## Models of linearizability\n", "| model | meaning |", "|---|---|", *models, ""]))
    levels = [f"| {name} | {_anomalies_in_words(name)} |" for name in FORBIDS if BETWEEN.get(name, (None,))[0] != name]
    parts.append("\n".join(["## What each isolation level forbids\n", "| level | anomalies |", "|---|---|", *levels, ""]))
    others = [f"| {name} | {level} |" for name, level in OTHER_NAMES.items()]
    head = ["## Other names of levels, as Elle has them\n", "| name | judged as |", "|---|---|"]
    parts.append("\n".join([*head, *others, ""]))
    parts.append(
        "\n".join(
            [_BETWEEN, *(f"| {name} | {_condition_in_words(name)} | {level} |" for name, (_, level) in BETWEEN.items()), ""]
        )
    )
    return "\n".join(parts)


_BETWEEN = """## Levels between two that can be judged

A history that breaks the weaker level is INVALID, one that keeps the stronger one VALID, any other UNKNOWN.

| name | INVALID if it shows | VALID if it keeps |
|---|---|---|"""


def _condition_in_words(name: str) -> str:
    """What makes a history INVALID by a level that is between two."""
    level = BETWEEN[name][0]
    return "nothing" if level is None else f"what {level} forbids" if level != name else _names_listed(sorted(FORBIDS[name]))


def _anomalies_in_words(name: str) -> str:
    """List the anomalies that an isolation level forbids; for a strong level, those that it adds to its base level."""
    base = name.removeprefix("strong-").removeprefix("session-") if name.startswith("strong-") else ""
    added = FORBIDS[name] - FORBIDS.get(base, frozenset())
    return (f"all of {base}, and " if base else "") + _names_listed(sorted(added))


def _names_listed(kinds: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)
