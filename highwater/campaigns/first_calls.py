"""For red runs of the chaos job: the first call that answers otherwise than by an earlier commit."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from checkers.engine.verdict import Verdict
from highwater.plans.plan import Plan
from highwater.runs.beside import rewrite_page, stored_run
from highwater.runs.first_call import first_call, keep_first_call
from highwater.runs.revisions import Revision, protocol_of
from highwater.runs.summary import Summary
from history import store as run_store

RUNS_MAX = 3  # as many causes as the terminal tells in full


def call_in_plan(plan: Plan, revision: Revision) -> str:
    """In one sentence, the first call in the run of a plan that answers otherwise than by an earlier commit.

    UsageError if the protocol of that commit does not fit this harness.
    """
    with protocol_of(revision.name, option="commit") as protocol:
        return first_call(plan, protocol, revision.words).sentence


def keep_first_calls(summaries: Iterable[Summary], store: Path, revision: Revision) -> None:
    """Find it for the first simulated run of each cause, keep it in the run's folder and on its page.

    UsageError if the protocol of that commit does not fit this harness.
    """
    of_causes: dict[str, Summary] = {}
    for summary in summaries:
        if summary.backend == "sim" and summary.store is not None:
            of_causes.setdefault(summary.signature or summary.store, summary)
    if not of_causes:
        return
    with protocol_of(revision.name, option="commit") as protocol:
        for summary in list(of_causes.values())[:RUNS_MAX]:
            folder = store / str(summary.store)
            first_call = keep_first_call(folder, protocol, revision.words)
            if first_call is not None and (folder / run_store.REPORT).exists():
                verdict = msgspec.json.decode((folder / run_store.VERDICT).read_bytes(), type=Verdict)
                rewrite_page(stored_run(folder, verdict), repeat=summary.repeat)
