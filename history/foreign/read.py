"""Reads a history file of any tool as steps. The format is detected from the first bytes of the file.

Everything streams: a file of gigabytes takes the memory of its longest record. Gzip files are unpacked on the way. Errors name
the file and the line.
"""

import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from enum import StrEnum
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign import edn, history_txt, jepsen, jepsen_log, jsonlines, recorded, session_text
from history.foreign.pairing import Paired, pair
from history.foreign.step import Step
from history.foreign.text import opened

_HEAD_BYTES = 4096


class Form(StrEnum):
    """The file formats in which a history can be read."""

    OURS = "ours"  # the folder of a run, Parquet or JSONL: read by history.store
    RECORDED = "recorded"  # JSON lines behind a line of manifest: read by history.foreign.recorded
    EDN = "edn"
    JSON = "json"
    JEPSEN_LOG = "log of a Jepsen test"
    TEXT = "history.txt"
    SESSIONS = "session text"


_OBJECT = re.compile(rb'[\[\s]*\{\s*"(?:[^"\\]|\\.)*+(?:\Z|"\s*(?:\Z|:))')  # JSON; a map of EDN has no colon behind a key
_LOG = re.compile(rb"^INFO\s+jepsen\.[\w.]+ - ", re.MULTILINE)  # lines of the test's own program may come first
IN_EDN = (Form.EDN, Form.TEXT)  # their values are EDN


def form_of(path: Path) -> Form:
    """Detect the file format of a history. Raises HistoryError."""
    try:
        if path.is_dir() or path.suffix == ".parquet":
            return Form.OURS
        # Detecting the form consumes the first bytes of a pipe, so they would be missing from the history.
        if path.exists() and not path.is_file():
            raise HistoryError(f"{path}: a pipe or a device; histories are read from regular files")
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error
    if recorded.is_recorded(head):
        return Form.RECORDED
    if head.startswith((b'{"manifest"', b"PAR1")):
        return Form.OURS
    bare = head.removeprefix(BOM_UTF8).lstrip()
    if bare.startswith(b"INFO") or _LOG.search(bare):
        return Form.JEPSEN_LOG
    if history_txt.is_history_txt(bare):
        return Form.TEXT
    if session_text.is_session_text(bare):
        return Form.SESSIONS
    if _OBJECT.match(bare) or path.suffix in (".json", ".jsonl"):
        return Form.JSON
    if not bare:
        raise HistoryError(f"{path}: the file is empty")
    return Form.EDN


def history_in(folder: Path) -> Path | None:
    """The history in the folder of a Jepsen test; None if it has none."""
    return next((folder / name for name in ("history.edn", "history.txt") if (folder / name).is_file()), None)


def begins_a_history(path: Path) -> bool:
    """Whether a file begins like a history, of whatever form."""
    try:
        return form_of(path) in (Form.OURS, Form.RECORDED) or next(steps(path), None) is not None
    except HistoryError:
        return False


def steps(path: Path | str) -> Iterator[Step]:
    """Yield the steps of a history file that another tool recorded. Where they stand on one line, `line` counts steps."""
    path = Path(path)
    form = form_of(path)
    try:
        with opened(path) as file:
            found = _steps_in_form(form, file)
            first = list(islice(found, 2))
            found = chain(first, found)
            yield from (replace(step, line=at) for at, step in enumerate(found, 1)) if _share_a_line(first) else found
    except HistoryError as error:
        raise HistoryError(f"{path}: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def is_on_one_line(path: Path) -> bool:
    """Whether the steps of a history file stand on one line, as a vector of EDN that a program printed does."""
    form = form_of(path)
    if form in (Form.OURS, Form.RECORDED):
        return False
    with opened(path) as file:
        return _share_a_line(list(islice(_steps_in_form(form, file), 2)))


def _share_a_line(first: Sequence[Step]) -> bool:
    return len(first) > 1 and first[0].line == first[1].line


def _unreadable(path: Path, error: Exception) -> HistoryError:
    if isinstance(error, OSError) and error.strerror:
        return HistoryError(f"{path}: {error.strerror}")
    return HistoryError(f"{path}: cut, or not a complete gzip file: {error}")


def calls(path: Path | str) -> Paired:
    """Read the operations of a history file that another tool recorded. Raises HistoryError with the line where it is invalid."""
    try:
        found = pair(steps(path))
        if form_of(Path(path)) is Form.SESSIONS:
            return replace(found, untimed=True, notes=(session_text.UNTIMED,))
        return found
    except HistoryError as error:
        reason = str(error)
        raise error if reason.startswith(str(path)) else HistoryError(f"{path}: {reason}") from error


def history_of(text: str) -> Paired:
    """Read the calls of a history given as Jepsen's EDN text, as in tests and examples."""
    return pair(jepsen.of_rows(edn.rows(BytesIO(text.encode()))))


def _steps_in_form(form: Form, file: BinaryIO) -> Iterator[Step]:
    """The steps of a file in this form."""
    match form:
        case Form.EDN:
            return jepsen.of_rows(edn.rows(file))
        case Form.JSON:
            return jepsen.steps(jsonlines.records(file))
        case Form.TEXT:
            return jepsen.of_rows(edn.rows(cast(BinaryIO, history_txt.AsEdn(file))))
        case Form.SESSIONS:
            return session_text.steps(file)
        case Form.JEPSEN_LOG:
            return jepsen_log.steps(file)
        case Form.OURS | Form.RECORDED:
            raise HistoryError("not a foreign history, but one of highwater")
