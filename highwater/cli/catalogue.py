"""`highwater protocols` and `highwater faults`: what can be run, and what can go wrong in it."""

import msgspec

from highwater.cli import options
from highwater.cli.output import say, say_json
from nemesis.kinds import FAMILIES, KINDS, MIXES, Kind
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
