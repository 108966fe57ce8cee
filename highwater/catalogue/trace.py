"""From the text of the five documents to code to tests: what is stated, who does it, what shows it.

`requirements.yaml` holds the statements (R), the contradictions and unsafe points (C, U) and how they are settled; `bugs.yaml`
the catalogue of mistakes (B) and their switches. `trace.json` says where they are cited; it is gathered from code, tests and
corpus/mutants.yaml by `python -m tests.tidy.protocol --rewrite`, so that an installed highwater has it without the tests.

A statement is `tested` where code and a test cite it, `not built` where a reason stands for it, and `missing` otherwise.
"""

from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from nemesis.text import Document
from reference.config import VARIANTS, Variant

HERE = Path(__file__).parent
TRACE = HERE / "trace.json"
TESTED, MISSING = "tested", "missing"
T = TypeVar("T")


class Point(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contradiction or an unsafe point, and what settles it."""

    text: str
    switches: tuple[str, ...] = ()
    decided: str = ""


class Bug(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A catalogued mistake: the switches that make it, the named variants, or why it cannot be made here."""

    text: str
    switches: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()  # names of highwater.catalogue.invariants, any of which gives it away
    outside: str = ""


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of requirements.yaml."""

    requirements: dict[str, dict[str, str]]  # document -> id -> text
    steps: dict[str, tuple[str, ...]]  # id -> the steps of V3 that it states
    not_built: dict[str, str]
    points: dict[str, Point]


class Cited(Struct, frozen=True):
    """Where each id is cited."""

    code: dict[str, tuple[str, ...]] = {}
    tests: dict[str, tuple[str, ...]] = {}


class Row(Struct, frozen=True, kw_only=True):
    """One statement, point or bug with its trace."""

    id: str
    document: str
    text: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    status: str


def _read(name: str, type_: type[T]) -> T:
    path = HERE / name
    document = Document(path.read_text(encoding="utf-8"), name)
    return document.convert(type_, document.value)


@cache
def requirements() -> Requirements:
    """The statements and points."""
    return _read("requirements.yaml", Requirements)


@cache
def bugs() -> dict[str, Bug]:
    """The catalogue."""
    return _read("bugs.yaml", dict[str, Bug])


def stored() -> Cited:
    """The citations as they were gathered last."""
    return msgspec.json.decode(TRACE.read_bytes(), type=Cited)


def rows(cited: Cited) -> tuple[Row, ...]:
    """All of them, in the order of the files."""
    found = []
    for document, texts in requirements().requirements.items():
        found += [_row(cited, id_, document, text, _status(cited, id_)) for id_, text in texts.items()]
    for id_, point in requirements().points.items():
        kind = "contradiction" if id_.startswith("C") else "unsafe point"
        found.append(_row(cited, id_, kind, point.text, _status_of_point(cited, id_, point)))
    for id_, bug in bugs().items():
        found.append(_row(cited, id_, "bug", bug.text, _status_of_bug(cited, id_, bug)))
    return tuple(found)


def _row(cited: Cited, id_: str, document: str, text: str, status: str) -> Row:
    return Row(id=id_, document=document, text=text, code=cited.code.get(id_, ()), tests=cited.tests.get(id_, ()), status=status)


def _status(cited: Cited, id_: str) -> str:
    reason = requirements().not_built.get(id_)
    if reason is not None:
        return f"not built: {reason}"
    return TESTED if cited.code.get(id_) and cited.tests.get(id_) else MISSING


def _exist(switches: tuple[str, ...]) -> bool:
    return all(switch in Variant.__struct_fields__ for switch in switches)


def _status_of_point(cited: Cited, id_: str, point: Point) -> str:
    """A switch wants a test that cites the point, a decision the place that keeps to it."""
    if point.switches:
        return TESTED if _exist(point.switches) and cited.tests.get(id_) else MISSING
    return f"decided: {point.decided}" if cited.code.get(id_) or cited.tests.get(id_) else MISSING


def _status_of_bug(cited: Cited, id_: str, bug: Bug) -> str:
    if bug.outside:
        return f"not part of it: {bug.outside}"
    made = _exist(bug.switches) and all(name in VARIANTS for name in bug.variants)
    return TESTED if made and cited.tests.get(id_) else MISSING


def chosen(found: tuple[Row, ...], what: str) -> tuple[Row, ...]:
    """Those that `what` names: an id, the letter of a list, or a document."""
    return tuple(row for row in found if what in (row.id, row.id[0], row.document))


def is_settled(row: Row) -> bool:
    """Nothing is left to do for it."""
    return row.status != MISSING
