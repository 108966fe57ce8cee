"""`end_all` tries every part of a site."""

import pytest

from highwater.backends.real.site import end_all
from highwater.errors import HarnessError


def test_site_cleanup_ends_all_processes_despite_a_failure() -> None:
    """Otherwise one broker that does not end would leave ZooKeeper running and all mounts in place."""
    tried: list[str] = []

    def fails(error: Exception) -> None:
        tried.append(str(error))
        raise error

    with pytest.raises(HarnessError, match="the disk is busy"):
        end_all([lambda: fails(OSError("the disk is busy")), lambda: fails(HarnessError("later")), lambda: tried.append("last")])

    assert tried == ["the disk is busy", "later", "last"]
