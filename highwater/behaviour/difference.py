"""How a run behaves otherwise than its plan is recorded to: in which row first, and how.

    sort      the rows that differ first
    new       a row that the recorded behaviour lacks: `new: StopReplica sent`
    missing   a recorded row that the run lacks: `missing: elected`
    other     a row of the same rule with other words: `other words: state-written`; `counts alone: messages` where nothing
              but the number of messages or answers is another one
    order     a row that comes before another one it had followed, both of one node or one partition
    timing    the same rows in the same order at other times; rows of different nodes and partitions may have changed places

After the first difference a run takes another course, so later ones follow from it and are not told.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from highwater.behaviour.rows import ANSWERS, MESSAGES, Row
from highwater.behaviour.snapshot import Mark, Recorded, recorded
from highwater.plans.plan import Plan

LINES_MAX = 40  # of a summary
_WORDS_MAX = 220  # characters of a row in a summary
_MS = 1_000_000
TIMING = "timing alone: the same rows in the same order of each node and partition, at other times"

Sort = Literal["new", "missing", "other", "order", "timing", "plan"]


class Difference(Struct, frozen=True):
    """How one run differs first: `words` names the rules, `row` is the row of the run at this place."""

    sort: Sort
    words: str
    row: Row | None = None


class Behaviour(Struct, frozen=True):
    """What one plan did: the digest of the plan and the rows of its run; `repeat` is the command, `plan` what was performed."""

    plan_digest: str
    rows: tuple[Row, ...]
    repeat: str = ""
    file: str = ""
    plan: Plan | None = None


class Group(Struct, frozen=True):
    """The plans that differ in one way, the first of them with its difference."""

    words: str
    plans: tuple[str, ...]
    first: Difference


def differences(before: Mapping[str, Recorded], now: Mapping[str, Behaviour], *, all_plans: bool) -> dict[str, Difference]:
    """The plans that behave otherwise. With `all_plans`, a recorded plan that was not performed differs as well."""
    difference_by_plan = {}
    for name, behaviour in now.items():
        difference = difference_of(before.get(name), behaviour)
        if difference is not None:
            difference_by_plan[name] = difference
    for name in sorted(before.keys() - now.keys()) if all_plans else ():
        difference_by_plan[name] = Difference("plan", "the plan is gone")
    return difference_by_plan


def difference_of(before: Recorded | None, now: Behaviour) -> Difference | None:
    """How one run differs from the recorded one; None if it does not."""
    if before is None:
        return Difference("plan", "the plan has no recorded behaviour")
    if before.plan_digest != now.plan_digest:
        return Difference("plan", "the plan itself is another one")
    present = recorded(now.plan_digest, now.rows)
    if present == before:
        return None
    if present.marks == before.marks and present.content != before.content:
        return Difference("other", "other words in a row whose mark is the same by chance")
    return _first(before.marks, present.marks, now.rows) or Difference("timing", TIMING)


def _first(before: Sequence[Mark], marks: Sequence[Mark], rows: Sequence[Row]) -> Difference | None:
    """The first row that is no recorded one, or that has changed places with a row of its node or partition."""
    subjects: dict[Mark, frozenset[str]] = {}
    for row_mark, row in zip(marks, rows, strict=True):
        subjects[row_mark] = subjects.get(row_mark, frozenset()) | frozenset(row.subjects)
    old, left_before, left_now = deque(before), Counter(before), Counter(marks)
    for row_mark, row in zip(marks, rows, strict=True):
        if not left_before[row_mark]:
            return _not_recorded(row_mark, row, old, left_now)
        for passed in old:
            if passed == row_mark:
                break
            if not left_now[passed]:
                return Difference("missing", f"missing: {passed.rule}", row)
            if subjects[passed].intersection(row.subjects):
                return Difference("order", f"order: {row_mark.rule} comes before {passed.rule}", row)
        old.remove(row_mark)
        left_before[row_mark] -= 1
        left_now[row_mark] -= 1
    return Difference("missing", f"missing: {old[0].rule}") if old else None


def _not_recorded(row_mark: Mark, row: Row, old: Sequence[Mark], left_now: Mapping[Mark, int]) -> Difference:
    """A row that the recorded behaviour lacks: another one instead of a recorded row of its rule, or one more."""
    gone = next((passed for passed in old if not left_now.get(passed)), None)
    if row_mark.rule in (MESSAGES, ANSWERS):
        return Difference("other", f"counts alone: {row_mark.rule}", row)
    if gone is None or gone.rule != row_mark.rule:
        return Difference("new", f"new: {row_mark.rule}", row)
    return Difference("other", f"other words: {row_mark.rule}", row)


def groups(difference_by_plan: Mapping[str, Difference]) -> list[Group]:
    """The differences by kind, the most frequent first; timing and plans last."""
    by_words: dict[str, list[str]] = {}
    for name in sorted(difference_by_plan):
        by_words.setdefault(difference_by_plan[name].words, []).append(name)
    listed = [Group(words, tuple(names), difference_by_plan[names[0]]) for words, names in by_words.items()]
    return sorted(listed, key=lambda group: (group.first.sort in ("timing", "plan"), -len(group.plans), group.words))


def summary(difference_by_plan: Mapping[str, Difference], plans: int) -> list[str]:
    """The differences in at most 40 lines: how many plans differ in which way, each with an example."""
    if not difference_by_plan:
        return [f"none of {plans} plans behaves otherwise"]
    lines = [f"{len(difference_by_plan)} of {plans} plans behave otherwise; first:"]
    all_groups = groups(difference_by_plan)
    shown = all_groups[: (LINES_MAX - 2) // 2]
    for group in shown:
        lines.append(f"{group.words}, in {len(group.plans)} of {plans} plans")
        lines.append(f"    {group.plans[0]}{_place(group.first.row)}")
    if len(all_groups) > len(shown):
        left = all_groups[len(shown) :]
        lines.append(f"and {len(left)} other ways in {sum(len(group.plans) for group in left)} plans")
    return lines


def _place(row: Row | None) -> str:
    """Where a row stands, in words: its time, rule and content; "" without a row."""
    if row is None:
        return ""
    words = f"{row.rule} {row.words}"
    return f" at {row.time_ns // _MS / 1000:.3f} s: {words if len(words) <= _WORDS_MAX else words[: _WORDS_MAX - 1] + '…'}"
