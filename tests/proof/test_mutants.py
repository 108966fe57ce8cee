"""Each planted mistake of a judge, some of them former mistakes, is found by the comparison."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from checkers.elle import cycles as elle_cycles
from checkers.elle import judge as elle_judge
from checkers.elle import orders, phantoms
from checkers.elle.consistency import FORBIDS
from checkers.elle.graph import RW, Edges
from checkers.elle.list_append import ListAppend
from checkers.elle.orders import Decision
from checkers.elle.phantoms import Phantoms
from checkers.elle.rw_register import RwRegister
from checkers.linearizability import judge as calls_judge
from checkers.linearizability import unique
from checkers.linearizability.collections import Mutex, UnorderedQueue
from checkers.linearizability.model import Model
from checkers.linearizability.registers import CasRegister, Register
from checkers.linearizability.search import Search
from history.foreign.step import Call
from proof import cycles, elle, linearizability
from proof.objects import SUBJECTS

Patch = pytest.MonkeyPatch
_OF_OBJECTS = {subject.name: subject for subject in SUBJECTS}


def crashed_calls_must_have_happened(patch: Patch) -> None:
    """The mistake that once rejected 37 good histories of Knossos."""
    original = Search.__init__

    def wrong(self: Search, model: Model, calls: Sequence[Call]) -> None:
        original(self, model, [replace(call, end=1_000 + call.index if call.end is None else call.end) for call in calls])

    patch.setattr(Search, "__init__", wrong)


def failed_cas_allows_any_value(patch: Patch) -> None:
    was = CasRegister.step
    patch.setattr(CasRegister, "step", lambda self, s, call: s if call.result == "false" else was(self, s, call))


def free_mutex_may_be_released(patch: Patch) -> None:
    was = Mutex.step
    patch.setattr(Mutex, "step", lambda self, state, call: False if call.f == "release" else was(self, state, call))


def witness_is_the_last_call(patch: Patch) -> None:
    """A valid witness that is not the smallest."""
    patch.setattr("checkers.linearizability.witness.first_impossible", lambda calls, is_possible, near=0: _last(calls))


def _last(calls: Sequence[Call]) -> int:
    return sum(call.end is not None for call in calls) - 1


def zones_may_cross(patch: Patch) -> None:
    patch.setattr(unique, "_zone_conflict", lambda values, first_end, last_start, speaker: None)


def unanswered_dequeues_take_nothing(patch: Patch) -> None:
    """An unordered queue that looks empty, though only a dequeue of unknown outcome could have emptied it."""
    original = UnorderedQueue.step
    patch.setattr(
        UnorderedQueue,
        "step",
        lambda self, state, call: original(self, state, call) if call.f != "dequeue" or call.end else state,
    )


def queue_order_is_ignored(patch: Patch) -> None:
    patch.setattr(unique, "_overtaking_conflict", lambda enqueued, dequeued: None)


def unseen_appends_are_nowhere(patch: Patch) -> None:
    was = unique._appends_by_offset
    patch.setattr(unique, "_appends_by_offset", lambda calls: (was(calls)[0], [], was(calls)[2]))


def ambiguous_parts_are_valid(patch: Patch) -> None:
    """A former mistake: the judge collected them and did not report them."""
    patch.setattr(calls_judge, "_undecided", lambda searches, ambiguous, steps_max: iter(()))


def read_ignores_later_writes_of_its_value(patch: Patch) -> None:
    """A read is dropped although its value may still be written."""
    patch.setattr(Register, "helps", lambda self, other, call: False)


OBJECTS: list[tuple[Callable[[Patch], None], str]] = [
    (crashed_calls_must_have_happened, "mutex"),
    (failed_cas_allows_any_value, "cas-register"),
    (free_mutex_may_be_released, "mutex"),
    (witness_is_the_last_call, "kv"),
    (zones_may_cross, "register, unique values"),
    (queue_order_is_ignored, "fifo-queue, unique values"),
    (unanswered_dequeues_take_nothing, "unordered-queue"),
    (unseen_appends_are_nowhere, "partition-log"),
    (ambiguous_parts_are_valid, "partition-log, equal values"),
    (read_ignores_later_writes_of_its_value, "register"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "subject"), OBJECTS, ids=[mistake.__name__ for mistake, _ in OBJECTS])
def test_planted_mistake_in_the_linearizability_judge_is_found(
    mistake: Callable[[Patch], None], subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)

    assert linearizability.prove(_OF_OBJECTS[subject], 1_500).wrong


def rw_edges_are_ignored(patch: Patch) -> None:
    """No rw edges."""
    original = ListAppend.edges

    def wrong(self: ListAppend) -> Iterator[Edges]:
        return (found.where(np.flatnonzero(found.kind != RW)) for found in original(self))

    patch.setattr(ListAppend, "edges", wrong)


def intermediate_reads_are_allowed(patch: Patch) -> None:
    """No G1b."""
    patch.setattr(ListAppend, "_intermediate_reads", lambda self: iter(()))


def write_skew_is_forbidden(patch: Patch) -> None:
    patch.setitem(FORBIDS, "snapshot-isolation", FORBIDS["serializable"])


def register_versions_have_no_order(patch: Patch) -> None:
    """Versions of registers without an order that reads and time show, and without one that is searched."""
    patch.setattr(RwRegister, "_ordered_versions", lambda self: iter(()))
    writes_stand_in_any_order(patch)


def writes_stand_in_any_order(patch: Patch) -> None:
    """The former judge: an order that no read shows was not searched."""
    patch.setattr(elle_judge, "decide", lambda *given, **budget: Decision())


def guessed_order_is_the_only_one(patch: Patch) -> None:
    """A cycle in the guessed order is taken for a proof."""
    patch.setattr(orders._Choices, "solve", lambda self, conflicts_max: not self.count)
    patch.setattr(orders._Choices, "minimal", lambda self: tuple(self._cases.values()))


def readers_of_replaced_versions_are_ignored(patch: Patch) -> None:
    was = orders._edges_of_order
    patch.setattr(orders, "_edges_of_order", lambda pair: was(pair)[:1])


def phantoms_are_ignored(patch: Patch) -> None:
    """The former judge: a value that nobody wrote was only noted."""
    patch.setattr(ListAppend, "phantoms", lambda self: Phantoms())
    patch.setattr(RwRegister, "phantoms", lambda self: Phantoms())


def phantoms_are_all_impossible(patch: Patch) -> None:
    """Nothing is older than the history."""
    patch.setattr(phantoms, "_first_state", lambda lists, strange: None)


TRANSACTIONS: list[tuple[Callable[[Patch], None], str, str]] = [
    (rw_edges_are_ignored, "append", "serializable"),
    (intermediate_reads_are_allowed, "append", "read-committed"),
    (write_skew_is_forbidden, "append", "snapshot-isolation"),
    (register_versions_have_no_order, "w", "serializable"),
    (writes_stand_in_any_order, "append", "snapshot-isolation"),
    (writes_stand_in_any_order, "w", "serializable"),
    (guessed_order_is_the_only_one, "w", "serializable"),
    (readers_of_replaced_versions_are_ignored, "w", "serializable"),
    (phantoms_are_ignored, "append", "read-committed"),
    (phantoms_are_ignored, "w", "read-uncommitted"),
    (phantoms_are_all_impossible, "append", "strict-serializable"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "writes", "level"), TRANSACTIONS, ids=[f"{mistake.__name__}-{writes}" for mistake, writes, _ in TRANSACTIONS]
)
def test_planted_mistake_in_the_transaction_judge_is_found(
    mistake: Callable[[Patch], None], writes: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)

    assert any(elle.prove(writes, count, [level]).wrong for count in (300, 1_500))


@pytest.mark.slow
def test_too_long_dependency_cycle_counts_as_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first cycle is tried."""
    monkeypatch.setattr(elle_cycles, "_TRIES_MAX", 1)

    assert cycles.prove(1_000).wrong
