"""However many parts of a run cannot be ended, all are tried."""

import pytest

from highwater.backends.real.site import end_all
from highwater.errors import HarnessError


def test_all_is_tried_before_the_first_failure_is_told() -> None:
    """A broker that does not end would keep ZooKeeper running, and the mounts of all others."""
    tried: list[str] = []

    def fails(error: Exception) -> None:
        tried.append(str(error))
        raise error

    with pytest.raises(HarnessError, match="the disk is busy"):
        end_all([lambda: fails(OSError("the disk is busy")), lambda: fails(HarnessError("later")), lambda: tried.append("last")])

    assert tried == ["the disk is busy", "later", "last"]
