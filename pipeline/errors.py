"""What can go wrong around Spark.

    PipelineError    Spark cannot be used here, or the runs cannot be given to it

Its message is one sentence for the user. Files that are no histories are `history.errors.HistoryError`, as everywhere. A checker
that breaks inside an executor is our own bug and comes out as Spark reports it.
"""


class PipelineError(Exception):
    """Spark cannot do this; the message is one sentence that says what is missing."""
