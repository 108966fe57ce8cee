"""Writes whose order no read shows: an order that explains every read is found, or each order has a cycle."""

from itertools import pairwise, product

import pytest

from checkers.elle.judge import NO_ORDER, judge
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import Cycle, Judgement
from history.foreign.pairing import Paired
from history.foreign.read import history_of
from history.foreign.step import Call
from history.seed import Rng

# Either order of the two appends to x breaks snapshot isolation: each transaction misses what the other wrote.
_UNREAD_APPENDS = ("[[:r :x []] [:append :x 1] [:append :y 1]]", "[[:append :x 2] [:r :y []]]")
# No order of the writes leaves a = 2 and b = 1.
_BLIND_WRITES = ("[[:w :a 1] [:w :b 1]]", "[[:w :a 2] [:w :b 2]]", "[[:r :a 2] [:r :b 1]]")
_WITH_RW = ("consistent-view", "parallel-snapshot-isolation", "snapshot-isolation")


def _together(*transactions: str) -> Paired:
    """The transactions, all at once, in the order of their completions."""
    lines = [f"{{:process {n}, :type {t}, :value {value}}}" for t in (":invoke", ":ok") for n, value in enumerate(transactions)]
    return history_of("\n".join(lines))


@pytest.mark.parametrize("level", _WITH_RW)
def test_unread_appends_without_an_order_are_invalid(level: str) -> None:
    judgement = judge("list-append", _together(*_UNREAD_APPENDS), (level,))

    assert [anomaly.kind for anomaly in judgement.anomalies] == [NO_ORDER]
    assert judgement.anomalies[0].witness == (2, 1)


@pytest.mark.parametrize("level", [*_WITH_RW, "serializable", "repeatable-read", "strict-serializable"])
def test_blind_writes_without_an_order_are_invalid(level: str) -> None:
    assert {anomaly.kind for anomaly in judge("rw-register", _together(*_BLIND_WRITES), (level,)).anomalies} == {NO_ORDER}


@pytest.mark.parametrize(("model", "writes"), [("list-append", _UNREAD_APPENDS), ("rw-register", _BLIND_WRITES)])
def test_level_without_rw_cycles_searches_no_write_order(model: str, writes: tuple[str, ...]) -> None:
    """Read committed allows both histories, and the search costs nothing."""
    judgement = judge(model, _together(*writes), ("read-committed",), work_max=0)

    assert (judgement.validity, judgement.unchecked) == (Validity.VALID, ())


def test_unread_appends_of_serializable_lists_need_no_search() -> None:
    """They stand in an order of the transactions, which the known dependencies give."""
    judgement = judge(
        "list-append", _together(*["[[:append 1 1]]", "[[:append 1 2]]", "[[:r 2 []]]"]), ("serializable",), work_max=0
    )

    assert judgement.validity is Validity.VALID


def test_write_order_against_the_order_of_time_is_found() -> None:
    """The write that ended first is guessed to be the first; the reads in turn show that it was the last."""
    writes, reads_in_turn = ("[[:w :a 2]]", "[[:w :a 1]]"), ("[[:r :a 1] [:w :d 1]]", "[[:r :d 1] [:r :a 2]]")
    steps = _together(*writes, *reads_in_turn)

    for level in (*_WITH_RW, "serializable"):
        assert judge("rw-register", steps, (level,), work_max=0).validity is Validity.UNKNOWN
        assert judge("rw-register", steps, (level,)).validity is Validity.VALID


def test_write_order_not_decided_within_the_budget_is_unknown() -> None:
    judgement = judge("rw-register", _together(*_BLIND_WRITES), ("serializable",), work_max=0)

    assert judgement.validity is Validity.UNKNOWN
    assert judgement.unchecked == ("the order of 1 pair of writes matters and is undecided after 0 steps of search",)


@pytest.mark.parametrize(("model", "level", "writes"), [
    ("list-append", "snapshot-isolation", _UNREAD_APPENDS),
    ("rw-register", "serializable", _BLIND_WRITES),
])  # fmt: skip
def test_cycles_without_write_order_are_a_minimal_proof(model: str, level: str, writes: tuple[str, ...]) -> None:
    """Each combination of orders has one of the cycles, and without one of these another combination has none."""
    cycles = _cycles(judge(model, _together(*writes), (level,)))

    assert _is_proof(cycles)
    assert [link for link in cycles if _is_proof([other_cycle for other_cycle in cycles if other_cycle is not link])] == []
    for cycle in cycles:
        assert all(link.target == second_link.source for link, second_link in pairwise([*cycle.links, cycle.links[0]]))


def _cycles(judgement: Judgement) -> list[Cycle]:
    assert isinstance(judgement.cycles, tuple)
    return list(judgement.cycles)


def _is_proof(cycles: list[Cycle]) -> bool:
    """Whether each combination of orders of the assumed pairs makes one of the cycles true."""
    assumed = [
        {(frozenset((a.source, a.target)), a.reason.split("key ")[1][0], a.source) for a in cycle.assumed} for cycle in cycles
    ]
    pairs = sorted({(tuple(sorted(lines)), key) for case in assumed for lines, key, _ in case})
    orders = product(*(lines for lines, _ in pairs))
    made = [{(frozenset(lines), key, first) for (lines, key), first in zip(pairs, order, strict=True)} for order in orders]
    return all(any(case <= order for case in assumed) for order in made)


def test_case_without_write_order_says_what_it_assumes() -> None:
    judgement = judge("list-append", _together(*_UNREAD_APPENDS), ("snapshot-isolation",))

    assert judgement.anomalies[0].words.startswith(
        "no order of the writes explains the reads: if line 1 wrote 1 of key x before line 2 wrote 2, then line 2 before line 1"
    )
    assert "; if line 2 wrote 2 of key x before line 1 wrote 1, then line 1 before line 2" in judgement.anomalies[0].words


@pytest.mark.parametrize("level", ["serializable", "snapshot-isolation", "parallel-snapshot-isolation"])
def test_blind_writes_of_a_serial_execution_are_valid(level: str) -> None:
    """Some hundred pairs of writes that time does not order, and that reads order in part."""
    assert judge("rw-register", _serial(Rng(1), 40), (level,)).validity is Validity.VALID


def test_old_and_new_version_in_one_read_leave_no_write_order() -> None:
    """The values were written far from each other: only the reads in between, of writes in many possible orders, show it."""
    calls = _serial(Rng(1), 60).calls
    seen = (("r", 0, 1), ("r", 1, 26))
    late_read = Call(index=60, line=61, process=99, f="txn", argument=seen, result=seen, start=0, end=999)
    judgement = judge("rw-register", Paired(calls=(*calls, late_read), failed=(), steps=0), ("serializable",))

    assert [anomaly.kind for anomaly in judgement.anomalies] == [NO_ORDER]
    assert len(_cycles(judgement)) > 3
    assert _is_proof(_cycles(judgement))


def _serial(rng: Rng, count: int) -> Paired:
    """Transactions one after the other on three registers, all of which overlap in time."""
    held: dict[int, int | None] = dict.fromkeys(range(3))
    calls = []
    for number in range(count):
        micros: list[tuple[str, int, int | None]] = []
        for key in rng.shuffled(range(3))[:2]:
            write = rng.below(2) == 0
            held[key] = number if write else held[key]
            micros.append(("w" if write else "r", key, held[key]))
        value = tuple(micros)
        at = count + rng.below(count)
        calls.append(
            Call(
                index=number, line=number + 1, process=number, f="txn", argument=value, result=value, start=number, end=at + count
            )
        )
    return Paired(calls=tuple(calls), failed=(), steps=2 * count)
