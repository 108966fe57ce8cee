"""A log that begins anew after a move away and back truncates nothing (KIP-112, R-302)."""

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
    ("between", "is_reported"),
    [
        ((), True),
        (("assigned replicas=b1", "assigned replicas=b1,b2"), False),
        (("assigned replicas=b1,b2",), True),
        (("dir-failed node=b2 dir=0", "node-started node=b2"), True),
        (("assigned replicas=b1", "append node=b2 offset=2 value=c detail=follower"), True),
    ],
    ids=["nothing", "away and back", "it stays", "its directory failed", "it writes on"],
)
def test_new_log_after_a_move_away_and_back_truncates_nothing(between: tuple[str, ...], is_reported: bool) -> None:
    """The old log was in a directory that was out meanwhile (seed 10618 of `--faults all`)."""
    assert ("truncated-committed" in sketch("log-matching", *HELD, *between, AGAIN)) is is_reported
