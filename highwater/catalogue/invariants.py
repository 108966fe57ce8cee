"""The protocol invariants that the known mistakes break, and the findings that show each one broken.

A mistake of the catalogue (bugs.yaml) names the invariants that it breaks; a checker declares which ones each of its kinds breaks
(`checkers.engine.anomalies`). A caught variant of a mistake must be caught by a kind that breaks an invariant of the mistake.
"""

from collections.abc import Iterable, Iterator

from checkers.registry import ALL
from highwater.catalogue.trace import bugs

INVARIANTS: dict[str, str] = {
    "DUR": "a promised record, or one given to a reader, stays",
    "HWM": "high watermarks at brokers and consumers never go back, and cover only committed records",
    "SL": "one leader commits in each epoch",
    "LM": "logs match below the high watermark",
    "ISR": "every member of the ISR has every committed record",
    "RES": "no assigned partition is deleted, and no deleted partition is there",
    "MONO": "one offset holds one value, once",
    "REQ": "a request that keeps the rules is not refused as if it broke one",
    "LIVE": "there is progress after healing",
    "META": "metadata converges",
    "CTL": "only one controller at a time has effect",
}


def broken(checker: str, kind: str) -> tuple[str, ...]:
    """The names of the invariants that are broken if this checker reports this kind of finding."""
    found = {name for one in ALL if one.name == checker for said in one.reports if said.name == kind for name in said.breaks}
    return tuple(name for name in INVARIANTS if name in found)


def named(variant: str) -> dict[str, tuple[str, ...]]:
    """The known mistakes that a protocol variant has: id -> the invariants that each mistake breaks."""
    return {id_: bug.raises for id_, bug in bugs().items() if variant in bug.variants}


def table(caught: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    """Rows for docs/mutants.md: protocol variant, known mistake, its invariants, and those shown broken by anomalies."""
    rows = list(dict.fromkeys(caught))
    for variant in dict.fromkeys(protocol for protocol, _, _ in rows):
        said = [(checker, kind, broken(checker, kind)) for protocol, checker, kind in rows if protocol == variant]
        for id_, raises in named(variant).items():
            by = [
                f"{', '.join(name for name in names if name in raises)} by `{checker}`: `{kind}`"
                for checker, kind, names in said
                if set(names) & set(raises)
            ]
            yield f"`{variant}`", id_, ", ".join(raises), "; ".join(by)
