"""Small histories of sends and polls, one good, one bad and one undecidable for each anomaly of `checkers.kafka`.

`python -m tests.checkers.kafka.stories` writes the files of corpus/histories/kafka; a test compares them. What is good shows the
nearest thing that is allowed; what is undecidable lacks the one fact that would make it bad.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3] / "corpus" / "histories" / "kafka"


class Story(NamedTuple):
    """Lines of EDN, and the kinds that are found, the allowed ones apart; `unchecked`: something must be."""

    lines: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchecked: bool = False


def step(process: int, type: str, f: str, value: str, more: str = "") -> str:
    return f"{{:process {process}, :type :{type}, :f :{f}, :value {value}{more}}}"


def call(process: int, f: str, answered: str, *, type: str = "ok", more: str = "") -> tuple[str, str]:
    """Asked and answered. What is asked is not looked at where it was answered."""
    return step(process, "invoke", f, "[]"), step(process, type, f, answered, more)


def sends(process: int, *records: str, type: str = "ok") -> tuple[str, str]:
    """Records as "x 0 :a", or "x :a" without an offset."""
    return call(process, "send", f"[{' '.join(map(_sent, records))}]", type=type)


def polls(process: int, *polled: str, type: str = "ok", more: str = "") -> tuple[str, str]:
    """One poll for each word: "x 0 :a 1 :b"."""
    return call(process, "poll", f"[{' '.join(map(_polled, polled))}]", type=type, more=more)


def _sent(record: str) -> str:
    key, *rest = record.split()
    return f"[:send :{key} [{rest[0]} {rest[1]}]]" if len(rest) == 2 else f"[:send :{key} {rest[0]}]"


def _polled(polled: str) -> str:
    key, *rest = polled.split()
    pairs = " ".join(f"[{offset} {value}]" for offset, value in zip(rest[::2], rest[1::2], strict=True))
    return f"[:poll {{:{key} [{pairs}]}}]"


def told(*calls: Sequence[str], **expected: object) -> Story:
    lines = tuple(line for lines in calls for line in lines)
    return Story(lines=lines, **expected)  # type: ignore[arg-type]  # the fields of Story


def _txn(process: int, type: str, *micros: str) -> tuple[str]:
    return (step(process, type, "txn", f"[{' '.join(micros)}]"),)


AB = sends(0, "x 0 :a", "x 1 :b")
ABC = sends(0, "x 0 :a", "x 1 :b", "x 2 :c")
ALL_READ = polls(9, "x 0 :a 1 :b 2 :c")

STORIES: dict[str, Story] = {
    # 1
    "good/inconsistent-offsets": told(sends(0, "x 0 :a"), sends(1, "x 1 :b"), polls(2, "x 0 :a 1 :b")),
    "bad/inconsistent-offsets": told(
        sends(0, "x 0 :a"), sends(1, "x 0 :b"), polls(2, "x 0 :a"), polls(3, "x 0 :b"), kinds=("inconsistent-offsets",)
    ),
    "undecidable/inconsistent-offsets": told(sends(0, "x 0 :a", type="info"), sends(1, "x 0 :b"), polls(2, "x 0 :b")),
    # 2
    "good/duplicate": told(sends(0, "x 1 :a"), polls(1, "x 1 :a"), polls(2, "x 1 :a")),
    "bad/duplicate": told(
        sends(0, "x 1 :a"), sends(1, "x 2 :b"), polls(2, "x 1 :a"), polls(3, "x 2 :b 3 :a"), kinds=("duplicate",)
    ),
    "undecidable/duplicate": told(sends(0, "x :a", type="info"), polls(2, "x 3 :a")),
    # 3
    "good/G1a": told(sends(0, "x :a", type="info"), polls(1, "x 0 :a")),
    "bad/G1a": told(sends(0, "x :a", type="fail"), polls(1, "x 0 :a"), kinds=("G1a",)),
    "undecidable/G1a": told(sends(0, "x :a", type="fail"), polls(1, "x 0 :a", type="fail")),
    # 4
    "good/precommitted-read": told(
        _txn(0, "invoke"), _txn(0, "ok", "[:send :x [0 :a]]", "[:poll {:x []}]"), polls(1, "x 0 :a")
    ),
    "bad/precommitted-read": told(
        _txn(0, "invoke"), _txn(0, "ok", "[:send :x [0 :a]]", "[:poll {:x [[0 :a]]}]"), kinds=("precommitted-read",)
    ),
    "undecidable/precommitted-read": told(
        _txn(0, "invoke"), _txn(0, "info", "[:send :x [0 :a]]", "[:poll]"), polls(1, "x 0 :a")
    ),
    # 5
    "good/lost-write": told(ABC, polls(1, "x 0 :a 1 :b 2 :c")),
    "bad/lost-write": told(
        sends(0, "x 0 :a"), sends(0, "x 1 :b"), polls(1, "x 1 :b", type="ok"), kinds=("lost-write", "unseen")
    ),
    "bad/lost-write-at-one-offset": told(
        sends(0, "x 0 :a"),
        sends(1, "x 0 :b", "x 2 :c"),
        polls(2, "x 0 :b 2 :c"),
        kinds=("inconsistent-offsets", "lost-write", "unseen"),
    ),
    "bad/lost-write-of-a-crashed-transaction": told(
        sends(0, "x :a", "y 0 :b", type="info"),
        sends(1, "y :c", type="info"),
        polls(2, "x 0 :a"),
        polls(3, "y 1 :c"),
        kinds=("lost-write",),
    ),
    "undecidable/lost-write": told(sends(0, "x 0 :a", type="info"), sends(1, "x 1 :b"), polls(2, "x 1 :b")),
    # 6
    "good/unseen": told(AB, polls(1, "x 0 :a"), polls(1, "x 1 :b")),
    "bad/unseen": told(AB, polls(1, "x 0 :a"), kinds=("unseen",)),
    "undecidable/unseen": told(polls(1, "x"), AB, unchecked=True),
    # 7
    "good/poll-skip": told(ABC, polls(1, "x 0 :a"), call(1, "assign", "[:y]"), polls(1, "x 2 :c"), ALL_READ),
    "bad/poll-skip": told(ABC, polls(1, "x 0 :a"), polls(1, "x 2 :c"), ALL_READ, kinds=("poll-skip",)),
    "bad/poll-skip-after-an-abort": told(
        ABC, polls(1, "x 0 :a"), polls(1, "x 1 :b", type="fail"), polls(1, "x 2 :c"), ALL_READ, kinds=("poll-skip",)
    ),
    "good/poll-skip-after-a-rebalance": told(
        ABC, call(1, "subscribe", "[:x]"), polls(1, "x 0 :a"), polls(1, "x 2 :c"), ALL_READ, notes=("poll-skip",)
    ),
    "undecidable/poll-skip": told(sends(0, "x 0 :a", "x 2 :c"), polls(1, "x 0 :a"), polls(1, "x 2 :c")),
    # 8
    "good/nonmonotonic-poll": told(AB, polls(1, "x 0 :a 1 :b", type="fail"), polls(1, "x 0 :a 1 :b")),
    "bad/nonmonotonic-poll": told(AB, polls(1, "x 0 :a 1 :b"), polls(1, "x 1 :b"), kinds=("nonmonotonic-poll",)),
    "good/nonmonotonic-poll-from-the-beginning": told(
        AB,
        polls(1, "x 0 :a 1 :b"),
        call(1, "assign", "[:x]", more=", :seek-to-beginning? true"),
        polls(1, "x 0 :a"),
    ),
    "undecidable/nonmonotonic-poll": told(
        sends(0, "x :a", "x 1 :b"), polls(1, "x 1 :b"), polls(1, "x nil :a"), polls(1, "x 1 :b")
    ),
    # 9, 10
    "good/int-poll-skip": told(ABC, polls(1, "x 0 :a 2 :c", more=", :rebalance-log [{:keys [:x]}]"), ALL_READ),
    "bad/int-poll-skip": told(ABC, polls(1, "x 0 :a", "x 2 :c"), ALL_READ, kinds=("int-poll-skip",)),
    "undecidable/int-poll-skip": told(sends(0, "x 0 :a", "x 2 :c"), polls(1, "x 0 :a 2 :c")),
    "good/int-nonmonotonic-poll": told(AB, polls(1, "x 1 :b 0 :a", more=", :rebalance-log [{:keys [:x]}]")),
    "bad/int-nonmonotonic-poll": told(AB, polls(1, "x 1 :b 0 :a"), kinds=("int-nonmonotonic-poll",)),
    "undecidable/int-nonmonotonic-poll": told(sends(0, "x :a", "x 1 :b"), polls(1, "x 1 :b nil :a")),
    # 11, 12, 13
    "good/int-send-skip": told(
        sends(0, "x 0 :a", "x 2 :c"), sends(1, "x 1 :b"), polls(9, "x 0 :a 1 :b 2 :c"), notes=("G0", "int-send-skip")
    ),
    "undecidable/int-send-skip": told(sends(0, "x 0 :a", "x 2 :c"), polls(9, "x 0 :a 2 :c")),
    "good/int-nonmonotonic-send": told(AB, polls(9, "x 0 :a 1 :b")),
    "bad/int-nonmonotonic-send": told(sends(0, "x 1 :b", "x 0 :a"), polls(9, "x 0 :a 1 :b"), kinds=("int-nonmonotonic-send",)),
    "undecidable/int-nonmonotonic-send": told(
        sends(0, "x 1 :b", "x :a"), polls(9, "x 1 :b"), polls(8, "x nil :a")
    ),
    "good/nonmonotonic-send": told(sends(0, "x 1 :b", type="fail"), sends(0, "x 0 :a"), polls(9, "x 0 :a")),
    "bad/nonmonotonic-send": told(
        sends(0, "x 1 :b"), sends(0, "x 0 :a"), polls(9, "x 0 :a 1 :b"), kinds=("nonmonotonic-send",), notes=("G0-realtime",)
    ),
    "undecidable/nonmonotonic-send": told(
        sends(0, "x 1 :b", type="info"), sends(0, "x 0 :a"), polls(9, "x 0 :a")
    ),
    # 14 to 17
    "good/G0": told(
        _txn(0, "invoke"),
        _txn(1, "invoke"),
        _txn(0, "ok", "[:send :x [0 :a]]", "[:send :y [1 :a]]"),
        _txn(1, "ok", "[:send :x [1 :b]]", "[:send :y [0 :b]]"),
        polls(9, "x 0 :a 1 :b", "y 0 :b 1 :a"),
        notes=("G0",),
    ),
    "undecidable/G0": told(
        _txn(0, "invoke"),
        _txn(1, "invoke"),
        _txn(0, "ok", "[:send :x [0 :a]]", "[:send :y :a]"),
        _txn(1, "ok", "[:send :x [1 :b]]", "[:send :y :b]"),
        polls(9, "x 0 :a 1 :b", "y nil :b nil :a"),
    ),
    "good/G0-realtime": told(
        sends(0, "x 1 :b"), sends(1, "x 0 :a"), polls(9, "x 0 :a 1 :b"), notes=("G0-realtime",)
    ),
    "good/G1c": told(
        _txn(0, "invoke"),
        _txn(1, "invoke"),
        _txn(0, "ok", "[:send :x [0 :a]]", "[:poll {:y []}]", "[:send :y [2 :c]]"),
        _txn(1, "ok", "[:send :y [1 :b]]", "[:poll {:x [[0 :a]]}]"),
        polls(9, "y 1 :b 2 :c"),
        notes=("G1c",),
    ),
    "bad/G1c": told(
        _txn(0, "invoke"),
        _txn(1, "invoke"),
        _txn(0, "ok", "[:send :x [0 :a]]", "[:poll {:y [[0 :b]]}]"),
        _txn(1, "ok", "[:send :y [0 :b]]", "[:poll {:x [[0 :a]]}]"),
        kinds=("G1c",),
    ),
    "undecidable/G1c": told(
        _txn(0, "invoke"),
        _txn(1, "invoke"),
        _txn(0, "ok", "[:send :x [0 :a]]", "[:poll {:y [[0 :b]]}]"),
        _txn(1, "info", "[:send :y [0 :b]]", "[:poll]"),
        polls(9, "x 0 :a"),
    ),
    "bad/G1c-realtime": told(polls(1, "x 0 :a"), sends(0, "x 0 :a"), kinds=("G1c-realtime",)),
    "good/G1c-realtime": told(
        _txn(0, "invoke"), polls(1, "x 0 :a"), _txn(0, "ok", "[:send :x [0 :a]]")
    ),
    "undecidable/G1c-realtime": told(
        (step(1, "invoke", "poll", "[[:poll]]"),), sends(0, "x 0 :a"), (step(1, "ok", "poll", "[[:poll {:x [[0 :a]]}]]"),)
    ),
    # beside the twenty
    "good/phantom-read": told((step(0, "invoke", "send", "[[:send :x :a]]"),), polls(1, "x 0 :a")),
    "bad/phantom-read": told(polls(1, "x 0 :ghost"), kinds=("phantom-read",)),
    "undecidable/empty-history": told(call(0, "assign", "[:x]"), unchecked=True),
    "undecidable/one-value-of-two-senders": told(
        sends(0, "x 0 :a", type="fail"), sends(1, "x :a", type="info"), polls(9, "x 0 :a"), unchecked=True
    ),
}  # fmt: skip


def text(story: Story) -> str:
    """The file."""
    return "".join(f"{line}\n" for line in story.lines)


def main() -> None:
    """Write every file."""
    for name, story in STORIES.items():
        path = ROOT / f"{name}.edn"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(story), encoding="utf-8")


if __name__ == "__main__":
    main()
