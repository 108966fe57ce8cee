"""A fault of one client place excuses neither clients elsewhere nor brokers (docs/promise.md LIVE-9, LIVE-6)."""

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from checkers.sketches import history_of
from history.history import History

# The clients 0, 2, … are at p1, the others at p2. B is 16 s in these histories.
PLACES = ("p1", "p2")
CUT = ("fault-begun fault=f node=p1 detail=place-isolated time_ns=1000000000", "fault-ended fault=f node=p1 time_ns=50000000000")
HEALED = "healed time_ns=60000000000"


def produce(process: int, at_s: int, outcome: str) -> tuple[str, str]:
    """A produce under acks=all that was answered within a second."""
    value = f"value=v{process}-{at_s} process={process}"
    ask, answer = f"invoke produce {value} time_ns={at_s}000000000", f"{outcome} produce {value} time_ns={at_s + 1}000000000"
    return ask, answer + (f" offset={at_s}" if outcome == "ok" else "")


def sketched(*lines: str, places: tuple[str, ...] = PLACES) -> History:
    history = history_of(*lines)
    return History(replace(history.manifest, client_places=places), operations=history.operations, events=history.events)


def not_live(*lines: str, places: tuple[str, ...] = PLACES) -> list[str]:
    """What the run owes to clients or to a partition whose leader is cut off, and did not give."""
    found = judge(sketched(*lines, places=places)).not_live
    return [words for words in found if "produce to t-0" in words or "leads t-0" in words]


def test_clients_at_another_place_must_be_served() -> None:
    fault_begun, ended = CUT
    unserved = not_live(fault_begun, *produce(0, 20, "ok"), *produce(1, 30, "info"), ended, HEALED)

    what = "no acks=all produce to t-0 by the clients at p2 was acknowledged between rows 3 and 4"
    assert unserved == [f"{what}, though no fault hit them or a broker"]


def test_clients_at_the_cut_place_are_excused() -> None:
    begun, ended = CUT

    assert not_live(begun, *produce(0, 20, "info"), *produce(1, 30, "ok"), ended, *produce(2, 52, "info"), HEALED) == []


@pytest.mark.parametrize("screened_min", [0, 1 << 60])
def test_clients_at_the_only_place_are_excused_while_it_is_cut(screened_min: int) -> None:
    fault_begun, ended = CUT
    history = sketched(fault_begun, *produce(0, 20, "info"), *produce(1, 30, "info"), ended, HEALED, places=("p1", "p1"))
    complaints = judge(history, screened_min=screened_min).not_live

    assert [words for words in complaints if "produce to t-0" in words] == []


def test_fault_of_a_broker_excuses_clients_at_every_place() -> None:
    fault_begun, ended = CUT
    fault_of_broker = (
        "fault-begun fault=g node=b1 detail=slow time_ns=2000000000",
        "fault-ended fault=g node=b1 time_ns=40000000000",
    )

    assert (
        not_live(
            fault_begun, fault_of_broker[0], *produce(1, 20, "info"), fault_of_broker[1], *produce(1, 42, "info"), ended, HEALED
        )
        == []
    )


def test_fault_of_a_client_place_excuses_no_lone_leader() -> None:
    fault_begun, ended = CUT
    alone = (
        "fault-begun fault=g node=b1 detail=isolate-one time_ns=2000000000",
        "fault-ended fault=g node=b1 time_ns=40000000000",
    )
    rows = ("registered node=b2 incarnation=2", "state-written leader=b1 isr=b1,b2 stamps=1,2", "controller-elected node=b3")

    assert not_live(*rows, fault_begun, *alone, ended, HEALED) == [
        "b1 leads t-0, though b2 could and b1 was cut off alone from row 4 to row 5"
    ]
