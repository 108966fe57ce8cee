"""`highwater protocols`, `protocol` and `faults`: lists of the protocol variants, of the statements and rules, of the faults."""

from typing import Annotated

import msgspec
import typer

from highwater.catalogue import trace
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from history.fault_kinds import FAMILIES
from nemesis.blows import Kind
from nemesis.kinds import KINDS, MIXES
from reference.config import SAFE, VARIANTS, Variant


def _differing(variant: Variant) -> dict[str, object]:
    """Name and value of each config switch of a protocol variant that differs from `safe`."""
    safe = msgspec.structs.asdict(SAFE)
    return {name: value for name, value in msgspec.structs.asdict(variant).items() if value != safe[name]}


def protocols(*, json: options.AsJson = False) -> int:
    """List the protocol variants, each with the config switches in which it differs from `safe`."""
    if json:
        entries = [
            {"name": name, "switches": msgspec.structs.asdict(v), "differs": _differing(v)} for name, v in VARIANTS.items()
        ]
        say_json({"protocols": entries})
        return 0
    width = max(len(name) for name in VARIANTS)
    for name, variant in VARIANTS.items():
        words = " ".join(f"{switch}={str(value).lower()}" for switch, value in _differing(variant).items())
        say(f"{name:<{width}}  {words or 'all fixes'}")
    return 0


_Which = Annotated[
    str, typer.Argument(metavar="WHAT", help="A list (R, C, U, B, DUR …), a document (V3, KIP-343, promise …), or one id.")
]


def protocol(what: _Which = "R", *, json: options.AsJson = False) -> int:
    """List the statements of the documents, or the rules of the promise, with the code and the tests that cite them."""
    chosen_rows = trace.chosen(trace.rows(trace.stored()), what)
    if not chosen_rows:
        raise UsageError(f"{what} is not an id, list or document; known: {', '.join([*_lists(), *_documents()])}")
    if json:
        say_json({"rows": chosen_rows})
        return 0
    for row in chosen_rows:
        say(f"{row.id}  {row.status.partition(':')[0]:<11}  {row.text}")
        if what == row.id:
            _say_in_full(row)
    if what not in [row.id for row in chosen_rows]:
        settled = sum(trace.is_settled(row) for row in chosen_rows)
        proved, tested = (sum(row.status == status for row in chosen_rows) for status in (trace.PROVED, trace.TESTED))
        say(f"{len(chosen_rows)} rows, {proved} proved, {tested} tested, {len(chosen_rows) - settled} missing")
    return 0


def _lists() -> list[str]:
    return ["R", "C", "U", "B", *dict.fromkeys(name.partition("-")[0] for name in trace.promise())]


def _documents() -> list[str]:
    return [*trace.requirements().requirements, "promise"]


def _say_in_full(row: trace.Row) -> None:
    """Print a statement with its document, status, code, tests and clauses."""
    say(f"  document  {row.document}")
    say(f"  status    {row.status}")
    checkers = tuple(place for place in row.code if place.startswith("checkers/"))
    others = tuple(place for place in row.code if place not in checkers)
    tests = (*row.tests, *((trace.OF_EVERY_CLAUSE,) if row.clauses else ()))
    for words, places in (("checked", checkers), ("code", others), ("tests", tests)):
        for place in places:
            say(f"  {words:<8}  {place}")
    for clause in row.clauses:
        say(f"  {clause.id:<8}  {clause.status.partition(':')[0]:<9}  {clause.text}")


def faults(*, json: options.AsJson = False) -> int:
    """List the fault kinds by family and the mixes; --faults takes any of these names."""
    if json:
        say_json({"kinds": [_entry(entry) for entry in KINDS], "mixes": MIXES})
        return 0
    width = max(len(entry.name) for entry in KINDS)
    for family in FAMILIES:
        say(f"{family}:")
        for entry in (entry for entry in KINDS if entry.family == family):
            harm = "" if entry.destroys == "nothing" else f"destroys {entry.destroys}"
            say(f"  {entry.name:<{width}}  {harm}".rstrip())
    say("mixes:")
    for name, members in MIXES.items():
        say(f"  {name:<{width}}  {' '.join(members) or 'no fault at all'}")
    return 0


def _entry(entry: Kind) -> dict[str, object]:
    return {"name": entry.name, "family": entry.family, "destroys": entry.destroys}
