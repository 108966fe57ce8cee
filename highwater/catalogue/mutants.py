"""The known-bad protocols and the runs in which checkers catch them: `corpus/mutants.yaml`.

A harness that finds nothing proves nothing unless it is known to find planted mistakes. So every variant of the protocol except
`safe` is in one of two lists:

    caught:
    - {protocol: kip101, out: what is taken out, plan: plans/x.yaml}
    - {protocol: v3, out: ..., shows: [lost-write], seeds: [0, 59], first: 1}
    masked:
    - {protocol: no-zk-guard, out: ..., why: which other guard makes up for it, plan: plans/y.yaml}

Checkers declare which variants show each kind of finding (`checkers.engine.anomalies`). The runs of a row must show all kinds of
its variant, or those that `shows` names, where a variant has several rows. A plan is performed under the protocol of its row and
under `safe`, which must be VALID and live. If a variant lacks several fixes, `spares` names variants that lack only the others:
the checkers must not report the same for them, which shows that they caught the remaining fix.
Paths are relative to the file.

A masked variant is one that no known run distinguishes from `safe`. Its row says why, and names the plan that would have to
distinguish it, on which it is VALID and live.

`python -m highwater.catalogue.mutants corpus/mutants.yaml > docs/mutants.md` writes the document.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.anomalies import NOT_LIVE, UNKNOWN, Kind
from checkers.engine.checker import Checker
from checkers.engine.verdict import Validity, Verdict
from checkers.registry import ALL
from highwater.catalogue.trace import bugs
from highwater.errors import UsageError
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from nemesis.text import Document, TextError

# A mistake of the catalogue (bugs.yaml) names the invariants that it breaks, a checker those that each of its kinds breaks. A
# caught variant of a mistake must be caught by a kind that breaks an invariant of the mistake.
INVARIANTS: dict[str, str] = {
    "DUR": "a promised record, or one given to a reader, stays",
    "HWM": "high watermarks at brokers and consumers never go back, and cover only committed records",
    "SL": "one leader commits in each epoch",
    "LM": "logs match below the high watermark",
    "ISR": "every member of the ISR has every committed record",
    "RES": "no assigned partition is deleted, and no deleted partition is there",
    "MONO": "one offset holds one value, once",
    "LOG": "a producer that sends in the background logs what it gives up, and only that",
    "REQ": "a request that keeps the rules is not refused as if it broke one",
    "LIVE": "there is progress after healing",
    "META": "metadata converges",
    "CTL": "only one controller at a time has effect",
}


class Caught(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs in which checkers catch a known-bad protocol variant: exactly one of `plan` and `seeds`."""

    protocol: str
    out: str  # the fix that is taken out, in words
    shows: tuple[str, ...] = ()  # kinds of findings; empty: all that the variant is declared to show
    plan: str | None = None
    seeds: tuple[int, int] | None = None  # both ends included
    first: int | None = None  # a seed of the range that catches it, tried first
    faults: tuple[str, ...] = ()  # names that `derive` takes
    spares: tuple[str, ...] = ()  # protocols for which the checkers do not report these kinds on the same plan
    note: str = ""


class Catch(Struct, frozen=True, kw_only=True):
    """A finding that the runs of a row must show: a kind, or NOT_LIVE, or UNKNOWN, and the checker that reports it."""

    row: Caught
    checker: str
    kind: str

    @property
    def protocol(self) -> str:
        """The variant of the row."""
        return self.row.protocol


class Masked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol variant with a missing fix that no known run distinguishes from `safe`."""

    protocol: str
    out: str
    why: str
    plan: str


class Mutants(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of corpus/mutants.yaml: the known-bad protocol variants."""

    caught: tuple[Caught, ...]
    masked: tuple[Masked, ...] = ()


def load_mutants(path: Path) -> Mutants:
    """Read corpus/mutants.yaml from `path`. Raises UsageError with file and line if it is malformed."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        mutants = document.convert(Mutants, document.value)
        for index, row in enumerate(mutants.caught):
            if (row.plan is None) == (row.seeds is None):
                raise document.error(("caught", index), f"{row.protocol}: exactly one of plan and seeds must be given")
            if undeclared := sorted(set(row.shows) - {kind for _, kind in declared(row.protocol)}):
                raise document.error(
                    ("caught", index), f"{row.protocol}: no checker declares that it shows {', '.join(undeclared)}"
                )
            if row.seeds is not None and not (row.first is not None and row.seeds[0] <= row.first <= row.seeds[1]):
                raise document.error(("caught", index), f"{row.protocol}: first must be one of seeds")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    return mutants


def declared(protocol: str) -> Iterator[tuple[str, str]]:
    """The findings that this variant is declared to show: checker and kind. A kind of several checkers is the first one's."""
    listed: set[str] = set()
    for checker in ALL:
        for kind in checker.reports:
            if protocol in kind.shown_by and not (kind.is_anomaly and kind.name in listed):
                listed.add(kind.name)
                yield checker.name, kind.name


def catches(mutants: Mutants) -> Iterator[Catch]:
    """What the runs of all rows must show, row by row."""
    for row in mutants.caught:
        for checker, kind in declared(row.protocol):
            if not row.shows or kind in row.shows:
                yield Catch(row=row, checker=checker, kind=kind)


def plans_of(row: Caught | Masked, folder: Path) -> Iterable[Plan]:
    """The plans that may catch a known-bad protocol variant, that of seed `first` before the others.

    `folder` holds the file.
    """
    if row.plan is not None:
        yield checked(replace(load_plan(folder / row.plan), protocol=row.protocol, variant=None))
        return
    assert isinstance(row, Caught)
    assert row.seeds is not None
    low, high = row.seeds
    for seed in sorted(range(low, high + 1), key=lambda seed: (seed != row.first, seed)):
        yield derive(seed, protocol=row.protocol, faults=row.faults)


def is_caught(row: Catch, verdict: Verdict) -> bool:
    """Whether the verdict on a known-bad protocol variant has the expected anomaly, reported by the expected checker."""
    if row.kind == NOT_LIVE:
        return verdict.live is False
    if row.kind == UNKNOWN:
        return verdict.validity is Validity.UNKNOWN and any(why.startswith(f"{row.checker}:") for why in verdict.unchecked)
    return any(anomaly.checker == row.checker and anomaly.kind == row.kind for anomaly in verdict.anomalies)


def is_clean(verdict: Verdict) -> bool:
    """Whether the verdict is VALID and live (progress in time) without an excused loss, as that of `safe` must be."""
    return verdict.validity is Validity.VALID and verdict.live is True and not verdict.excused


def broken(checker: str, kind: str) -> tuple[str, ...]:
    """The names of the invariants that are broken if this checker reports this kind of finding."""
    names = {
        name
        for entry in ALL
        if entry.name == checker
        for reported in entry.reports
        if reported.name == kind
        for name in reported.breaks
    }
    return tuple(name for name in INVARIANTS if name in names)


def named(variant: str) -> dict[str, tuple[str, ...]]:
    """The known mistakes that a protocol variant has: id -> the invariants that each mistake breaks."""
    return {id_: bug.raises for id_, bug in bugs().items() if variant in bug.variants}


def by_invariant(caught: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
    """Rows for docs/mutants.md: protocol variant, known mistake, its invariants, and those shown broken by anomalies."""
    rows = list(dict.fromkeys(caught))
    for variant in dict.fromkeys(protocol for protocol, _, _ in rows):
        reports = [(checker, kind, broken(checker, kind)) for protocol, checker, kind in rows if protocol == variant]
        for id_, raises in named(variant).items():
            by = [
                f"{', '.join(name for name in names if name in raises)} by `{checker}`: `{kind}`"
                for checker, kind, names in reports
                if set(names) & set(raises)
            ]
            yield f"`{variant}`", id_, ", ".join(raises), "; ".join(by)


_HEAD = """# The known-bad protocols

Generated from `corpus/mutants.yaml` by `python -m highwater.catalogue.mutants corpus/mutants.yaml`; edit that file.

Each named variant of the protocol is `safe` with a fix taken out, or a step of Kafka's history.
The checker that guards the fix must catch it, and the same run on `safe` must be VALID and live.
If a variant lacks several fixes, *spares* names variants that lack only the others: the checker does not report them.
`tests/mutants` performs every row.
A plan is a scenario written by hand so that it happens for certain; seeds are drawn.
"""

_MASKED = """## Masked

No known run distinguishes these variants from `safe`: another guard makes up for the missing fix.
They stay as switches because that guard is a switch too, or may be missing in another implementation.
"""

_INVARIANTS = """## By invariant

The catalogue of mistakes names the invariants that each mistake breaks.
Checkers declare which invariants their findings break.
`tests/mutants` checks that every caught variant of a catalogued mistake is caught by an invariant that its entry names.
"""

_BLIND = """## Findings that no variant shows
"""


def document(mutants: Mutants) -> str:
    """The text of docs/mutants.md: every known-bad variant with the checker that catches it."""
    rows = [
        (f"`{row.protocol}`", row.out, _caught_by(mutants, row), _where(row), ", ".join(row.spares), row.note)
        for row in mutants.caught
    ]
    masked = [(f"`{row.protocol}`", row.out, row.why, f"`{row.plan}`") for row in mutants.masked]
    parts = [
        _HEAD,
        _table(("variant", "what it takes out", "caught by", "with", "spares", "note"), rows),
        _INVARIANTS,
        _table(("invariant", "states", "broken if a checker reports"), _speakers()),
        _table(
            ("variant", "mistake", "its entry names", "caught by"),
            by_invariant((row.protocol, row.checker, row.kind) for row in catches(mutants)),
        ),
        _MASKED,
        _table(("variant", "what it takes out", "why no run shows it", "shown VALID on"), masked),
        _BLIND,
        _table(("finding", "why, and what shows it"), _reasons_without_variant()),
    ]
    return "\n".join(parts)


def _caught_by(mutants: Mutants, row: Caught) -> str:
    return ", ".join(f"`{catch.checker}`: `{catch.kind}`" for catch in catches(mutants) if catch.row is row)


def _speakers() -> Iterator[tuple[str, ...]]:
    for name, words in INVARIANTS.items():
        kinds = [_kind_in_code(checker, kind) for checker in ALL for kind in checker.reports if name in kind.breaks]
        yield name, words, ", ".join(dict.fromkeys(kinds))


def _kind_in_code(checker: Checker, kind: Kind) -> str:
    return f"`{kind.name}`" if kind.is_anomaly else f"`{checker.name}`: `{kind.name}`"


def _reasons_without_variant() -> Iterator[tuple[str, ...]]:
    """Why kinds of anomaly are shown by no variant, with the kinds of each reason."""
    kinds_by_reason: dict[str, list[str]] = {}
    for checker in ALL:
        for kind in checker.reports:
            if kind.unshown:
                kinds_by_reason.setdefault(kind.unshown, []).append(_kind_in_code(checker, kind))
    for why, kinds in kinds_by_reason.items():
        yield ", ".join(dict.fromkeys(kinds)), why


def _where(row: Caught) -> str:
    """What catches the mutant: a plan, or the first seed of some with their faults."""
    if row.seeds is None:
        return f"`{row.plan}`"
    faults = f", faults {', '.join(row.faults)}" if row.faults else ""
    return f"seed {row.first}, or another of {row.seeds[0]} to {row.seeds[1]}{faults}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(document(load_mutants(Path(sys.argv[1]))))
