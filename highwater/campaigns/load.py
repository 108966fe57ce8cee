"""How the plan of a seed loads the cluster: the options that `run`, `campaign` and `shrink` share, declared once.

`Request` and `Order` extend `Load`, and `highwater.cli.options.Load` adds their help. So a new field is in the plan's request, in
the command that repeats a run or a campaign, and in the name of a campaign's folder.
"""

from shlex import quote
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from highwater.plans.derive import MIXED
from nemesis.profiles import ProfileName


class Load(Struct, frozen=True, kw_only=True):
    """Values that a seed's plan takes from the command line. None: drawn from the seed. A field is named as its option."""

    profile: ProfileName = "within"
    seconds: int | None = None
    workload: str = MIXED
    # Of brokers: from the seed, as the protocol's document states them, or short ones that are the same for all seeds.
    settings: Literal["drawn", "document", "alike"] = "drawn"
    metrics: int | None = None  # ms between two scrapes of each broker; no scrapes if None


_FIELDS = fields(Load)  # asked for with each run of a campaign, and msgspec derives them anew each time


def load_of(given: Load) -> dict[str, Any]:
    """The fields of the load alone, by name, in order of declaration."""
    return {field.name: getattr(given, field.name) for field in _FIELDS}


def name_parts(load: Load) -> list[Any]:
    """What the load adds to the name of a campaign: its first three fields, and the later ones that are not at their default.

    So a campaign from before a field was added keeps its name.
    """
    later = [(field.name, value) for field in _FIELDS[3:] if (value := getattr(load, field.name)) != field.default]
    return [*list(load_of(load).values())[:3], *later]


def words_of_load(given: Load) -> list[str]:
    """The options of the command line that differ from their defaults, such as `--seconds 9`."""
    values = [(field.name, getattr(given, field.name)) for field in _FIELDS if getattr(given, field.name) != field.default]
    return [f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in values]
