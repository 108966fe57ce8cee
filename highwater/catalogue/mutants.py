"""The known-bad protocols and the checker that catches each: `corpus/mutants.yaml`.

A harness that finds nothing proves nothing unless it is known to find planted mistakes. So every variant of the protocol except
`safe` is in one of two lists:

    caught:
    - {protocol: kip101, out: what is taken out, checker: offset-agreement, kind: inconsistent-offsets, plan: plans/x.yaml}
    - {protocol: v3, out: ..., checker: acked-loss, kind: lost-write, seeds: [0, 59], first: 1}
    masked:
    - {protocol: no-zk-guard, out: ..., why: which other guard makes up for it, plan: plans/y.yaml}

`kind` is a kind of anomaly, `not-live`, or `unknown` for a run that the checker refuses to call VALID. A plan is performed under
the protocol of its row and under `safe`, which must be VALID and live. If a variant lacks several fixes, `spares` names variants
that lack only the others: the checker must not report the same for them, which shows that it caught the remaining fix.
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

from checkers.engine.verdict import Validity, Verdict
from highwater.catalogue.invariants import INVARIANTS, NOT_LIVE, table
from highwater.errors import UsageError
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from nemesis.text import Document, TextError

UNKNOWN = "unknown"


class Caught(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known-bad protocol variant and the runs in which a checker catches it: exactly one of `plan` and `seeds`."""

    protocol: str
    out: str  # the fix that is taken out, in words
    checker: str
    kind: str  # of an anomaly, or NOT_LIVE, or UNKNOWN
    plan: str | None = None
    seeds: tuple[int, int] | None = None  # both ends included
    first: int | None = None  # a seed of the range that catches it, tried first
    faults: tuple[str, ...] = ()  # names that `derive` takes
    spares: tuple[str, ...] = ()  # protocols for which the checker does not report this kind on the same plan
    note: str = ""


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
        found = document.convert(Mutants, document.value)
        for index, row in enumerate(found.caught):
            if (row.plan is None) == (row.seeds is None):
                raise document.error(("caught", index), f"{row.protocol}: exactly one of plan and seeds must be given")
            if row.seeds is not None and not (row.first is not None and row.seeds[0] <= row.first <= row.seeds[1]):
                raise document.error(("caught", index), f"{row.protocol}: first must be one of seeds")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    return found


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


def is_caught(row: Caught, verdict: Verdict) -> bool:
    """Whether the verdict on a known-bad protocol variant has the expected anomaly, reported by the expected checker."""
    if row.kind == NOT_LIVE:
        return verdict.live is False
    if row.kind == UNKNOWN:
        return verdict.validity is Validity.UNKNOWN and any(why.startswith(f"{row.checker}:") for why in verdict.unchecked)
    return any(anomaly.checker == row.checker and anomaly.kind == row.kind for anomaly in verdict.anomalies)


def is_clean(verdict: Verdict) -> bool:
    """Whether the verdict is VALID and live (progress in time) without an excused loss, as that of `safe` must be."""
    return verdict.validity is Validity.VALID and verdict.live is True and not verdict.excused


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
`invariants.py` assigns kinds of anomalies to invariants.
`tests/mutants` checks that every caught variant of a catalogued mistake is caught by an invariant that its entry names.
"""

_BLIND = """## Checkers without a mutant here

Machines broken by hand set off `assertions`, `availability-cluster` and `convergence` (`tests/mutants/test_machines.py`).
Machines that usurp a role, keep a lost one or leave out steps set off `fencing`, `incarnations`, `polls`, `progress`, and the
kinds of `state-writes` and `deletion` that no switch sets off (`tests/mutants/test_usurpers.py`).
`committed-offsets` judges clients of other clusters.
`tests/checkers/test_committed_offsets.py` has a store that forgets positions.
`assumptions` looks at the history, not at the protocol; its bad histories are in `corpus/histories`.
"""


def document(mutants: Mutants) -> str:
    """The text of docs/mutants.md: every known-bad variant with the checker that catches it."""
    rows = [
        (f"`{row.protocol}`", row.out, f"`{row.checker}`: `{row.kind}`", _where(row), ", ".join(row.spares), row.note)
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
            table((row.protocol, row.checker, row.kind) for row in mutants.caught),
        ),
        _MASKED,
        _table(("variant", "what it takes out", "why no run shows it", "shown VALID on"), masked),
        _BLIND,
    ]
    return "\n".join(parts)


def _speakers() -> Iterator[tuple[str, ...]]:
    for name, invariant in INVARIANTS.items():
        said = [f"`{kind}`" for kind in invariant.kinds] + [f"`{checker}`: `{NOT_LIVE}`" for checker in invariant.not_live]
        yield name, invariant.words, ", ".join(said)


def _where(row: Caught) -> str:
    if row.seeds is None:
        return f"`{row.plan}`"
    faults = f", faults {', '.join(row.faults)}" if row.faults else ""
    return f"seed {row.first}, or another of {row.seeds[0]} to {row.seeds[1]}{faults}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(document(load_mutants(Path(sys.argv[1]))))
