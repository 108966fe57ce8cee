"""Every statement and rule is cited by code and a test, or has a reason; the generated tables and traces are up to date."""

import re
from functools import cache
from pathlib import Path

import pytest

from highwater.catalogue import trace
from reference.config import VARIANTS, Variant
from tests.tidy.promise import rules_now
from tests.tidy.protocol import (
    DOCUMENT,
    REQUIREMENTS,
    STEPS,
    cited_in,
    documents,
    encoded,
    gathered,
    known_missing,
    missing,
)

# Parses all code and tests, so not while pytest imports this module: every process of a parallel run does that.
pytestmark = pytest.mark.xdist_group("citations")


@cache
def trace_rows() -> tuple[trace.Row, ...]:
    return trace.rows(gathered())


@pytest.mark.parametrize("path", [DOCUMENT, REQUIREMENTS], ids=lambda path: path.name)
def test_generated_protocol_tables_are_up_to_date(path: Path) -> None:
    """If this fails, run `python -m tests.tidy.protocol --rewrite`."""
    assert path.read_text(encoding="utf-8") == documents(trace_rows())[path]


def test_stored_promise_rules_equal_the_promise_page() -> None:
    """An installed highwater shows the rules of docs/promise.md as they were when it was built."""
    assert trace.PROMISE.read_bytes() == encoded(rules_now())


def test_stored_citations_are_up_to_date() -> None:
    """An installed highwater shows the citations of the code and tests that it was built from."""
    assert trace.TRACE.read_bytes() == encoded(gathered())


def test_every_v3_step_is_cited_by_code_and_test() -> None:
    code, tests = cited_in("reference"), cited_in("tests/reference")

    assert [step for step in STEPS if step not in code] == []
    assert [step for step in STEPS if step not in tests] == []


def test_only_existing_v3_steps_are_cited() -> None:
    cited = {*cited_in("reference"), *cited_in("tests/reference")}

    assert sorted(cited - set(STEPS)) == []


def test_unimplemented_statements_are_exactly_the_listed_ones() -> None:
    """The list in missing.txt may only shrink; --rewrite removes the ids that are done."""
    assert [id_ for id_ in missing(trace_rows()) if id_ not in known_missing()] == []
    assert [id_ for id_ in known_missing() if id_ not in missing(trace_rows())] == []


def test_not_built_statement_has_a_reason_with_a_source() -> None:
    """A reason must cite a document or a settled contradiction."""
    source = re.compile(r"V3|article|KIP-\d+|[CU]-\d\d")
    built = set(trace.requirements().not_built)

    assert [id_ for id_, reason in trace.requirements().not_built.items() if not source.search(reason)] == []
    assert built <= {row.id for row in trace_rows()}


def test_every_requirement_id_is_in_the_generated_table() -> None:
    ids = {row.id for row in trace_rows()}
    stated = [*range(1, 84), *range(130, 159), *range(180, 208), *range(230, 258), *range(290, 322)]

    wanted = {f"R-{n:03}" for n in stated}
    wanted |= {f"{kind}-{n:02}" for kind, count in (("C", 26), ("U", 24), ("B", 70)) for n in range(1, count + 1)}

    assert wanted == ids - set(trace.promise())


@pytest.mark.slow
def test_only_existing_requirement_ids_are_cited() -> None:
    cited = gathered()

    assert sorted({*cited.code, *cited.tests} - {row.id for row in trace_rows()}) == []


def test_every_unspecified_point_has_a_config_switch_or_reason() -> None:
    points = trace.requirements().points

    assert [id_ for id_, point in points.items() if not point.switches and not point.decided] == []


def test_named_config_switches_and_protocol_variants_exist() -> None:
    """Except those of ids that are known to be missing."""
    switches = {id_: point.switches for id_, point in trace.requirements().points.items()}
    switches |= {id_: bug.switches for id_, bug in trace.bugs().items()}
    unknown = {id_ for id_, names in switches.items() for name in names if name not in Variant.__struct_fields__}
    unknown |= {id_ for id_, bug in trace.bugs().items() for name in bug.variants if name not in VARIANTS}

    assert sorted(unknown - set(known_missing())) == []
