"""Witnesses about transactions: an order is accepted if and only if the level has one; a possible history has no contradiction.

Levels are decided by the definitions of `proof`, which share no code with the verifier or the judges.
"""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.certificates.certify import NoCertificate, certify_transactions
from checkers.elle.judge import judge
from checkers.engine.verdict import Validity
from history.foreign.pairing import Paired
from history.foreign.step import Call
from history.seed import Rng
from proof.elle import LEVELS, is_of_one_order, is_possible
from proof.isolation import Objects, micros, phantoms
from proof.transactions import drawn, tangled, unread
from verifier.certificate import Case, Certificate, Cycle, Edge, NoVersionOrder, Refused, TransactionOrder, Witness
from verifier.orders import Commits
from verifier.verify import verify

_MODELS = {"append": "list-append", "w": "rw-register"}
_HISTORIES = 24  # of each level
_SMALL = 4


def _histories(writes: str, level: str) -> Iterator[Paired]:
    """Small histories with only values that some transaction wrote."""
    found_count, seed = 0, 0
    while found_count < _HISTORIES:
        seed += 1
        history = (tangled, drawn, unread)[seed % 3](Rng(seed).fork(f"{writes}{level}"), writes)
        loose = level.endswith("uncommitted") and not is_of_one_order(history)
        if len(history.calls) <= _SMALL and not loose and not phantoms(history, Objects(writes)):
            found_count += 1
            yield history


def _verifier(history: Paired, writes: str, level: str) -> Commits:
    calls = (*history.calls, *history.failed)
    return Commits(calls, len(history.calls), lists=writes == "append", level=level)


def _accepts(verifier: Commits, witness: Witness) -> bool:
    try:
        if isinstance(witness, TransactionOrder):
            verifier.verify_order(witness)
        else:
            verifier.verify(witness)  # type: ignore[arg-type]  # witnesses about transactions only
    except Refused:
        return False
    return True


def _orders(history: Paired, level: str) -> Iterator[TransactionOrder]:
    for size in range(len(history.calls) + 1):
        for order in permutations(range(len(history.calls)), size):
            if level.endswith("snapshot-isolation") and not level.startswith("parallel"):
                for snapshots in product(*(range(at + 1) for at in range(size))):
                    yield TransactionOrder(order=order, snapshots=snapshots)
            else:
                yield TransactionOrder(order=order)


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
@pytest.mark.parametrize("level", sorted(LEVELS))
def test_some_order_is_accepted_if_and_only_if_one_exists(level: str, writes: str) -> None:
    """Every order of every subset of the transactions, with all snapshots."""
    both = set()
    for history in _histories(writes, level):
        if any(f == "r" for call in history.calls for f, _, _ in micros(call)):
            verifier = _verifier(history, writes, level)
            possible = is_possible(history, level, Objects(writes))
            assert any(_accepts(verifier, order) for order in _orders(history, level)) == possible, history
            both.add(possible)

    assert True in both


_Assumed = tuple[tuple[tuple[int, int], tuple[int, int]], ...]


def _edges(verifier: Commits, history: Paired, assumed: _Assumed = ()) -> Iterator[Edge]:
    """Every dependency that some places show, if these orders of writes are assumed."""
    places = [(op, at) for op, call in enumerate((*history.calls, *history.failed)) for at in range(len(call.argument))]  # type: ignore[arg-type]
    for source_op, target_op in permutations(range(len(history.calls)), 2):
        places_by_op = [[place for place in places if place[0] == op] for op in (source_op, target_op)]
        shown = [
            (first, then, *more)
            for first, then in product(*places_by_op)
            for size in range(3)
            for more in product(places, repeat=size)
        ]
        for kind in ("ww", "wr", "rw", "process", "realtime"):
            for at in [()] if kind in ("process", "realtime") else shown:
                edge = Edge(source=source_op, target=target_op, kind=kind, at=at)
                if _has(verifier, edge, assumed):
                    yield edge
                    break


def _has(verifier: Commits, edge: Edge, assumed: _Assumed) -> bool:
    try:
        return verifier.has_edge(edge, assumed)
    except Refused:
        return False


def _cycles(edges: list[Edge]) -> Iterator[tuple[Edge, ...]]:
    def grown(way: tuple[Edge, ...]) -> Iterator[tuple[Edge, ...]]:
        if way[-1].target == way[0].source:
            yield way
            return
        for edge in edges:
            if edge.source == way[-1].target and edge.target not in {link.target for link in way}:
                yield from grown((*way, edge))

    for edge in edges:
        yield from grown((edge,))


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
@pytest.mark.parametrize("level", sorted(LEVELS))
def test_possible_history_has_no_cycle_that_is_accepted(level: str, writes: str) -> None:
    """Whatever places a forged certificate names."""
    for history in _histories(writes, level):
        if is_possible(history, level, Objects(writes)):
            verifier = _verifier(history, writes, level)
            cycles = _cycles([*_edges(verifier, history)])
            assert not any(_accepts(verifier, Cycle(edges=cycle)) for cycle in cycles), history


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
@pytest.mark.parametrize("level", ["read-committed", "consistent-view", "snapshot-isolation", "strict-serializable"])
def test_possible_history_has_an_order_of_every_two_writes(level: str, writes: str) -> None:
    """No pair of writes has a case for each of its orders."""
    for history in _histories(writes, level):
        if is_possible(history, level, Objects(writes)):
            verifier = _verifier(history, writes, level)
            wrote = [
                (key, (call.index, at)) for call in history.calls for at, (f, key, _) in enumerate(micros(call)) if f == writes
            ]
            for first_write, second_write in [(a, b) for (key, a), (other_key, b) in combinations(wrote, 2) if key == other_key][
                :4
            ]:
                cases = [_case(verifier, history, pair) for pair in ((first_write, second_write), (second_write, first_write))]
                assert None in cases, history
                assert not any(case and _accepts(verifier, NoVersionOrder(cases=(case,))) for case in cases)


def _case(verifier: Commits, history: Paired, pair: tuple[tuple[int, int], tuple[int, int]]) -> Case | None:
    for cycle in _cycles([*_edges(verifier, history, (pair,))]):
        case = Case(assumed=(pair,), edges=cycle)
        try:
            verifier.verify_cycle(cycle, (pair,))
        except Refused:
            continue
        return case
    return None


_KINDS = (
    "G1a",
    "G1b",
    "future-read",
    "internal",
    "incompatible-order",
    "duplicate-elements",
    "lost-update",
    "phantom-read",
    "fractured-read",
)


def _names(verifier: Commits, kind: str, at: tuple[Any, ...]) -> bool:
    try:
        return verifier.shows(kind, *at)
    except Refused:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
@pytest.mark.parametrize("level", sorted(LEVELS))
def test_possible_history_has_no_anomaly_that_is_accepted(level: str, writes: str) -> None:
    for history in _histories(writes, level):
        calls: tuple[Call, ...] = (*history.calls, *history.failed)
        places = [(op, at) for op, call in enumerate(calls) for at in range(len(call.argument))]  # type: ignore[arg-type]
        if len(places) <= 7 and is_possible(history, level, Objects(writes)):
            verifier = _verifier(history, writes, level)
            options = [at for size in (1, 2, 3, 4) for at in product(places, repeat=size)]
            assert not any(_names(verifier, kind, at) for kind in _KINDS for at in options), history


def _mutated(certificate: Certificate, rng: Rng) -> Witness | None:
    """The witness with one thing changed; None if it has nothing of the kind that was drawn."""
    witness = certificate.witness
    if isinstance(witness, TransactionOrder) and len(witness.order) > 1:
        at = rng.below(len(witness.order))
        return replace(witness, order=(*witness.order[:at], *witness.order[at + 1 :]))
    edges = witness.edges if isinstance(witness, Cycle) else witness.cases[0].edges if isinstance(witness, NoVersionOrder) else ()
    if not edges:
        return None
    at, swapped_kind = rng.below(len(edges)), rng.below(3)
    changed = (*edges[:at], *edges[at + 1 :])
    if swapped_kind:
        swapped = replace(edges[at], source=edges[at].target, target=edges[at].source)
        changed = (
            *edges[:at],
            swapped if swapped_kind == 1 else replace(edges[at], at=edges[at].at[::-1] or ((0, 0),)),
            *edges[at + 1 :],
        )
    return Cycle(edges=changed)


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
def test_certificate_with_one_thing_changed_is_refused(writes: str) -> None:
    """An operation left out, a dependency removed or turned round, its places exchanged, the other verdict, another history."""
    refused = 0
    for seed in range(900):
        history = (tangled, drawn, unread)[seed % 3](Rng(seed).fork(writes), writes)
        judgement = judge(_MODELS[writes], history, ("serializable",))
        try:
            certificate = certify_transactions(_MODELS[writes], history, ("serializable",), judgement)
        except NoCertificate:
            assert judgement.validity is Validity.UNKNOWN
            continue
        verify(history, certificate)
        wrong_verdict = {"VALID": "INVALID", "INVALID": "VALID"}[certificate.verdict]
        forged = [
            replace(certificate, verdict=wrong_verdict),
            replace(certificate, history="0" * 32),
            replace(certificate, format=2),
        ]
        mutated = _mutated(certificate, Rng(seed))
        forged += [replace(certificate, witness=mutated)] if mutated and _sure(mutated, history) else []
        for changed_certificate in forged:
            with pytest.raises(Refused):
                verify(history, changed_certificate)
            refused += 1

    assert refused > 2_500


def _sure(mutated: Witness, history: Paired) -> bool:
    """Whether the change must be refused: one of unknown outcome may be left out, if nobody read from it."""
    return (
        not isinstance(mutated, TransactionOrder)
        or {c.index for c in history.calls if c.end is not None} - {*mutated.order} != set()
    )
