"""Assertions in the helpers of tests."""

import pytest

from tests.reference.lab import Lab
from tests.reference.recorded import leader_of


def test_failing_assert_of_a_helper_shows_its_values() -> None:
    """Otherwise a test that fails in a helper says no more than AssertionError."""
    with pytest.raises(AssertionError, match=r"isinstance\(Follower\(leader=1"):
        leader_of(Lab(2), 2)
