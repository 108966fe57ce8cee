"""The errors of reading a stored history.

    HistoryError     the file or folder is missing, truncated, of another schema, or no highwater history

The message is one line that names the file, and the line or column where there is one. The readers of this package raise nothing
else for bad input. A wrong call by our own code fails an assertion.
"""


class HistoryError(Exception):
    """A history that cannot be read. The message is one line for the user."""
