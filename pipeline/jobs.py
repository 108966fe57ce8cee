"""The job of `highwater judge PATH… --spark MASTER`.

PySpark is imported inside the function, so that a machine without PySpark or Java gets one sentence and no traceback.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from checkers import single
from checkers.verdict import Verdict
from history import store
from pipeline.session import session


def judge(runs: Sequence[Path], *, master: str) -> list[Verdict]:
    """Judge the runs in these folders, in their order. The verdicts equal those of `checkers.single.judge`.

    Raises PipelineError where Spark is not available, HistoryError where a folder holds no history. A run that was killed while
    being recorded has a journal and no tables. There are few such runs, and they are judged in this process.
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
