"""The inference against trying every order.

An accusation is always right; and where everything appended was read, an acquittal is right too, for then the order of all
versions is known and the cycles decide (Adya; for snapshot isolation Cerone and Gotsman).
"""

import pytest

from checkers.elle.judge import judge
from checkers.verdict import Validity
from history.seed import Rng, Seed
from tests.checkers.elle.worlds import drawn, is_complete, is_serializable, is_snapshot_isolated

_HISTORIES = 150
_SERIAL = {"serializable": "", "strong-session-serializable": "process", "strict-serializable": "realtime"}
_SNAPSHOT = {
    "snapshot-isolation": "",
    "strong-session-snapshot-isolation": "process",
    "strong-snapshot-isolation": "realtime",
}


@pytest.mark.parametrize("consistency", [*_SERIAL, *_SNAPSHOT])
def test_list_append_is_judged_as_all_orders_together_judge_it(consistency: str) -> None:
    met: dict[tuple[bool, bool], int] = {}
    for number in range(_HISTORIES):
        history = drawn(Rng(Seed(number)).fork(consistency), "append")
        possible = (
            is_serializable(history, _SERIAL[consistency], "append")
            if consistency in _SERIAL
            else is_snapshot_isolated(history, _SNAPSHOT[consistency])
        )
        found = judge("list-append", history, (consistency,))
        complete = is_complete(history)
        met[possible, complete] = met.get((possible, complete), 0) + 1

        if found.validity is Validity.INVALID:
            assert not possible, (number, history, found)
        elif complete:
            assert possible, (number, history)
    assert len(met) == 4, met


@pytest.mark.parametrize("consistency", list(_SERIAL))
def test_registers_are_never_accused_without_need(consistency: str) -> None:
    accused = impossible = 0
    for number in range(_HISTORIES):
        history = drawn(Rng(Seed(number)).fork(consistency), "w")
        found = judge("rw-register", history, (consistency,))
        possible = is_serializable(history, _SERIAL[consistency], "w")
        accused += found.validity is Validity.INVALID
        impossible += not possible

        if found.validity is Validity.INVALID:
            assert not possible, (number, history, found)
    assert accused * 4 > impossible * 3
