"""The options of a command are the fields of one struct, and this module makes the parameters that Typer reads from it.

    class Options(Struct, frozen=True, kw_only=True):
        file: Annotated[Path, typer.Argument(help="A plan.")]
        under: options.UnderTest = options.UnderTest()
        json: options.AsJson = False

    @takes(Options)
    def command(given: Options) -> int: ...

A field has the name, the type, the help and the default of its option. A field of another struct is a group: its options stand in
its place and have the defaults of the field's value, so that a command can change them. A text in the annotation of a group or an
option is the heading under which --help lists it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import copy
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

import typer
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields
from typer.core import TyperCommand
from typer.models import ParameterInfo

Given = TypeVar("Given", bound=Struct)
_LAST = "Options"  # heading of the options outside of groups


def takes(kind: type[Given]) -> Callable[[Callable[[Given], int]], Callable[..., int]]:
    """Give a command that takes a struct the parameters that the struct declares."""
    parameters = list(parameters_of(kind))

    def with_parameters(command: Callable[[Given], int]) -> Callable[..., int]:
        @wraps(command)
        def called(**values: object) -> int:
            return command(filled(kind, values))

        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # `inspect.signature` reads it
        return called

    return with_parameters


def parameters_of(kind: type[Struct], defaults: Struct | None = None, heading: str | None = None) -> Iterator[Parameter]:
    """The parameters that a struct declares, in the order of its fields; `defaults` replaces its own defaults."""
    for name, hint, default in _declared_fields(kind):
        value = default if defaults is None else getattr(defaults, name)
        own = next((text for text in get_args(hint)[1:] if isinstance(text, str)), heading)
        group = _group(hint)
        if group is None:
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=_with_heading(hint, own))
        else:
            yield from parameters_of(group, value, own)


def _declared_fields(kind: type[Struct]) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default of each field."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield field.name, hints[field.name], Parameter.empty if field.default is NODEFAULT else field.default


def _group(hint: Any) -> type[Struct] | None:
    """The struct of a group; None for an option."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None


def _with_heading(hint: Any, heading: str | None) -> Any:
    """The annotation of an option, changed so that --help lists it under this heading."""
    kind, *infos = get_args(hint)
    parameters = []
    for info in infos:
        parameters.append(copy(info))
        if isinstance(info, ParameterInfo):
            parameters[-1].rich_help_panel = heading
    return Annotated[(kind, *parameters)]


def filled(kind: type[Given], values: Mapping[str, object]) -> Given:
    """The struct with these values of its options, by name; the others have their defaults."""
    defaults = {parameter.name: parameter.default for parameter in parameters_of(kind)}
    return _build_struct(kind, {**defaults, **values})


def _build_struct(kind: type[Given], values: Mapping[str, object]) -> Given:
    """The struct with these values of its options, by name; groups of options become structs within it."""
    found = {}
    for name, hint, _ in _declared_fields(kind):
        group = _group(hint)
        found[name] = values[name] if group is None else _build_struct(group, values)
    return kind(**found)


class _Formatter(Protocol):
    """The part of Typer's formatter of help that sections need."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Indent what is written in the context, under a heading."""

    def write_dl(self, rows: list[tuple[str, str]]) -> None:
        """Write names with their explanations."""


class CommandWithSections(TyperCommand):
    """A command whose --help lists options under the headings of their groups."""

    def format_options(  # type: ignore[override]  # Typer has the context class of click within itself
        self, ctx: typer.Context, formatter: _Formatter
    ) -> None:
        """Write arguments, groups, and then the other options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            heading = getattr(param, "rich_help_panel", None) or _LAST
            if row is not None:
                sections.setdefault("Arguments" if param.param_type_name == "argument" else heading, []).append(row)
        sections[_LAST] = sections.pop(_LAST, [])
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
