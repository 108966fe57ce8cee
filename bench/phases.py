"""`python -m bench.phases SEEDS`: the CPU seconds of performing, judging, storing and the page of seeds, in one new process.

It does what `highwater run` does, seed by seed, and is started by `bench.simulator`. Imports count apart, but those
that a phase makes on its first call count to the phase.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import msgspec
from msgspec import Struct

from highwater.cli import options
from highwater.cli.choosing import choose
from highwater.cli.output import say
from highwater.runs.provenance import present_build
from highwater.runs.run import Judged, backend_named, judge, perform, store_evidence, store_judgement
from highwater.runs.summary import summarize

IMPORTED_S = process_time()


class Spent(Struct, kw_only=True):
    """CPU seconds by phase, and what was simulated in them."""

    imports_s: float = 0.0
    perform_s: float = 0.0
    judge_s: float = 0.0  # with the summary
    store_s: float = 0.0
    page_s: float = 0.0
    other_s: float = 0.0  # plans and the description of the checkout
    sim_seconds: float = 0.0

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process."""
        return self.imports_s + self.perform_s + self.judge_s + self.store_s + self.page_s + self.other_s


def spend(seeds: Sequence[int], folder: Path, *, stores: bool) -> Spent:
    """Perform and judge seeds; store them with their pages if `stores`."""
    build, backend = present_build(), backend_named("sim")
    spent = Spent(imports_s=IMPORTED_S)
    for seed in seeds:
        plan = choose(seed=str(seed), workload="mixed").plan
        marks = [process_time()]
        run = perform(plan, backend, build)
        marks.append(process_time())
        verdict = judge(run.history)
        summary = summarize(plan, run.history, verdict, repeat="make bench", wall_seconds=0.0)
        marks.append(process_time())
        judged_run = Judged(plan=plan, history=run.history, verdict=verdict, summary=summary)
        directory = store_evidence(plan, run.history, folder) if stores else folder
        marks.append(process_time())
        if stores:
            store_judgement(judged_run, directory, folder, report=True)
        marks.append(process_time())
        for name, since, until in zip(("perform_s", "judge_s", "store_s", "page_s"), marks, marks[1:], strict=False):
            setattr(spent, name, getattr(spent, name) + until - since)
        spent.sim_seconds += summary.sim_seconds
    spent.other_s = process_time() - spent.cpu_s
    return spent


def main(arguments: Sequence[str]) -> None:
    """Print the CPU seconds as JSON."""
    parser = argparse.ArgumentParser(prog="bench.phases", description=__doc__)
    parser.add_argument("seeds", help="FIRST..LAST")
    parser.add_argument("--stores", action="store_true", help="store each run and its page")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        say(msgspec.json.encode(spend(options.seeds_of(given.seeds), Path(folder), stores=given.stores)).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
