"""The jobs that people start: `highwater judge PATH… --spark MASTER`.

PySpark is imported inside, so that where it or Java is missing the caller gets one sentence and not a traceback.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from checkers import single
from checkers.verdict import Verdict
from history import store
from pipeline.session import session


def judge(runs: Sequence[Path], *, master: str) -> list[Verdict]:
    """The verdicts of the runs in these folders, in their order, equal to those of `checkers.single.judge`.

    Raises PipelineError where Spark cannot be had, HistoryError where a folder holds no history. A run that was killed while
    it was recorded has a journal instead of tables; there are few of these, and they are judged in this process.
    """
    finished = [run for run in runs if store.is_finished(run)]
    unfinished = [run for run in runs if not store.is_finished(run)]
    verdicts = {run: single.judge(store.load_run(run)) for run in unfinished}
    if finished:
        with session(master) as spark:
            from pipeline.verdicts import verdict_table

            rows = verdict_table(spark, finished).select("run", "judgement").collect()
        judged = {row["run"]: msgspec.json.decode(row["judgement"], type=Verdict) for row in rows}
        verdicts.update((run, judged[str(run.resolve())]) for run in finished)
    return [verdicts[run] for run in runs]
