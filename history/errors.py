"""What can go wrong with a stored history.

    HistoryError     the file or folder is not a whole history of ours: truncated, foreign, of another schema, absent

Its message is one line that names the file, and the line or the column where there is one. Nothing else is raised for bad
input by the readers of this package; a wrong call by our own code fails an assertion.
"""


class HistoryError(Exception):
    """A history that cannot be read; the message is one line for the user."""
