"""Judge one history that is stored in parts by many workers: a part or a range of the index is one item of work.

    history ─pieces─▶ items ─▶ judge_piece in a worker ─▶ rows of the ledger ─▶ verdict

Nothing is shuffled: each worker reads the files of its part, or the row groups of its range, and returns findings or states. The
driver merges them (`checkers.engine.parts`). The verdict is that of `checkers.judge.judge`.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from checkers.engine.facts import facts_of
from checkers.engine.parts import SHARED, JudgedPart, judge_part
from checkers.engine.ranges import RANGE_ROWS, JudgedRange, judge_range
from checkers.engine.verdict import Verdict
from checkers.judge import verdict_of_pieces
from checkers.observing import judging
from checkers.registry import ALL
from history import store
from history.history import History
from pipeline.errors import PipelineError
from pipeline.items import Item
from pipeline.ledger import Ledger


class Part(Struct, frozen=True, tag="part"):
    """A part to judge, by its number in the manifest."""

    run: str  # folder of the history
    number: int


class Range(Struct, frozen=True, tag="range"):
    """A range of the index to judge, with its first and its last index."""

    run: str
    first: int
    last: int


Piece = Part | Range
_PIECES: msgspec.json.Decoder[Piece] = msgspec.json.Decoder(Part | Range)


def pieces(history: History, directory: Path, *, key: str, range_rows: int = RANGE_ROWS) -> list[Item]:
    """Return the items of work that judge a history stored in parts. `key` begins their keys in the ledger."""
    run = str(directory.resolve())
    numbers = (number for number in range(len(history.manifest.parts)) if number != SHARED)
    parts: list[Piece] = [Part(run, number) for number in numbers]
    parts += [Range(run, first, last) for first, last in history.index_ranges(range_rows)]
    return [Item(f"{key}-{number:05}", msgspec.json.encode(piece)) for number, piece in enumerate(parts)]


def piece_of(item: Item) -> Piece:
    """Return the piece that an item of `pieces` stands for."""
    return _PIECES.decode(item.payload)


def judge_piece(payload: bytes) -> bytes:
    """Judge a `Piece`, given as JSON, and return its `JudgedPart` or `JudgedRange` as JSON.

    Raises HistoryError where a file of the part is not that of the manifest.
    """
    piece = _PIECES.decode(payload)
    directory = Path(piece.run)
    history = store.load_parts(directory)
    facts = facts_of(history.manifest)
    able = judging(facts, ALL)
    if isinstance(piece, Range):
        return msgspec.json.encode(judge_range(history, piece.first, piece.last, facts, able))
    stored = history.manifest.parts[piece.number]
    for part in (history.manifest.parts[SHARED], stored):
        store.check_part(directory, history.manifest, part)
    return msgspec.json.encode(judge_part(history.part(piece.number), history.part(SHARED), stored, facts, able))


def verdict_of(history: History, items: Sequence[Item], ledger: Ledger) -> Verdict:
    """Merge the rows of these items to the verdict. Raises PipelineError where a piece was not judged, and says why."""
    judged: list[JudgedPart] = []
    ranges: list[JudgedRange] = []
    for item in items:
        row = ledger.read(item.key)
        if row.state != "done":
            raise PipelineError(f"a piece of the history was not judged ({row.state}): {row.words}")
        if isinstance(piece_of(item), Part):
            judged.append(msgspec.json.decode(row.result, type=JudgedPart))
        else:
            ranges.append(msgspec.json.decode(row.result, type=JudgedRange))
    return verdict_of_pieces(judged, ranges, history)
