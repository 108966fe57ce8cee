"""`highwater protocol`: the statements of the documents with their code and their tests."""

import msgspec
import pytest
from msgspec.structs import replace

from highwater.catalogue import trace
from highwater.catalogue.trace import Cited
from highwater.cli.main import run_command_line
from tests.tidy.sources import ROOT


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command_line(["protocol", *arguments]) == 0
    return capsys.readouterr().out


def test_protocol_json_lists_every_statement(capsys: pytest.CaptureFixture[str]) -> None:
    """The output is a list of objects with exactly these keys."""
    rows = msgspec.json.decode(output_of(capsys, "--json"))["rows"]

    assert [row["id"] for row in rows] == [row.id for row in trace.chosen(trace.rows(trace.stored()), "R")]
    assert {key for row in rows for key in row} == {"id", "document", "text", "code", "tests", "status", "clauses"}


@pytest.mark.parametrize(
    ("what", "first"),
    [("C", "C-01"), ("B", "B-01"), ("KIP-343", "R-180"), ("R-057", "R-057"), ("promise", "DUR-1"), ("CUT", "CUT-1")],
)
def test_protocol_takes_a_list_a_document_or_an_id(what: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, what).startswith(first)


def test_protocol_prints_one_statement_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "R-057")

    assert "reference/replica/isr.maybe_shrink" in text
    assert "test_v3_follower_many_records_behind_leaves_the_isr" in text


def test_statement_names_the_evidence_of_every_clause(capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in no row of the register, and a reader of one statement must not miss it. It is there."""
    file, _, name = trace.OF_EVERY_CLAUSE.partition(".")

    assert f"  tests     {trace.OF_EVERY_CLAUSE}\n" in output_of(capsys, "R-057")
    assert f"def {name}(" in (ROOT / "tests" / f"{file}.py").read_text()
    assert trace.OF_EVERY_CLAUSE not in output_of(capsys, "DUR-3")


def test_rule_of_the_promise_is_printed_with_its_checkers(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "DUR-3")

    assert "no counted-on replica holds the record" in text
    assert "  checked   checkers/durability/acked_loss\n" in text
    assert "  tests     checkers/test_acked_loss" in text


def test_protocol_list_c_does_not_include_the_cut_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert "CUT-1" not in output_of(capsys, "C")


def test_protocol_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["protocol", "R-0"]) == 2
    assert "R-0" in capsys.readouterr().err


def test_statement_without_code_and_test_is_missing() -> None:
    """Code without a test and a test without code are not enough."""
    both = Cited({"R-001": ("a.b",), "R-002": ("a.b",)}, {"R-001": ("t",), "R-003": ("t",)}, trace.stored().clauses)
    status = {row.id: row.status for row in trace.rows(both)}

    assert [status[f"R-00{n}"] for n in (1, 2, 3)] == ["proved", "missing", "missing"]
    assert status["R-047"].startswith("not built: ")


def test_statement_is_proved_only_if_all_its_clauses_are() -> None:
    first, *others = trace.stored().clauses["R-001"]

    for clauses, expected in [((first, *others), "proved"), ((replace(first, status="unproved"), *others), "tested")]:
        cited = Cited({"R-001": ("a.b",)}, {"R-001": ("t",)}, {"R-001": clauses})
        (row,) = trace.chosen(trace.rows(cited), "R-001")
        assert (row.status, row.clauses) == (expected, clauses)
