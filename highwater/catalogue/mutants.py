"""The known-bad protocols, and who catches each: `corpus/mutants.yaml`.

A laboratory that finds nothing proves nothing until it has been seen to find what is there. So every variant of the protocol but
`safe` stands in one of two lists:

    caught:
    - {protocol: kip101, out: what is taken out, checker: offset-agreement, kind: inconsistent-offsets, plan: plans/x.yaml}
    - {protocol: v3, out: ..., checker: acked-loss, kind: lost-write, seeds: [0, 59], first: 1}
    masked:
    - {protocol: no-zk-guard, out: ..., why: which other guard makes up for it, plan: plans/y.yaml}

`kind` is a kind of anomaly, `not-live`, or `unknown` for a run that the checker refuses to call VALID. A plan is performed under
the protocol of its row and under `safe`, which must come out VALID and live. Where a variant takes out several things `spares`
names those that take out the others alone: the checker must not say the same of them, so it is the rest that was caught.
Paths are relative to the file.

A masked variant is one that no run of this laboratory is known to tell from `safe`: its row says why, and names a plan that would
have to, on which it comes out as clean.

`python -m highwater.catalogue.mutants corpus/mutants.yaml > docs/mutants.md` writes the document.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from checkers.verdict import Validity, Verdict
from highwater.catalogue.invariants import INVARIANTS, NOT_LIVE, table
from highwater.errors import UsageError
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from nemesis.text import Document, TextError

UNKNOWN = "unknown"


class Caught(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A variant and one way to catch it; exactly one of `plan` and `seeds`."""

    protocol: str
    out: str  # what is taken out, for people
    checker: str
    kind: str  # of an anomaly, or NOT_LIVE, or UNKNOWN
    plan: str | None = None
    seeds: tuple[int, int] | None = None  # both ends included
    first: int | None = None  # one of them that catches it, to begin with
    faults: tuple[str, ...] = ()  # as derive takes them
    spares: tuple[str, ...] = ()  # protocols of which the checker does not say this in the same run
    note: str = ""


class Masked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A variant that nothing known tells from `safe`."""

    protocol: str
    out: str
    why: str
    plan: str


class Mutants(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    caught: tuple[Caught, ...]
    masked: tuple[Masked, ...] = ()


def load_mutants(path: Path) -> Mutants:
    """The lists in a file. UsageError with file and line where it is malformed."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        found = document.convert(Mutants, document.value)
        for index, row in enumerate(found.caught):
            if (row.plan is None) == (row.seeds is None):
                raise document.error(("caught", index), f"{row.protocol}: exactly one of plan and seeds is wanted")
            if row.seeds is not None and not (row.first is not None and row.seeds[0] <= row.first <= row.seeds[1]):
                raise document.error(("caught", index), f"{row.protocol}: seeds want a first one among them")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    return found


def plans_of(row: Caught | Masked, folder: Path) -> Iterable[Plan]:
    """The plans to try, most promising first, each under the protocol of the row. `folder` is that of the file."""
    if row.plan is not None:
        yield checked(replace(load_plan(folder / row.plan), protocol=row.protocol, variant=None))
        return
    assert isinstance(row, Caught)
    assert row.seeds is not None
    low, high = row.seeds
    for seed in sorted(range(low, high + 1), key=lambda seed: (seed != row.first, seed)):
        yield derive(seed, protocol=row.protocol, faults=row.faults)


def is_caught(row: Caught, verdict: Verdict) -> bool:
    """Whether the checker of this row says what the row says it would."""
    if row.kind == NOT_LIVE:
        return verdict.live is False
    if row.kind == UNKNOWN:
        return verdict.validity is Validity.UNKNOWN and any(why.startswith(f"{row.checker}:") for why in verdict.unchecked)
    return any(anomaly.checker == row.checker and anomaly.kind == row.kind for anomaly in verdict.anomalies)


def is_clean(verdict: Verdict) -> bool:
    """As `safe` must come out of it."""
    return verdict.validity is Validity.VALID and verdict.live is True and not verdict.excused


_HEAD = """# The known-bad protocols

Generated from `corpus/mutants.yaml` by `python -m highwater.catalogue.mutants corpus/mutants.yaml`; edit that file.

Each named variant of the protocol is `safe` with a fix taken out, or a step of history.
It must be caught, by the checker that guards the fix, and the same run on `safe` must be VALID and live.
Where a variant lacks several things, *spares* names those that lack only the others: the checker does not say this of them.
`tests/mutants` performs every row.
A plan is a scenario made certain by hand; seeds are drawn.
"""

_MASKED = """## Masked

No run of this laboratory is known to tell these from `safe`: another guard makes up for what is taken out.
They stay as switches because the guard that makes up for them is one too, or may be missing on another substrate.
"""

_INVARIANTS = """## By invariant

The catalogue of mistakes names the invariants that each of them breaks. `invariants.py` says which checker speaks for
which, and `tests/mutants` that every caught variant of a catalogued mistake is caught by one that its entry names.
"""

_BLIND = """## Checkers without a mutant here

`assertions`, `availability-cluster` and `convergence` are caught out by broken machines: `tests/mutants/test_machines.py`;
`fencing`, `incarnations`, `polls`, `progress` and the kinds of `state-writes` and `deletion` that no switch sets off by machines
that usurp, cling and leave out: `tests/mutants/test_usurpers.py`. `committed-offsets` judges what clients of other clusters did;
a store of positions that forgets is in `tests/checkers/test_committed_offsets.py`.
`assumptions` looks at the history, not at the protocol; its bad histories are in `corpus/histories`.
"""


def document(mutants: Mutants) -> str:
    """docs/mutants.md."""
    rows = [
        (f"`{row.protocol}`", row.out, f"`{row.checker}`: `{row.kind}`", _where(row), ", ".join(row.spares), row.note)
        for row in mutants.caught
    ]
    masked = [(f"`{row.protocol}`", row.out, row.why, f"`{row.plan}`") for row in mutants.masked]
    parts = [
        _HEAD,
        _table(("variant", "what it takes out", "caught by", "with", "spares", "note"), rows),
        _INVARIANTS,
        _table(("invariant", "holds", "spoken for by"), _speakers()),
        _table(
            ("variant", "mistake", "its entry names", "caught by"),
            table((row.protocol, row.checker, row.kind) for row in mutants.caught),
        ),
        _MASKED,
        _table(("variant", "what it takes out", "why nobody notices", "shown VALID on"), masked),
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
