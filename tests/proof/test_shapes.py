"""The arrangements in time that the comparisons use are complete."""

import pytest

from proof.shapes import before, shapes, symmetries


@pytest.mark.parametrize(("size", "count"), [(1, 1), (2, 2), (3, 5), (4, 15), (5, 53)])
def test_call_overlap_patterns_are_as_many_as_published(size: int, count: int) -> None:
    """Bousquet-Mélou, Claesson, Dukes, Kitaev (2010); OEIS A022493."""
    assert len(shapes(size)) == count


def test_renamed_calls_keep_how_they_overlap_in_time() -> None:
    for spans in shapes(4):
        relation = before(spans)
        for names in symmetries(spans):
            assert frozenset((names[a], names[b]) for a, b in relation) == relation
