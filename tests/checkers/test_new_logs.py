"""A log that begins anew in another directory truncates nothing (KIP-112, R-302)."""

import pytest

from checkers.sketches import sketch

HELD = (
    "became-leader node=b1 hw=0 leo=0",
    *(f"append node=b1 offset={offset} value={value}" for offset, value in enumerate("ab")),
    *(f"append node=b2 offset={offset} value={value} detail=follower" for offset, value in enumerate("ab")),
    "hw node=b1 hw=2 leo=2",
)
AGAIN = "append node=b2 offset=0 value=a detail=follower"


@pytest.mark.parametrize(
    ("between", "told"),
    [
        ((), True),
        (("dir-failed node=b2 dir=0",), False),
        (("node-started node=b2",), False),
        (("node-started node=b2", "recovered node=b2 leo=2 hw=2"), True),
        (("node-started node=b3",), True),
    ],
    ids=["nothing", "its directory failed", "not recovered", "recovered", "another broker"],
)
def test_new_log_after_a_lost_directory_truncates_nothing(between: tuple[str, ...], told: bool) -> None:
    """The partition was moved away and back while the directory was out (seed 10618 of `--faults all`)."""
    assert ("truncated-committed" in sketch("log-matching", *HELD, *between, AGAIN)) is told
