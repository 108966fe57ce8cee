"""The measure of pages: which function a page names, and whether it is the edited one."""

import pytest

from mutation.localise import Localised, judged, names_read, order_of, table
from mutation.rows import Row
from mutation.trees import ROOT

_IN_FUNCTION = Row(id="X-1", text="", edit="replica.isr.on_result a => b")
_OF_A_CONSTANT = Row(id="X-2", text="", edit="client.client LOOKUP_BACKOFF_MS = Millis(100) => LOOKUP_BACKOFF_MS = Millis(90)")


def _page(*names: str) -> str:
    told = "".join(f"<code>{name}</code> " for name in names)
    return f'<p id="first-call">It is <code>x</code>.</p><section id="otherwise"><p>{told}</p></section>'


def _hit(row: Row, page: str) -> str:
    return judged(row, "plans/x", page, ROOT).hit


def test_page_that_names_the_edited_function_is_exact() -> None:
    assert _hit(_IN_FUNCTION, _page("node.Node.handle", "replica/isr.on_result")) == "exact"
    assert _hit(_IN_FUNCTION, _page("replica/isr.on_result", "replica/isr._write")) == "near"
    assert _hit(_IN_FUNCTION, _page("replica/isr.on_result", "a.b", "a.c", "a.d")) == "another"
    assert _hit(_IN_FUNCTION, '<p id="first-call">No call.</p>') == "none"


def test_edited_constant_is_named_by_a_function_that_reads_it() -> None:
    assert "LOOKUP_BACKOFF_MS" in names_read(ROOT, "client/client.Client._on_metadata")
    assert names_read(ROOT, "client/client.Client.gone") == set()
    assert _hit(_OF_A_CONSTANT, _page("client/client.Client._on_metadata")) == "exact"
    assert _hit(_OF_A_CONSTANT, _page("client/client.Client._finish")) == "another"


@pytest.mark.slow
def test_same_seed_draws_the_same_edits() -> None:
    assert [row.id for row in order_of(79)] == [row.id for row in order_of(79)]
    assert [row.id for row in order_of(79)] != [row.id for row in order_of(80)]


def test_table_counts_every_drawn_edit() -> None:
    found = [Localised(row=_IN_FUNCTION, hit=hit) for hit in ("exact", "exact", "near", "none", "not red", "no page")]
    assert list(table(found, seed=7))[-1] == "| `Random(7)` | 6 | 1 | 1 | 2 | 1 | 1 |"
