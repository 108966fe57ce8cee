"""The proofs can fail: each mistake that a judge could make, and that one of these once made, is a disagreement."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pytest

from checkers.elle import cycles as elle_cycles
from checkers.elle import rw_register
from checkers.elle.list_append import ListAppend
from checkers.elle.rw_register import RwRegister
from checkers.linearizability import judge as calls_judge
from checkers.linearizability import search, unique
from checkers.linearizability.collections import Mutex, PartitionLog
from checkers.linearizability.registers import CasRegister, Register
from checkers.offset_agreement import _Offsets
from checkers.order import _highest_by_generation
from checkers.replay import Log
from tests.proof import cycles, elle, linearizability, logs
from tests.proof.objects import SUBJECTS

Patch = pytest.MonkeyPatch
_OF_OBJECTS = {subject.name: subject for subject in SUBJECTS}


def crashed_calls_must_have_happened(patch: Patch) -> None:
    """The mistake that once rejected 37 good histories of Knossos."""
    patch.setattr(CasRegister, "observes", lambda self, call: False)
    patch.setattr(search, "_FOREVER", 1 << 61)
    was = search.Search.__init__

    def wrong(self: search.Search, model: search.Model, calls: Sequence[search.Call]) -> None:
        was(self, model, [search.Call(**{f: getattr(c, f) for f in c.__struct_fields__} | {"end": c.end or 1000}) for c in calls])

    patch.setattr(search.Search, "__init__", wrong)


def a_failed_cas_may_have_seen_anything(patch: Patch) -> None:
    was = CasRegister.step
    patch.setattr(CasRegister, "step", lambda self, s, call: s if call.result == "false" else was(self, s, call))


def what_is_free_may_be_released(patch: Patch) -> None:
    patch.setattr(
        Mutex, "step", lambda self, state, call: call.f == "acquire" if call.f == "release" or not state else search.Illegal()
    )


def states_do_not_tell_configurations_apart(patch: Patch) -> None:
    """A cache by calls alone."""
    was = search._Frame.__init__

    def wrong(self: search._Frame, base: int, mask: int, spent: int, state: int, chain: object) -> None:
        was(self, base, mask, spent, state, chain)  # type: ignore[arg-type]

    patch.setattr(search._Frame, "__init__", wrong)
    patch.setattr(search._Table, "number", lambda self, state: 0 if self._states else (self._states.append(state), 0)[1])


def the_last_call_is_to_blame(patch: Patch) -> None:
    """A witness, but not the smallest."""
    patch.setattr("checkers.linearizability.witness.first_impossible", lambda calls, has_order, known=0: _last(calls))


def _last(calls: Sequence[search.Call]) -> int:
    return sum(call.end is not None for call in calls) - 1


def zones_may_cross(patch: Patch) -> None:
    patch.setattr(unique, "_zones", lambda values, first_end, last_start, speaker: None)


def a_queue_may_be_overtaken(patch: Patch) -> None:
    patch.setattr(unique, "_overtaken", lambda enqueued, dequeued: None)


def unseen_appends_are_nowhere(patch: Patch) -> None:
    was = unique._appends
    patch.setattr(unique, "_appends", lambda calls: (was(calls)[0], [], was(calls)[2]))


def ambiguous_parts_are_valid(patch: Patch) -> None:
    """What the judge once did: it collected them and forgot them."""
    patch.setattr(calls_judge, "_undecided", lambda searches, ambiguous, steps_max: iter(()))
    assert PartitionLog().name in _OF_OBJECTS


def reads_pass_over_writes(patch: Patch) -> None:
    patch.setattr(Register, "leads", lambda self, state, call: False)


OBJECTS: list[tuple[Callable[[Patch], None], str]] = [
    (crashed_calls_must_have_happened, "cas-register"),
    (a_failed_cas_may_have_seen_anything, "cas-register"),
    (what_is_free_may_be_released, "mutex"),
    (states_do_not_tell_configurations_apart, "cas-register"),
    (the_last_call_is_to_blame, "kv"),
    (zones_may_cross, "register, unique values"),
    (a_queue_may_be_overtaken, "fifo-queue, unique values"),
    (unseen_appends_are_nowhere, "partition-log"),
    (ambiguous_parts_are_valid, "partition-log, equal values"),
    (reads_pass_over_writes, "register"),
]


@pytest.mark.parametrize(("mistake", "subject"), OBJECTS, ids=[mistake.__name__ for mistake, _ in OBJECTS])
def test_a_mistake_of_the_judge_of_objects_is_seen(
    mistake: Callable[[Patch], None], subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)

    assert linearizability.prove(_OF_OBJECTS[subject], 1_500).wrong


def nobody_overwrites(patch: Patch) -> None:
    """No rw edges."""
    was = ListAppend.edges

    def wrong(self: ListAppend) -> Iterator[object]:
        return (edges.where(edges.kind != elle_cycles.RW) for edges in was(self))

    patch.setattr(ListAppend, "edges", wrong)


def own_reads_count_as_those_of_others(patch: Patch) -> None:
    """Versions told by what a transaction read of itself."""
    patch.setattr(ListAppend, "_torn", lambda self: iter(()))


def skew_is_a_fork(patch: Patch) -> None:
    """Two rw in a row taken for G-nonadjacent."""
    patch.setattr(elle_cycles, "_closed_apart", lambda graph, extra: elle_cycles._edges_of(graph, "G2-item", extra))


def only_the_first_read_counts(patch: Patch) -> None:
    was = RwRegister._sees

    def wrong(self: RwRegister, transaction: int, key: int, value: int) -> None:
        if self._outer.get((transaction, key)) == value:
            was(self, transaction, key, value)

    patch.setattr(RwRegister, "_sees", wrong)


def nil_is_after_all(patch: Patch) -> None:
    patch.setattr(rw_register, "NIL", -7)


TRANSACTIONS: list[tuple[Callable[[Patch], None], str]] = [
    (nobody_overwrites, "append"),
    (own_reads_count_as_those_of_others, "append"),
    (skew_is_a_fork, "append"),
    (only_the_first_read_counts, "w"),
    (nil_is_after_all, "w"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "writes"), TRANSACTIONS, ids=[mistake.__name__ for mistake, _ in TRANSACTIONS])
def test_a_mistake_of_the_judge_of_transactions_is_seen(
    mistake: Callable[[Patch], None], writes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)

    assert _until_wrong(writes)


def _until_wrong(writes: str) -> bool:
    return any(elle.prove(writes, count).wrong for count in (700, 3_000, 30_000))


@pytest.mark.slow
def test_a_cycle_that_is_not_the_shortest_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge once did: junctions were counted as dependencies."""
    was = elle_cycles._back

    def wrong(*args: object, **named: object) -> object:
        back, far, looked = was(*args, **named)  # type: ignore[arg-type]
        return back, far + sum(1 for _ in back), looked

    monkeypatch.setattr(elle_cycles, "_back", wrong)

    assert cycles.prove(3_000).wrong


def everybody_is_believed(patch: Patch) -> None:
    """Acknowledgements of acks=1 taken for promises."""
    was = _Offsets.see_call

    def wrong(self: _Offsets, call: object) -> None:
        asked = tuple(row._replace(acks=-1) for row in call.asked)  # type: ignore[attr-defined]
        was(self, call._replace(asked=asked))  # type: ignore[attr-defined]

    patch.setattr(_Offsets, "see_call", wrong)


def offsets_may_be_given_again(patch: Patch) -> None:
    patch.setattr("checkers.order._highest_by_generation", lambda *known: _highest_by_generation(*known) - 1)


def an_end_is_a_record(patch: Patch) -> None:
    """A log that ends is taken to agree."""
    patch.setattr(Log, "may_hold", lambda self, offset, value: offset >= len(self.values) or self.values[offset] == value)


LOGS: list[tuple[Callable[[Patch], None], str, str]] = [
    (everybody_is_believed, "operations", "offset-agreement"),
    (offsets_may_be_given_again, "operations", "order"),
    (an_end_is_a_record, "events", "isr-agreement"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "what", "checker"), LOGS, ids=[mistake.__name__ for mistake, _, _ in LOGS])
def test_a_mistake_of_a_log_checker_is_seen(
    mistake: Callable[[Patch], None], what: str, checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other checker is blamed."""
    mistake(monkeypatch)
    found = chain.from_iterable([(tally.name, tally.wrong)] for tally in logs.prove(what, 1_000))

    assert {name for name, wrong in found if wrong} == {checker}
