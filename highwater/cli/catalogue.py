"""`highwater protocols`, `protocol` and `faults`: what can be run, what it is made from, what can go wrong."""

from typing import Annotated

import msgspec
import typer

from highwater.catalogue import trace
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from nemesis.blows import Kind
from nemesis.kinds import FAMILIES, KINDS, MIXES
from reference.config import SAFE, VARIANTS, Variant


def _thrown(variant: Variant) -> dict[str, object]:
    """The switches of a variant that differ from `safe`."""
    safe = msgspec.structs.asdict(SAFE)
    return {name: value for name, value in msgspec.structs.asdict(variant).items() if value != safe[name]}


def protocols(*, json: options.AsJson = False) -> int:
    """List the protocol variants with the switches in which each differs from `safe`."""
    if json:
        entries = [{"name": name, "switches": msgspec.structs.asdict(v), "differs": _thrown(v)} for name, v in VARIANTS.items()]
        say_json({"protocols": entries})
        return 0
    width = max(len(name) for name in VARIANTS)
    for name, variant in VARIANTS.items():
        words = " ".join(f"{switch}={str(value).lower()}" for switch, value in _thrown(variant).items())
        say(f"{name:<{width}}  {words or 'all fixes'}")
    return 0


_Which = Annotated[str, typer.Argument(metavar="WHAT", help="R, C, U or B, a document (V3, article, KIP-343 …), or one id.")]


def protocol(what: _Which = "R", *, json: options.AsJson = False) -> int:
    """List the statements of the documents with the code that does them and the tests that show them."""
    found = trace.chosen(trace.rows(trace.stored()), what)
    if not found:
        raise UsageError(f"{what} is no id, list or document; known are R, C, U, B and {', '.join(_documents())}")
    if json:
        say_json(found)
        return 0
    for row in found:
        say(f"{row.id}  {row.status.partition(':')[0]:<11}  {row.text}")
        if what == row.id:
            _in_full(row)
    if what not in [row.id for row in found]:
        settled = sum(trace.is_settled(row) for row in found)
        say(f"{len(found)} rows, {sum(row.status == trace.TESTED for row in found)} tested, {len(found) - settled} missing")
    return 0


def _documents() -> list[str]:
    return list(trace.requirements().requirements)


def _in_full(row: trace.Row) -> None:
    say(f"  document  {row.document}")
    say(f"  status    {row.status}")
    for words, places in (("code", row.code), ("tests", row.tests)):
        for place in places:
            say(f"  {words:<8}  {place}")


def faults(*, json: options.AsJson = False) -> int:
    """List the kinds of faults by family, and the mixes, that --faults takes."""
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
