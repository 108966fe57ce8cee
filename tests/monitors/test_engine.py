"""The engine of the rules finds what a definition over all items finds, on random turns."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitors.engine import Never, Rising, Rule, Watch, Within
from monitors.patterns import ALL, ANY, Exchange, Key, Memory, granted, noted, refused, replied
from reference.config import BrokerConfig
from reference.effects import Note
from reference.errors import ErrorCode
from reference.events import Booted
from reference.messages import Metadata, MetadataReply
from reference.types import BrokerId
from tests.monitors.turns import CONFIG, broken, send, turn_on_message

# A note stands for an item: its kind says what happens, `broker` and `dir` are the key, `gauge` is a value.
KINDS = ("begin", "end", "end-any", "end-all", "happen")
ITEM = st.tuples(st.sampled_from(KINDS), st.integers(1, 2), st.integers(1, 2), st.integers(0, 3))
TURNS = st.lists(st.lists(ITEM, max_size=5), max_size=8)
Item = tuple[str, int, int, int]


def key_of(note: Note, memory: Memory) -> Iterable[Key]:
    yield note.broker, note.dir


def value_of(note: Note, memory: Memory) -> Iterable[tuple[Key, Any]]:
    yield (note.broker, note.dir), note.gauge


ENDS = (
    *noted("end", keys=key_of),
    *noted("end-any", keys=lambda note, _: [(ANY, note.dir)]),
    *noted("end-all", keys=lambda note, _: [ALL]),
)
SAYS = "{0}/{1}"


def found(rule: Rule, turns: Sequence[Sequence[Item]]) -> list[tuple[int, str]]:
    """The number of the turn and the key of each time that the engine says the rule is broken."""
    watch = Watch(CONFIG, (rule,), ())
    notes = [[Note(kind=k, broker=BrokerId(b), dir=d, gauge=g) for k, b, d, g in turn] for turn in turns]
    return [(at, (n.detail or "").split()[1]) for at, turn in enumerate(notes) for n in watch.turn(Booted(), [*turn])]


def ends(item: Item, key: tuple[int, int]) -> bool:
    kind, *place, _ = item
    return kind == "end-all" or (kind == "end" and tuple(place) == key) or (kind == "end-any" and place[1] == key[1])


def flat(turns: Sequence[Sequence[Item]]) -> list[tuple[int, Item]]:
    return [(at, item) for at, turn in enumerate(turns) for item in turn]


def text(key: tuple[int, int]) -> str:
    return f"{key[0]}/{key[1]}"


@given(TURNS)
def test_never_is_broken_while_a_span_is_open(turns: list[list[Item]]) -> None:
    rule = Never(
        name="never", clause="", says=SAYS, since=noted("begin", keys=key_of), until=ENDS, what=noted("happen", keys=key_of)
    )
    items = flat(turns)
    wanted = []
    for here, (at, (kind, *place, _)) in enumerate(items):
        key = (place[0], place[1])
        begun = [i for i, (_, item) in enumerate(items[:here]) if item[0] == "begin" and item[1:3] == key]
        if kind == "happen" and begun and not any(ends(item, key) for _, item in items[begun[-1] + 1 : here]):
            wanted.append((at, text(key)))

    assert found(rule, turns) == wanted


@given(TURNS)
def test_span_of_a_turn_ends_with_the_turn(turns: list[list[Item]]) -> None:
    rule = Never(
        name="never",
        clause="",
        says=SAYS,
        since=noted("begin", keys=key_of),
        in_turn=True,
        what=noted("happen", keys=key_of),
    )
    wanted = [
        (at, text((b, d)))
        for at, turn in enumerate(turns)
        for here, (kind, b, d, _) in enumerate(turn)
        if kind == "happen" and any(item[0] == "begin" and item[1:3] == (b, d) for item in turn[:here])
    ]

    assert found(rule, turns) == wanted


@given(TURNS)
def test_never_without_a_span_is_broken_by_each_item(turns: list[list[Item]]) -> None:
    rule = Never(name="never", clause="", says=SAYS, what=noted("happen", keys=key_of))

    assert found(rule, turns) == [(at, text((b, d))) for at, (kind, b, d, _) in flat(turns) if kind == "happen"]


@given(TURNS)
def test_within_is_broken_by_a_turn_without_the_end(turns: list[list[Item]]) -> None:
    rule = Within(name="within", clause="", says=SAYS, after=noted("begin", keys=key_of), then=noted("end", keys=key_of))
    wanted = set()
    for at, turn in enumerate(turns):
        for here, (kind, b, d, _) in enumerate(turn):
            if kind == "begin" and not any(item[0] == "end" and item[1:3] == (b, d) for item in turn[here + 1 :]):
                wanted.add((at, text((b, d))))

    assert sorted(found(rule, turns)) == sorted(wanted)


@given(TURNS)
def test_rising_is_broken_by_each_fall(turns: list[list[Item]]) -> None:
    rule = Rising(name="rising", clause="", says=SAYS, of=noted("happen", keys=value_of), until=ENDS)
    items = flat(turns)
    wanted = []
    for here, (at, (kind, b, d, value)) in enumerate(items):
        if kind != "happen":
            continue
        before = [i for i, (_, item) in enumerate(items[:here]) if item[0] == "happen" and item[1:3] == (b, d)]
        forgotten = before and any(ends(item, (b, d)) for _, item in items[before[-1] + 1 : here])
        if before and not forgotten and items[before[-1]][1][3] > value:
            wanted.append((at, text((b, d))))

    assert found(rule, turns) == wanted


def test_rule_that_does_not_hold_judges_nothing() -> None:
    def never(config: BrokerConfig) -> bool:
        return False

    rule = Never(name="never", clause="", says=SAYS, holds=never, what=noted("happen", keys=key_of))

    assert found(rule, [[("happen", 1, 1, 0)]]) == []


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_answer_is_judged_in_the_order_of_the_rules(error: ErrorCode) -> None:
    def about(exchange: Exchange, memory: Memory) -> Iterable[Key]:
        return [(exchange.peer,)]

    rules = tuple(
        Never(name=name, clause="", says="", what=side(Metadata, keys=about))
        for name, side in (("all", replied), ("granted", granted), ("refused", refused), ("every", replied))
    )
    turn = turn_on_message(
        "c1", Metadata(correlation=1), send("c1", MetadataReply(correlation=1, brokers=(), states=(), error=error))
    )
    assert broken(turn, rules=rules) == ["all", "granted" if error is ErrorCode.NONE else "refused", "every"]
