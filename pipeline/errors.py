"""The errors of running Spark.

    PipelineError        Spark cannot be used here, or it cannot read the runs
      OwnedError         another process writes to the folder
      DamagedError       what is stored is not as it was written; to do it again helps
      GoneError          a manifest that was listed is not there: a compaction may have put its part into another one

The message is one sentence for the user. Invalid history files raise `history.errors.HistoryError`, as everywhere. A checker that
fails inside an executor is a bug of ours and is raised as Spark reports it.
"""


class PipelineError(Exception):
    """Spark cannot be used. The message is one sentence that names what is missing or wrong."""


class OwnedError(PipelineError):
    """Another process writes there; it may end."""


class DamagedError(PipelineError):
    """A stored record is not as it was written, or says something else than its row."""


class GoneError(PipelineError):
    """A manifest that was there a moment ago is not."""
