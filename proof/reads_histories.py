"""Random histories of Jepsen's models that look at reads: right answers in some order of the calls, and some mistakes."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call, Pairs
from history.seed import Rng
from proof.reads_definitions import INITIAL

_PHANTOM = 90


class Plan(NamedTuple):
    """How calls of one model are drawn.

    `change(rng, number, state)`: function, argument, answer and next state. `ask(rng, state)`: argument and answer of a read.
    `spoil(rng, answer)`: a wrong answer. A model without reads has neither; its changes answer wrongly now and then.
    """

    first: Any
    change: Callable[[Rng, int, Any], tuple[str, Hashable, Hashable, Any]]
    ask: Callable[[Rng, Any], tuple[Hashable, Any]] | None = None
    spoil: Callable[[Rng, Any], Any] = lambda rng, answer: answer


def drawn(plan: Plan, rng: Rng) -> Paired:
    """Return a random history of three to seven calls, some of which failed or have an unknown outcome."""
    places = rng.shuffled(range(2 * (3 + rng.below(5))))
    spans = sorted((min(pair), max(pair)) for pair in zip(places[::2], places[1::2], strict=True))
    points = sorted((start + rng.below(end - start), at) for at, (start, end) in enumerate(spans))
    state = plan.first
    calls_made = {}
    for _, at in points:
        outcome = rng.below(8)  # 0: failed, 1 and 2: unknown, 1 did not happen
        if plan.ask is None or rng.below(2):
            f, argument, answer, after = plan.change(rng, at, state)
            happens = outcome > 1 or (outcome == 0 and rng.below(3) == 0)  # a failed change may be seen: an anomaly
            state = after if happens else state
        else:
            f = "read"
            argument, answer = plan.ask(rng, state)
            answer = plan.spoil(rng, answer) if rng.below(4) == 0 else answer
        calls_made[at] = (f, argument, answer, outcome)
    calls: list[Call] = []
    failed: list[Call] = []
    for at, (start, end) in enumerate(spans):
        f, argument, answer, outcome = calls_made[at]
        into = calls if outcome else failed
        into.append(
            Call(
                index=len(into), line=at + 1, process=at, f=f, argument=argument, result=answer if outcome > 2 else UNKNOWN,
                start=start, end=end if outcome > 2 else None,
            )
        )  # fmt: skip
    return Paired(calls=tuple(calls), failed=tuple(failed), steps=2 * len(spans))


def _drawn_transfer(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    """A transfer of one unit between two accounts, without effect if it would overdraw: f, argument, answer, state afterwards."""
    source, target = rng.shuffled([0, 1])
    argument = Pairs((("amount", 1), ("from", source), ("to", target)))
    after = {**state, source: state[source] - 1, target: state[target] + 1} if state[source] else state
    return "transfer", argument, argument, after


def _with_wrong_balance(rng: Rng, answer: Any) -> Any:
    """Balances with a mistake: nil, negative, another total, or another account."""
    balances = dict(answer)
    draw = rng.below(5)
    balances[rng.below(2)] = None if draw == 0 else -1 if draw == 1 else rng.below(4)
    if draw == 4:
        balances[7 if rng.below(2) else 0] = 0
    return Pairs(sorted(balances.items()))


def _drawn_write(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    """A write of a key that mostly has none yet: function, argument, answer, state afterwards."""
    key = rng.below(8) or number
    value = (("w", key, 1),)
    return "write", value, value, state | {key}


def _drawn_group_read(rng: Rng, state: Any) -> tuple[Hashable, Any]:
    # Now and then without a key: as if its write were not visible here.
    keys = rng.shuffled(range(8))
    hidden = rng.below(8) if rng.below(2) else -1
    answer = tuple(("r", key, 1 if key in state and key != hidden else None) for key in keys)
    return tuple(("r", key, None) for key in keys), answer


def _misgroup(rng: Rng, answer: Any) -> Any:
    at = rng.below(len(answer))
    return (*answer[:at], ("r", answer[at][1], None if rng.below(2) else 1 + rng.below(2)), *answer[at + 1 :])


def _add(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    amount = rng.below(7) - 2
    return "add", amount, amount, state + amount


def _element(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    value = rng.below(2) if rng.below(6) == 0 else number
    return "add", value, value, (*state, value) if value not in state else state


def _message(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    return "broadcast", *_element(rng, number, state)[1:]


def _queue_call(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    """A call on a queue, its argument and answer, and the state afterwards."""
    draw = rng.below(6)
    if draw < 3:
        value = rng.below(2) if rng.below(4) == 0 else number
        return "enqueue", value, value, (*state, value)
    if draw < 5:
        answer = None if not state else _PHANTOM if rng.below(8) == 0 else rng.pick(state)
        stays = rng.below(6) == 0
        return "dequeue", None, answer, state if stays else tuple(value_there for value_there in state if value_there != answer)
    return "drain", None, _with_wrong_element(rng, state) if rng.below(4) == 0 else state, ()


def _new_id(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    answer = rng.pick((*range(number), None, number)) if rng.below(8) == 0 else number
    return "generate", None, answer, state


def _insert_of_two(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    value = (rng.below(12), (number, None) if rng.below(2) else (None, number))
    return "insert", value, value, state


def _id(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    return "write", *_element(rng, number, state)[1:]


def _with_wrong_element(rng: Rng, answer: Any) -> Any:
    """An answer with a value that nobody added, one less, or one twice."""
    if not answer or rng.below(8) == 0:
        return (*answer, _PHANTOM)
    at = rng.below(len(answer))
    return (*answer, answer[at]) if rng.below(6) == 0 else (*answer[:at], *answer[at + 1 :])


def _without_twins(rng: Rng, answer: Any) -> Any:
    return tuple(dict.fromkeys(_with_wrong_element(rng, answer)))


def _insert(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    key = rng.below(2)
    return "write", key, key, state | {key}


def _drawn_subkey_read(rng: Rng, state: Any) -> tuple[Hashable, Any]:
    """A read of the three subkeys of a key, the last written first: argument and answer."""
    key = rng.below(2)
    count_seen = rng.below(4) if key in state else 0
    return key, (key, tuple(f"{key}_{at}" if at < count_seen else None for at in (2, 1, 0)))


def _with_wrong_subkey(rng: Rng, answer: Any) -> Any:
    """The answer with one subkey shown in place of nil, or nil in place of it."""
    at = rng.below(3)
    key, count_seen = answer
    return key, (*count_seen[:at], None if count_seen[at] else f"{key}_{2 - at}", *count_seen[at + 1 :])


def _row(rng: Rng, number: int, state: Any) -> tuple[str, Hashable, Hashable, Any]:
    row = Pairs((("sts", 10 * len(state)), ("val", len(state) + 1)))
    return "add", None, row, (*state, row)


def _with_wrong_row(rng: Rng, answer: Any) -> Any:
    """Rows with a mistake: one more, one less, one twice, or two exchanged."""
    rows = list(answer)
    draw = rng.below(4)
    if not rows or draw == 0:
        return (*rows, Pairs((("sts", 90), ("val", _PHANTOM))))
    at = rng.below(len(rows))
    if draw == 1:
        del rows[at]
    elif draw == 2:
        rows.insert(at, rows[at])
    else:
        rows[at], rows[0] = rows[0], rows[at]
    return tuple(rows)


def _all_of(rng: Rng, state: Any) -> tuple[Hashable, Any]:
    return None, state


PLANS: dict[str, Plan] = {
    "bank": Plan(dict(INITIAL), _drawn_transfer, lambda rng, state: (None, Pairs(sorted(state.items()))), _with_wrong_balance),
    "long-fork": Plan(frozenset(), _drawn_write, _drawn_group_read, _misgroup),
    "counter": Plan(0, _add, _all_of, lambda rng, answer: answer + rng.below(5) - 2),
    "set-full": Plan((), _element, _all_of, _with_wrong_element),
    "set-full, linearizable": Plan((), _element, _all_of, _with_wrong_element),
    "sequential": Plan(frozenset(), _insert, _drawn_subkey_read, _with_wrong_subkey),
    "comments": Plan((), _id, _all_of, _without_twins),
    "monotonic": Plan((), _row, _all_of, _with_wrong_row),
    "broadcast": Plan((), _message, _all_of, _with_wrong_element),
    "total-queue": Plan((), _queue_call),
    "unique-ids": Plan(None, _new_id),
    "adya-g2": Plan(None, _insert_of_two),
}
