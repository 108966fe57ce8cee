"""What an asynchronous producer was handed is acknowledged or in its log, as far as anybody knows (R-130)."""

from checkers.sketches import sketch

HANDED, REFUSED = "ok send value=a", "fail produce value=a error=NOT_ENOUGH_REPLICAS"


def test_record_given_up_without_an_entry_is_lost_in_silence() -> None:
    assert sketch("background", HANDED, REFUSED) == ["unlogged-loss"]
    assert sketch("background", HANDED, REFUSED, "fail log value=a") == ["unlogged-loss"]
    assert sketch("background", HANDED, REFUSED, "ok log value=a") == []


def test_entry_of_unknown_outcome_may_be_in_the_log() -> None:
    """Its writer was not told; an operator may find it there."""
    assert sketch("background", HANDED, REFUSED, "info log value=a") == []
    assert sketch("background", HANDED, "ok produce value=a offset=0", "info log value=a") == []
