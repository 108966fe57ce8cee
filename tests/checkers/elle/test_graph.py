"""Strongly connected components of dependencies, by either library."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.elle.graph import rustworkx_components, scipy_components
from checkers.elle.table import Ints

_GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), min_size=1, max_size=30)
    )
)


@pytest.mark.parametrize("components", [scipy_components, rustworkx_components])
@given(_GRAPHS)
def test_edges_lead_to_lower_components(
    components: Callable[[Ints, Ints, int], Ints], graph: tuple[int, list[tuple[int, int]]]
) -> None:
    count, pairs = graph
    source, target = (np.array(end_nodes, np.int64) for end_nodes in zip(*pairs, strict=True))
    labels = components(source, target, count)

    assert all(labels[a] >= labels[b] for a, b in pairs)


@given(_GRAPHS)
def test_both_libraries_find_the_same_components(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    source, target = (np.array(end_nodes, np.int64) for end_nodes in zip(*pairs, strict=True))
    first, second = (find(source, target, count) for find in (scipy_components, rustworkx_components))

    assert [a == b for a in first for b in first] == [a == b for a in second for b in second]
