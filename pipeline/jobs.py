"""The Spark job behind `highwater judge PATH… --spark MASTER`.

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
    """Judge the runs in these folders on Spark; verdicts come in the folders' order and equal those of `checkers.single.judge`.

    Raises PipelineError where Spark is not available, HistoryError where a folder holds no history. Two kinds of runs are judged
    in this process, because they are few: runs killed while being recorded, which have a journal and no tables, and runs of an
    earlier schema version.
    """
    finished = [run for run in runs if store.is_finished(run) and store.is_current(run)]
    others = [run for run in runs if run not in finished]
    verdicts = {run: single.judge(store.load_run(run)) for run in others}
    if finished:
        with session(master) as spark:
            from pipeline.verdicts import verdict_table

            rows = verdict_table(spark, finished).select("run", "judgement").collect()
        judged = {row["run"]: msgspec.json.decode(row["judgement"], type=Verdict) for row in rows}
        verdicts.update((run, judged[str(run.resolve())]) for run in finished)
    return [verdicts[run] for run in runs]
