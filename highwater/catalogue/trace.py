"""Traces each statement of the documents and each rule of the promise to the code and the tests that cite it.

`requirements.yaml` holds the statements (R), and the contradictions and unsafe points (C, U) with their settlement. `bugs.yaml`
holds the catalogue of known mistakes (B) with their switches. `promise.json` holds the rules of docs/promise.md (DUR, ORD, VIS,
CUT, LIVE, SILENT, VAC). `trace.json` lists where each of them is cited, and the clauses of each statement.
`python -m tests.tidy.protocol --rewrite` gathers both JSON files from the page, the code, the tests, corpus/mutants.yaml and
mutation/register, so that an installed highwater has them without these.

A statement is `proved` if all its clauses that are built are proved by a mutation (mutation/rows.py). A statement or rule is
`tested` if code and a test cite it, `not built` if requirements.yaml gives a reason, else `missing`.
"""

from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from nemesis.text import Document
from reference.config import VARIANTS, Variant

HERE = Path(__file__).parent
TRACE = HERE / "trace.json"
PROMISE = HERE / "promise.json"
PROVED, TESTED, MISSING = "proved", "tested", "missing"
T = TypeVar("T")


class Point(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contradiction (C) or unsafe passage (U) in the documents, with the config switches or the decision that settle it."""

    text: str
    switches: tuple[str, ...] = ()
    decided: str = ""


class Bug(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known mistake (B): the config switches that turn it on, the variants that have it, or why it is out of scope."""

    text: str
    switches: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()  # names of highwater.catalogue.mutants that this mistake breaks
    outside: str = ""


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of requirements.yaml: statements of the documents, contradictions and unsafe passages."""

    requirements: dict[str, dict[str, str]]  # document -> id -> text
    steps: dict[str, tuple[str, ...]]  # id -> the steps of V3 that it states
    not_built: dict[str, str]
    points: dict[str, Point]


class Rule(Struct, frozen=True, kw_only=True):
    """A rule of docs/promise.md: the number of its section, and its text as one line of Markdown."""

    section: int
    text: str


OF_EVERY_CLAUSE = "reference/test_transcripts.test_storms_do_what_was_accepted"
"""A test that is evidence of every clause at once, and cites none: docs/requirements.md says it at its head."""


class Clause(Struct, frozen=True, kw_only=True):
    """A clause of a statement: its text, the file that its mutation changes, the tests that catch it, and its status."""

    id: str
    text: str
    file: str
    tests: tuple[str, ...]
    status: str


class Cited(Struct, frozen=True):
    """The places in code and in tests that cite each statement, known mistake or rule, and the clauses of each statement."""

    code: dict[str, tuple[str, ...]] = {}
    tests: dict[str, tuple[str, ...]] = {}
    clauses: dict[str, tuple[Clause, ...]] = {}


class Row(Struct, frozen=True, kw_only=True):
    """One id of the catalogue, its text, the code and tests that cite it, its status, and the clauses of a statement."""

    id: str
    document: str
    text: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    status: str
    clauses: tuple[Clause, ...] = ()


def _read(name: str, type_: type[T]) -> T:
    path = HERE / name
    document = Document(path.read_text(encoding="utf-8"), name)
    return document.convert(type_, document.value)


@cache
def requirements() -> Requirements:
    """Read the statements, contradictions and unsafe passages of the documents from requirements.yaml."""
    return _read("requirements.yaml", Requirements)


@cache
def bugs() -> dict[str, Bug]:
    """Read the known mistakes from bugs.yaml."""
    return _read("bugs.yaml", dict[str, Bug])


@cache
def promise() -> dict[str, Rule]:
    """The rules of docs/promise.md by name, as the last `tests.tidy.protocol --rewrite` stored them."""
    return msgspec.json.decode(PROMISE.read_bytes(), type=dict[str, Rule])


def stored() -> Cited:
    """The citations in code and tests, as the last `tests.tidy.protocol --rewrite` stored them."""
    return msgspec.json.decode(TRACE.read_bytes(), type=Cited)


def rows(cited: Cited) -> tuple[Row, ...]:
    """All statements, contradictions, known mistakes and rules with their citations, in the order of their documents."""
    all_rows = []
    for document, texts in requirements().requirements.items():
        all_rows += [_statement(cited, id_, document, text) for id_, text in texts.items()]
    for id_, point in requirements().points.items():
        kind = "contradiction" if id_.startswith("C") else "unsafe point"
        all_rows.append(_row(cited, id_, kind, point.text, _status_of_point(cited, id_, point)))
    for id_, bug in bugs().items():
        all_rows.append(_row(cited, id_, "bug", bug.text, _status_of_bug(cited, id_, bug)))
    for id_, rule in promise().items():
        all_rows.append(_row(cited, id_, "promise", rule.text, _status(cited, id_)))
    return tuple(all_rows)


def _statement(cited: Cited, id_: str, document: str, text: str) -> Row:
    """The row of a statement, with the clauses that mutations prove."""
    row = _row(cited, id_, document, text, _status(cited, id_))
    clauses = cited.clauses.get(id_, ())
    built = {clause.status for clause in clauses if not clause.status.startswith("not built")}
    status = PROVED if row.status == TESTED and built == {PROVED} else row.status
    return structs.replace(row, clauses=clauses, status=status)


def _row(cited: Cited, id_: str, document: str, text: str, status: str) -> Row:
    return Row(id=id_, document=document, text=text, code=cited.code.get(id_, ()), tests=cited.tests.get(id_, ()), status=status)


def _status(cited: Cited, id_: str) -> str:
    """The status of a statement: why it is not built, or whether code and tests cite it."""
    reason = requirements().not_built.get(id_)
    if reason is not None:
        return f"not built: {reason}"
    return TESTED if cited.code.get(id_) and cited.tests.get(id_) else MISSING


def _exist(switches: tuple[str, ...]) -> bool:
    return all(switch in Variant.__struct_fields__ for switch in switches)


def _status_of_point(cited: Cited, id_: str, point: Point) -> str:
    """A point with switches is tested if they exist and a test cites it; a decided point is settled if anything cites it."""
    if point.switches:
        return TESTED if _exist(point.switches) and cited.tests.get(id_) else MISSING
    return f"decided: {point.decided}" if cited.code.get(id_) or cited.tests.get(id_) else MISSING


def _status_of_bug(cited: Cited, id_: str, bug: Bug) -> str:
    """The status of a known bug: why it lies outside, or whether switches reproduce it and tests cite it."""
    if bug.outside:
        return f"not part of it: {bug.outside}"
    is_reproduced = _exist(bug.switches) and all(name in VARIANTS for name in bug.variants)
    return TESTED if is_reproduced and cited.tests.get(id_) else MISSING


def chosen(all_rows: tuple[Row, ...], what: str) -> tuple[Row, ...]:
    """The statements, mistakes or rules that `what` selects: an id, a list (R, C, U, B, DUR …) or a document (V3, promise …)."""
    return tuple(row for row in all_rows if what in (row.id, row.id.partition("-")[0], row.document))


def is_settled(row: Row) -> bool:
    """Whether a statement or rule is accounted for by code, tests or a decision: its status is not `missing`."""
    return row.status != MISSING
