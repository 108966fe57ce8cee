"""The rows of clauses.yaml fit the code and the tests as they are; `python -m tests.clauses` proves them."""

import ast
from collections import Counter

from highwater.catalogue import trace
from tests.clauses import clauses
from tests.tidy.sources import ROOT, functions, sources


def test_every_clause_belongs_to_a_statement() -> None:
    known = {id_ for texts in trace.requirements().requirements.values() for id_ in texts}
    strange = [row.id for row in clauses() if row.id.partition(".")[0] not in known]
    twice = [id_ for id_, count in Counter(row.id for row in clauses()).items() if count > 1]

    assert (strange, twice) == ([], [])


def test_every_mutation_applies_exactly_once() -> None:
    """A mutation that no longer applies would prove its clause no more, and nobody would notice."""
    texts = {row.file: (ROOT / row.file).read_text(encoding="utf-8") for row in clauses()}

    assert [row.id for row in clauses() if texts[row.file].count(row.old) != 1] == []


def test_every_mutant_is_valid_python() -> None:
    for row in clauses():
        text = (ROOT / row.file).read_text(encoding="utf-8").replace(row.old, row.new)
        assert ast.parse(text, row.id) is not None


def test_every_test_of_a_clause_exists_and_cites_its_statement() -> None:
    docstrings = {f"{s.name}::{f.name}": ast.get_docstring(f) or "" for s in sources("tests") for f in functions(s)}
    cited = [(row.id, test, docstrings.get(test)) for row in clauses() for test in row.tests]

    assert [(id_, test) for id_, test, words in cited if words is None or id_.partition(".")[0] not in words] == []
    assert [row.id for row in clauses() if not row.tests] == []
