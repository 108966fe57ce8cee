"""Quotes the calls of a foreign history that a verdict cites: process, times, what was asked and what was answered.

A verdict names lines. A line is that of an invocation or of a completion, as each model cites it. The steps are read once more
for quoting, so that judging a large history keeps no more than it needs.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator

from msgspec import Struct

from history.foreign.pairing import MICRO
from history.foreign.step import UNKNOWN, Pairs, Step, named, short, tells
from history.op import OpType

_RECORDS = 12  # of a poll


class Quote(Struct, frozen=True, kw_only=True, gc=False):
    """One call as the file has it. `start` and `end` are positions among the steps; `end` and `type` are None without an answer.

    Times are nanoseconds; None where the file has none.
    """

    line: int
    answer_line: int | None
    process: Hashable
    f: str
    key: Hashable
    asked: Hashable
    answered: Hashable
    type: OpType | None
    start: int
    end: int | None
    time_ns: int | None
    answer_ns: int | None

    @property
    def lines(self) -> str:
        """Which lines of the file are quoted: "line 3" or "lines 3 and 7"."""
        return f"line {self.line}" if self.answer_line is None else f"lines {self.line} and {self.answer_line}"

    @property
    def who(self) -> str:
        """The process in words."""
        return f"process {short(self.process)}"

    @property
    def when(self) -> str:
        """When the call was made and answered, for example "1.200 s to 1.304 s"; "" where the file has no times."""
        if self.time_ns is None:
            return ""
        start = f"{self.time_ns / 1e9:.3f} s"
        return start if self.answer_ns is None else f"{start} to {self.answer_ns / 1e9:.3f} s"

    @property
    def micro(self) -> tuple[str, ...]:
        """The micro-operations of a transaction in words, with what was answered; () for another call."""
        value = self.asked if self.answered is UNKNOWN or self.answered is None else self.answered
        if type(value) is not tuple or not value or not all(type(m) is tuple and m and m[0] in MICRO for m in value):
            return ()
        return tuple(_micro_in_words(m) for m in value)

    @property
    def call(self) -> str:
        """What was asked, in words."""
        where = "" if self.key is None else f" {named(self.key)}"
        return f"{self.f}{where}" + ("" if self.asked is None else f" {named(self.asked)}")

    @property
    def outcome(self) -> str:
        """What came of it: `ok`, `ok -> 3`, `fail`, `info` or "no answer"."""
        if self.type is None:
            return "no answer"
        has_answer = self.type is OpType.OK and tells(self.f, self.asked, self.answered)
        return f"{self.type} -> {named(self.answered)}" if has_answer else str(self.type)

    @property
    def words(self) -> str:
        """The whole call in one line."""
        did = f"{self.type or 'no answer'}: {', '.join(self.micro)}" if self.micro else f"{self.call}: {self.outcome}"
        return ", ".join(part for part in (self.who, self.when) if part) + f", {did}"


def quotes(steps: Iterable[Step]) -> Iterator[Quote]:
    """Yield each call of a history when it is answered, then those without an answer. `history.foreign.pairing` accepts them."""
    open_steps: dict[Hashable, tuple[int, Step]] = {}
    for position, step in enumerate(steps):
        if step.type is OpType.INVOKE:
            open_steps[step.process] = (position, step)
        else:  # a step of a history without invocations is its own
            yield _quote_of(*open_steps.pop(step.process, (position, step)), step, position)
    for start, step in open_steps.values():
        yield _quote_of(start, step, None, None)


def cited(steps: Iterable[Step], lines: Collection[int]) -> dict[int, Quote]:
    """The calls that have one of these lines, by that line."""
    cited_lines = frozenset(lines)
    quotes_found: dict[int, Quote] = {}
    for quote in quotes(steps):
        quotes_found.update((line, quote) for line in (quote.line, quote.answer_line) if line in cited_lines and line is not None)
    return quotes_found


def _quote_of(start: int, invocation: Step, answer: Step | None, end: int | None) -> Quote:
    """The quote of a call; its answer is UNKNOWN if none was recorded."""
    return Quote(
        line=invocation.line,
        answer_line=None if answer is None or answer.line == invocation.line else answer.line,
        process=invocation.process,
        f=invocation.f,
        key=invocation.key,
        asked=invocation.value,
        answered=UNKNOWN if answer is None else answer.value,
        type=None if answer is None else answer.type,
        start=start,
        end=end,
        time_ns=invocation.time,
        answer_ns=None if answer is None else answer.time,
    )


def _micro_in_words(micro: tuple[Hashable, ...]) -> str:
    f, *arguments = micro
    if f == "poll":
        polled = arguments[0] if arguments and isinstance(arguments[0], Pairs) else ()
        return "poll" + "".join(f" {named(key)}: {_records_in_words(records)};" for key, records in polled).rstrip(";")
    if len(arguments) != 2:
        return f"{f} {' '.join(map(named, arguments))}".rstrip()
    key, value = arguments
    if f == "send" and type(value) is tuple and len(value) == 2:
        return f"send {named(key)} {named(value[1])} at {named(value[0])}"
    return f"{f} {named(key)} -> {named(value)}" if f in ("r", "read") else f"{f} {named(key)} {named(value)}"


def _records_in_words(records: Hashable) -> str:
    if type(records) is not tuple or not all(type(record) is tuple and len(record) == 2 for record in records):
        return named(records)
    words = [f"{named(value)} at {named(offset)}" for offset, value in records]
    return ", ".join(words if len(words) <= _RECORDS else [*words[:_RECORDS], f"{len(words) - _RECORDS} more"]) or "nothing"
