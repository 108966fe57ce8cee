"""Produces and polls of a run, or of a part of it, as sorted arrays: log checkers can skip partitions that are surely fine.

A screen (`screens`) proves that a checker finds nothing in most partitions; only the others are walked row by row.
Arrays are made only of a regular history: rows in order, each turn by one process on one partition. For any other history
`columns_of` returns None and every partition is walked. A partition is `odd` if its calls do not pair, or if several topics had
its name.

Texts are stored as integer codes: equal codes mean equal texts, and their order means nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.rows import OFFSET_MAX

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

NAMES = (
    "index",
    "slot",
    "process",
    "type",
    "f",
    "topic",
    "topic_id",
    "partition",
    "value",
    "offset",
    "acks",
    "delivery",
    "hw",
    "error",
    "time_ns",
)
_FUNCTIONS = ("produce", "poll", "latest")
# The errors that say that something is wrong with a produce itself, and not with the broker that got it.
SEQUENCE_ERRORS = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID")
SHAPE_ERRORS = ("INVALID_REQUEST", "INVALID_REQUIRED_ACKS")
ACKS_ERRORS = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")  # acks=all alone asks for replicas
REASONS = (*SEQUENCE_ERRORS, *SHAPE_ERRORS, *ACKS_ERRORS)
# The errors that say that a reader asked for an offset too early, or for one that is not there.
OFFSET_ERRORS = ("OFFSET_NOT_AVAILABLE", "OFFSET_OUT_OF_RANGE")
RARE = ("commit", "committed", "send", "log")  # a checker that reads one of these walks the partitions that have it
NONE = -1  # no value, no offset, no matching turn
OFFSET_BITS = 44  # low bits of a key packed from partition and offset
_PARTS_MAX = 1 << 15
_PLACES_MAX = 1 << 20  # topics times partition numbers
ABSENT = -(1 << 62)  # a null among numbers that may be negative
PartitionKey = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Arrays with one entry for each invocation and completion of a client, sorted by index."""

    index: Ints
    part: Codes
    process: Ints
    first: Ints  # the first row of each turn; one more entry at the end: the number of rows
    time_ns: Ints
    asks: Flags
    produce: Flags
    poll: Flags
    ok: Flags  # a completion, paired
    failed: Flags  # a completion, paired
    other: Ints  # an invocation's completion, a completion's invocation
    acks_all: Flags  # a produce
    acks_one: Flags  # a produce
    acks_none: Flags  # a produce
    once: Flags  # a produce by an idempotent producer
    out_of_range: Flags  # a failed completion says that the offset is out of range
    faulted: Flags  # an invocation that names the error it deserves, or a completion that was refused for what was asked


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Produces, polls and requests for the end offset as arrays. A *part* is the index of a partition in `partitions`."""

    partitions: tuple[tuple[str, int], ...]
    odd: Flags  # by part: walk it, whatever a screen says
    topic_ids: tuple[str | None, ...]  # by part; None if its rows name none
    turns: Turns
    turn: Codes  # by row, like the columns below
    part: Codes
    value: Codes  # also filled in for the answer to a produce, which need not repeat it
    offset: Ints
    hw: Ints  # `ABSENT` where there is none
    values: int  # codes of values are below this
    others: frozenset[PartitionKey]  # partitions that other operations name
    rare: Mapping[str, frozenset[PartitionKey]]  # by each function of `RARE`, the partitions that have it
    unsaid: frozenset[PartitionKey]  # partitions of which a client did not learn the first offset, because of an offset

    @cached_property
    def delivered(self) -> Ints:
        """Indices of the rows that gave a client a value and its offset: answered polls, acknowledgements under acks=all."""
        good = self.turns.ok & (self.turns.poll | self.turns.acks_all)
        rows: Ints = np.flatnonzero(good[self.turn] & (self.value >= 0) & (self.offset >= 0))
        return rows

    @cached_property
    def read(self) -> Ints:
        """Indices of the rows of answered polls that hold a value."""
        good = self.turns.ok & self.turns.poll
        rows: Ints = np.flatnonzero(good[self.turn] & (self.value >= 0))
        return rows

    @cached_property
    def sent(self) -> Ints:
        """Indices of the rows of produce invocations that hold a value."""
        good = self.turns.asks & self.turns.produce
        rows: Ints = np.flatnonzero(good[self.turn] & (self.value >= 0))
        return rows

    @cached_property
    def by_offset(self) -> tuple[Ints, Codes]:
        """The (partition, offset) pairs of which clients were told, packed and sorted, with each row's value code."""
        keys = packed(self.part[self.delivered], self.offset[self.delivered])
        order = np.argsort(keys, kind="stable")
        return keys[order], self.value[self.delivered[order]]

    @cached_property
    def promised(self) -> Ints:
        """The distinct (partition, offset) pairs of which a client was told, as packed numbers, sorted."""
        keys, _ = self.by_offset
        return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys

    def keyed(self, keys: frozenset[PartitionKey]) -> Flags:
        """Return one flag for each partition: true for those with these topics and numbers."""
        return np.array([key in keys for key in self.partitions], np.bool_)

    def named(self, parts: Ints | Codes) -> Flags:
        """Return one flag for each partition: true for those with these numbers."""
        flags = np.zeros(len(self.partitions), np.bool_)
        flags[parts] = True
        return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The result of a pre-check, for each partition: whether the checker must read it row by row, and the checker's counts.

    The counts are valid for partitions that are not read.
    """

    suspect: Flags
    counts: dict[str, Ints] = field(default_factory=dict)


def packed(part: Codes | Ints, offset: Ints) -> Ints:
    """Pack the number of a partition and an offset into one integer, so that keys sort by partition and then by offset."""
    keys: Ints = (part.astype(np.int64) << OFFSET_BITS) + offset
    return keys


def columns_of(operations: pa.Table) -> Columns | None:
    """Make the arrays for the fast pre-checks from a table of operations; None if the history is not regular.

    Text columns may be plain or dictionary-encoded.
    """
    others: frozenset[PartitionKey] = frozenset()
    unsaid = others
    rare = dict.fromkeys(RARE, others)
    if not set(_encoded_column(operations["f"]).dictionary.to_pylist()) <= set(_FUNCTIONS):
        rest = operations.filter(pc.invert(pc.is_in(operations["f"], pa.array(_FUNCTIONS))))
        others = _partitions_named(rest)
        rare = {f: _partitions_named(rest.filter(pc.equal(rest["f"], f))) for f in RARE}
        asks = rest.filter(pc.equal(rest["f"], "earliest"))
        unsaid = _partitions_named(asks.filter(pc.is_in(asks["error"], pa.array(OFFSET_ERRORS))))
        operations = operations.filter(pc.is_in(operations["f"], pa.array(_FUNCTIONS)))
    heads = _first_rows(operations)
    offset = _numbers_or(operations["offset"], none=ABSENT)
    part, partitions = _parts_of_rows(operations)
    if heads is None or part is None:
        return None
    impossible = ((offset < 0) & (offset != ABSENT)) | (offset > OFFSET_MAX)
    turn = _turn_of_rows(heads, len(part))
    if (part != part[heads][turn]).any():
        return None
    turns = _turns_of_calls(operations.take(pa.array(heads)), first=np.append(heads, len(part)), part=part[heads])
    is_walked = np.zeros(len(partitions), np.bool_)
    is_walked[_parts_to_walk(turns)] = True
    is_walked[part[impossible]] = True
    is_walked[part[heads][_numbers_or(operations["slot"])[heads] != 0]] = True
    topic_ids, several = _topic_ids(operations["topic_id"], part, len(partitions))
    value = _encoded_column(operations["value"])
    codes = _numbers_of(value)
    silent = np.flatnonzero((turns.ok & turns.produce)[turn] & (codes < 0) & ~is_walked[part])
    codes[silent] = codes[turns.first[turns.other[turn[silent]]] + silent - turns.first[turn[silent]]]
    return Columns(
        partitions=partitions,
        odd=is_walked | several,
        topic_ids=topic_ids,
        turns=turns,
        turn=turn,
        part=part,
        value=codes,
        offset=np.where(impossible, NONE, np.maximum(offset, NONE)),
        hw=_numbers_or(operations["hw"], none=ABSENT),
        values=len(value.dictionary),
        others=others,
        rare=rare,
        unsaid=unsaid,
    )


def _first_rows(operations: pa.Table) -> Ints | None:
    """The first row of each invocation or completion; None if rows are out of order or its rows differ in type, f or process."""
    index, slot = _numbers_or(operations["index"]), _numbers_or(operations["slot"])
    new = np.ones(len(index), np.bool_)
    new[1:] = index[1:] != index[:-1]
    wrong = (slot[1:] <= slot[:-1]) & ~new[1:]
    wrong |= index[1:] < index[:-1]
    for column in (
        _numbers_of(_encoded_column(operations["type"])),
        _numbers_of(_encoded_column(operations["f"])),
        _numbers_or(operations["process"]),
    ):
        wrong |= (column[1:] != column[:-1]) & ~new[1:]
    heads: Ints = np.flatnonzero(new)
    return None if wrong.any() or not len(index) else heads


def _turn_of_rows(heads: Ints, rows: int) -> Codes:
    return np.repeat(np.arange(len(heads), dtype=np.int32), np.diff(heads, append=rows))


def _parts_to_walk(turns: Turns) -> Codes:
    """Parts whose calls pair differently in the whole run than in the partition alone; checkers read these row by row."""
    sizes = np.diff(turns.first)
    # An answer with more records than were sent: the walk decides which belong together.
    longer = turns.ok & turns.produce & (sizes > sizes[turns.other])
    answers_nothing = ~turns.asks & (turns.other == NONE)
    order = np.argsort(turns.process, kind="stable")
    last_of_process = np.ones(len(order), np.bool_)
    last_of_process[order[:-1]] = turns.process[order[1:]] != turns.process[order[:-1]]
    asks_again = turns.asks & (turns.other == NONE) & ~last_of_process
    parts: Codes = turns.part[longer | answers_nothing | asks_again]
    return parts


def _turns_of_calls(heads: pa.Table, *, first: Ints, part: Codes) -> Turns:
    """The invocations and completions as arrays, each with the number of its partner."""
    index, process, acks = _numbers_or(heads["index"]), _numbers_or(heads["process"]), _numbers_or(heads["acks"], none=NONE)
    asks, f = _where_text_is(heads["type"], "invoke"), _numbers_of(_encoded_column(heads["f"]))
    produce = _where_text_is(heads["f"], "produce")
    order = np.argsort(process, kind="stable")
    earlier, later = order[:-1], order[1:]
    fits = (
        asks[earlier]
        & ~asks[later]
        & (process[earlier] == process[later])
        & (f[earlier] == f[later])
        & (part[earlier] == part[later])
    )
    other_turn = np.full(len(index), NONE, np.int64)
    other_turn[earlier[fits]] = later[fits]
    other_turn[later[fits]] = earlier[fits]
    # Both turns take acks and delivery from the invocation; an unpaired turn uses its own.
    invocation = np.where(asks | (other_turn == NONE), np.arange(len(index)), other_turn)
    answered = ~asks & (other_turn != NONE)
    return Turns(
        index=index,
        part=part,
        first=first,
        process=process,
        time_ns=_numbers_or(heads["time_ns"]),
        asks=asks,
        produce=produce,
        poll=_where_text_is(heads["f"], "poll"),
        ok=answered & _where_text_is(heads["type"], "ok"),
        failed=answered & _where_text_is(heads["type"], "fail"),
        other=other_turn,
        acks_all=produce & (acks == -1)[invocation],
        acks_one=produce & (acks == 1)[invocation],
        acks_none=produce & (acks == 0)[invocation],
        once=produce & _where_text_is(heads["delivery"], "once")[invocation],
        out_of_range=answered & _where_text_is(heads["type"], "fail") & _where_text_is(heads["error"], "OFFSET_OUT_OF_RANGE"),
        faulted=np.where(asks, *_where_text_among(heads["error"], REASONS)),
    )


def _partitions_named(operations: pa.Table) -> frozenset[PartitionKey]:
    """The partitions that these rows name."""
    topics, numbers = operations["topic"].to_pylist(), operations["partition"].to_pylist()
    return frozenset(zip(topics, numbers, strict=True)) - {(None, None)}


def _parts_of_rows(operations: pa.Table) -> tuple[Codes | None, tuple[tuple[str, int], ...]]:
    """The part of each row, and the partition of each part; None for the parts if a row has none or there are too many."""
    topic = _encoded_column(operations["topic"])
    codes = _numbers_of(topic)
    topics = topic.dictionary.to_pylist()
    number = _numbers_or(operations["partition"])
    if not len(codes):
        return codes, ()
    if codes.min() < 0 or number.min() < 0 or len(topics) * (count := int(number.max()) + 1) > _PLACES_MAX:
        return None, ()
    place = codes.astype(np.int64) * count + number
    present = np.zeros(len(topics) * count, np.bool_)
    present[place] = True
    places = np.flatnonzero(present)
    if len(places) > _PARTS_MAX:
        return None, ()
    numbers = np.zeros(len(present), np.int32)
    numbers[places] = np.arange(len(places), dtype=np.int32)
    return numbers[place], tuple((topics[at // count], at % count) for at in places.tolist())


def _topic_ids(column: pa.ChunkedArray, part: Codes, parts: int) -> tuple[tuple[str | None, ...], Flags]:
    """The topic id of each part (None if its rows name none), and a flag for parts with several."""
    codes = _encoded_column(column)
    code, names = _numbers_of(codes), codes.dictionary.to_pylist()
    named = np.flatnonzero(code >= 0)
    of_part = np.full(parts, NONE, np.int32)
    of_part[part[named]] = code[named]
    several = np.zeros(parts, np.bool_)
    several[part[named][of_part[part[named]] != code[named]]] = True
    return tuple(None if at == NONE else names[at] for at in of_part.tolist()), several


def _numbers_or(column: pa.ChunkedArray, *, none: int = NONE) -> Ints:
    """The numbers of a column, with `none` in place of null."""
    filled = pc.fill_null(column, none) if column.null_count else column
    numbers: Ints = filled.to_numpy()
    return numbers


def _encoded_column(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Encode a text column of a table as numbers, with one dictionary for all its chunks."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole: pa.DictionaryArray = coded.unify_dictionaries().combine_chunks()
    return whole


def _numbers_of(codes: pa.DictionaryArray) -> Codes:
    """The code of each text, `NONE` for null; a new array that the caller may change."""
    codes_there: Codes = np.array(pc.fill_null(codes.indices, NONE), np.int32)
    return codes_there


def _where_text_among(column: pa.ChunkedArray, words: Sequence[str]) -> tuple[Flags, Flags]:
    """Where a column has a text, and where it has one of these."""
    codes = _encoded_column(column)
    numbers = _numbers_of(codes)
    places = [place for place, text in enumerate(codes.dictionary.to_pylist()) if text in words]
    return numbers != NONE, np.isin(numbers, places)


def _where_text_is(column: pa.ChunkedArray, word: str) -> Flags:
    """Where a column of texts has this word."""
    codes = _encoded_column(column)
    texts = codes.dictionary.to_pylist()
    flags: Flags = _numbers_of(codes) == (texts.index(word) if word in texts else NONE - 1)
    return flags
