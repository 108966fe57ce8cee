"""Witnesses of answers that no behaviour of an object allows, where a model looks at answers one by one (`checkers.jepsen`).

Each anomaly of a model has a rule, which derives from all calls on the object that the operations named show it. The rules are
written from the definitions of the models, without a line of the judges.
"""

from collections.abc import Callable, Hashable, Sequence

from history.foreign.step import Call
from verifier import amounts, elements
from verifier.asked import Asked
from verifier.calls import all_are_calls
from verifier.certificate import Answers, must
from verifier.objects import by_key

_ONE_OBJECT = ("long-fork", "sequential", "unique-ids", "adya-g2")  # their keys are no objects of their own
_OF_SETS: dict[str, Callable[..., bool]] = {
    "phantom-read": elements.phantom,
    "revived": elements.revived,
    "duplicate": elements.twice,
    "lost": elements.lost,
    "stale": elements.stale,
}
RULES: dict[tuple[str, str], Callable[..., bool]] = {
    **{(model, name): rule for model in ("set-full", "broadcast") for name, rule in _OF_SETS.items()},
    ("comments", "phantom-read"): elements.where_written_once(elements.phantom),
    ("comments", "revived"): elements.where_written_once(elements.revived),
    ("comments", "missing-predecessor"): elements.where_written_once(elements.hides),
    ("bank", "unexpected-account"): amounts.other_accounts,
    ("bank", "wrong-total"): amounts.wrong_total,
    ("bank", "nil-balance"): amounts.balance(lambda value: value is None),
    ("bank", "negative-balance"): amounts.balance(lambda value: isinstance(value, int) and value < 0),
    ("counter", "below-lower-bound"): amounts.below,
    ("counter", "above-upper-bound"): amounts.above,
    ("total-queue", "phantom-read"): elements.taken_unput,
    ("total-queue", "revived"): elements.taken_failed,
    ("total-queue", "lost"): elements.never_taken,
    ("monotonic", "timestamps-out-of-order"): amounts.falls("sts"),
    ("monotonic", "values-out-of-order"): amounts.falls("val"),
    ("monotonic", "duplicate"): amounts.same_row,
    ("monotonic", "lost"): amounts.row_lost,
    ("monotonic", "phantom-read"): amounts.rows_unadded,
    ("sequential", "out-of-order"): amounts.gap,
    ("sequential", "phantom-read"): amounts.unbegun,
    ("long-fork", "phantom-read"): elements.read_of_none,
    ("long-fork", "G1a"): elements.read_of_failed,
    ("long-fork", "long-fork"): elements.forks,
    ("unique-ids", "duplicate"): elements.same_id,
    ("adya-g2", "G2"): elements.both_inserted,
}


def verify_answers(
    model: str, calls: Sequence[Call], happened: int, witness: Answers, *, initial: Hashable, strict: bool
) -> None:
    """Return if the operations show the anomaly; raise Refused if not. `happened`: how many of the calls may have happened."""
    all_are_calls(model, calls)
    numbered = [*enumerate(calls)]
    parts: dict[Hashable, dict[int, Call]] = {}
    for at, call in numbered if model in _ONE_OBJECT else by_key(numbered):
        parts.setdefault(None if model in _ONE_OBJECT else call.key, {})[at] = call
    part = next((part for part in parts.values() if {*witness.operations} <= part.keys()), {})
    must(part and witness.operations, "the operations are not calls on one object")
    rule = RULES.get((model, witness.name))
    must(rule, f"{model} knows no anomaly {witness.name}")
    assert rule is not None
    question = Asked(
        [c for at, c in part.items() if at < happened], [c for at, c in part.items() if at >= happened], initial, strict
    )
    try:
        shows = rule(question, *(part[at] for at in witness.operations))
    except (AttributeError, LookupError, TypeError, ValueError):  # too many or too few operations, or answers of another shape
        shows = False
    must(shows, f"operations {list(witness.operations)} do not show {witness.name}")
