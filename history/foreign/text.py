"""A file as text, read in pieces, with the line number of any position of the current piece."""

import codecs
import gzip
from pathlib import Path
from typing import BinaryIO, cast

from history.errors import HistoryError

_PIECE_BYTES = 1 << 16
DIGITS_MAX = 1000  # of a number; Python refuses to convert much longer ones
DEPTH_MAX = 100  # of nested forms; Python fails to compare much deeper ones
RECORD_CHARS_MAX = 1 << 24  # a longer record is an error

_GZIP = b"\x1f\x8b"


def opened(path: Path) -> BinaryIO:
    """Open a file to read it as bytes, unpacked if it is a gzip file."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


class Text:
    """A text file read in pieces: `rest` is what was read and not yet parsed, `more` appends the next piece."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()  # skips a byte order mark
        self._line = 1  # line number of the start of `rest`
        self._counted = 0  # position in `rest` up to which line breaks were counted
        self._counted_line = 1
        self.rest = ""
        self.whole = False  # `rest` reaches the end of the file
        self._ended = False

    def more(self) -> bool:
        """Read the next piece. At the end of the file append a line break and set `whole`; after that return False."""
        if self._ended:
            return False
        piece = self._file.read(_PIECE_BYTES)
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            raise HistoryError(f"line {self.line_of_rest() + self.rest.count(chr(10))}: not UTF-8: {error.reason}") from error
        self.rest += text if piece else "\n"
        self.whole = self._ended = not piece
        return True

    def keep_from(self, place: int) -> None:
        """Drop the part of the file before position `place`, which was parsed."""
        self._line = self.line_at(place)
        self.rest = self.rest[place:]
        self._counted, self._counted_line = 0, self._line

    def line_at(self, place: int) -> int:
        """The line number, in the whole file, of a position in `rest`. Cheap if called with growing positions."""
        if place < self._counted:
            return self._line + self.rest.count("\n", 0, place)
        self._counted_line += self.rest.count("\n", self._counted, place)
        self._counted = place
        return self._counted_line

    def line_of_rest(self) -> int:
        """The line number, in the whole file, at which the unparsed `rest` begins."""
        return self._line
