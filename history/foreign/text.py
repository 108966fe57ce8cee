"""A file as text that comes in pieces, and the number of the line at any place of the piece at hand."""

import codecs
from typing import BinaryIO

from history.errors import HistoryError

_PIECE_BYTES = 1 << 18
DIGITS_MAX = 1000  # of a number; Python refuses to read much longer ones
DEPTH_MAX = 100  # forms within each other; Python compares much deeper ones with an error
RECORD_CHARS_MAX = 1 << 24  # a record longer than this is none


class Text:
    """`rest` is what was read and not yet consumed; `more` adds a piece, or says that the file has ended."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()  # some editors begin a file with a mark
        self._line = 1  # of the beginning of `rest`
        self._counted = 0  # line breaks are counted up to this place of `rest`
        self._counted_line = 1
        self.rest = ""
        self.whole = False  # nothing follows `rest`
        self._ended = False

    def more(self) -> bool:
        """Read on; False where everything was read, and given out once more as the last piece."""
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
        """Forget what stands before `place`."""
        self._line = self.line_at(place)
        self.rest = self.rest[place:]
        self._counted, self._counted_line = 0, self._line

    def line_at(self, place: int) -> int:
        """The line of a place of `rest`; cheap where places grow."""
        if place < self._counted:
            return self._line + self.rest.count("\n", 0, place)
        self._counted_line += self.rest.count("\n", self._counted, place)
        self._counted = place
        return self._counted_line

    def line_of_rest(self) -> int:
        """The line at which `rest` begins."""
        return self._line
