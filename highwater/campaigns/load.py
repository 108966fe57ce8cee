"""How the plan of a seed loads the cluster: the options that `run`, `campaign` and `shrink` share, declared once.

`Request` and `Order` extend `Load`, and `highwater.cli.options.Load` adds their help. So a new field is in the plan's request, in
the command that repeats a run or a campaign, and in the name of a campaign's folder.
"""

from shlex import quote
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from highwater.plans.derive import MIXED
from nemesis.profiles import ProfileName


class Load(Struct, frozen=True, kw_only=True):
    """Values that a seed's plan takes from the command line. None: drawn from the seed. A field is named as its option."""

    profile: ProfileName = "within"
    seconds: int | None = None
    workload: str = MIXED


def load_of(given: Load) -> dict[str, Any]:
    """The fields of the load alone, by name, in order of declaration."""
    return {field.name: getattr(given, field.name) for field in fields(Load)}


def words_of_load(given: Load) -> list[str]:
    """The options of the command line that differ from their defaults, such as `--seconds 9`."""
    values = [(field.name, getattr(given, field.name)) for field in fields(Load) if getattr(given, field.name) != field.default]
    return [f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in values]
