"""The options of a command: the fields of one struct, from which the command line is made."""

from pathlib import Path
from typing import Annotated, get_type_hints

import pytest
import typer
from msgspec import Struct, defstruct
from msgspec.structs import fields
from typer.testing import CliRunner

from highwater.campaigns.load import Load
from highwater.cli import choosing, options
from highwater.cli.commands import COMMANDS, GROUPS, Command
from highwater.cli.declaration import CommandWithSections, parameters_of, takes
from tests.tidy.sources import ROOT

OPTIONS_MAX = 8  # of a command without a struct: more are hard to hand on, and near the wall of a function's lines


class Group(Struct, frozen=True, kw_only=True):
    """Options of several commands."""

    level: Annotated[int, typer.Option(min=0, help="How far.")] = 1
    folder: Annotated[Path | None, typer.Option(help="Where.")] = None


class Options(Struct, frozen=True, kw_only=True):
    """The options of one command."""

    name: Annotated[str, typer.Argument(help="What.")]
    group: Annotated[Group, "Places"] = Group(level=7)
    names: Annotated[list[str] | None, typer.Option("--named")] = None


def _called(kind: type[Struct], *arguments: str) -> tuple[list[Struct], str]:
    given_structs: list[Struct] = []

    @takes(kind)
    def command(options: Struct) -> int:
        """Do it."""
        given_structs.append(options)
        return 0

    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=CommandWithSections)(command)
    result = CliRunner().invoke(app, arguments)
    return given_structs, result.output


def test_command_gets_its_options_as_a_struct() -> None:
    given_structs, _ = _called(Options, "x", "--folder", "here", "--named", "a", "--named", "b")

    assert given_structs == [Options(name="x", group=Group(level=7, folder=Path("here")), names=["a", "b"])]


def test_group_has_the_defaults_of_its_field_and_a_heading() -> None:
    _, printed = _called(Options, "--help")

    places = printed.partition("Places:")[2].partition("Options:")[0]
    assert "--level" in places
    assert "default: 7" in places
    assert "--named" not in places


def test_new_field_is_a_new_option_in_help() -> None:
    wider = defstruct(
        "Wider",
        [("colour", Annotated[str, typer.Option(help="Which colour.")], "red")],
        bases=(Options,),
        frozen=True,
        kw_only=True,
    )

    _, before = _called(Options, "--help")
    _, after = _called(wider, "--help")

    assert "--colour" not in before
    assert "Which colour." in after.partition("--colour")[2]


@pytest.mark.parametrize("command", [*COMMANDS, *(member for group in GROUPS for member in group.members)], ids=lambda c: c.name)
def test_many_options_of_a_command_are_fields_of_a_struct(command: Command) -> None:
    """A command with its options in its signature stands at the longest length of a function, and no option can be added."""
    function = command.load()

    inner = getattr(function, "__wrapped__", None)
    if inner is None:
        assert len(function.__annotations__) <= OPTIONS_MAX
    else:
        (kind,) = (hint for name, hint in get_type_hints(inner).items() if name != "return")
        assert list(function.__annotations__) == [parameter.name for parameter in parameters_of(kind)]
        assert list(function.__annotations__)[-1] == "json"


def test_load_options_are_the_fields_of_requests() -> None:
    """An option that a request lacks would end `run`, `campaign` and `shrink` with a traceback."""
    declared, requested = ({field.name: field.default for field in fields(kind)} for kind in (options.Load, Load))

    assert declared == requested


def test_page_on_pytest_lists_the_options_of_choose() -> None:
    """Users' tests give them to the marker by name."""
    page = (ROOT / "docs/pytest.md").read_text()

    assert [name for name in choosing.Options.__annotations__ if f"`{name}=`" not in page] == []
