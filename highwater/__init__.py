"""The harness: the only package that imports both the system under test and the checkers.

    exit_codes errors   exit codes of the commands and the exceptions behind them
    run_folder          temporary folders that `highwater clean` finds when their process was killed
    plans/              everything a run needs, as data and as YAML
    rig/                what all backends share
    backends/           the simulator and real nodes, each performs a plan
    explore/            every schedule of a small world
    coverage/           which code of the protocol a run reaches
    foreign/            histories that another system recorded
    runs/               one run from a plan to its report, also as one of many
    shrink/             the smallest plan that fails in the same way
    campaigns/          many seeds, the regression corpus, `chaos`
    catalogue/          requirements of the source documents, known bugs and their mutants
    admin/              Kafka's administration tools: reassignment, description of topics
    serve/              the runs of a store as web pages
    inspect/            a look inside any moment of a run
    cli/                the commands

Each folder imports those above it in this list, and none imports a folder below it. `load` opens a stored run for a notebook.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater.notebook import StoredRun

__version__ = "0.2.0"


def load(folder: str | Path) -> "StoredRun":
    """Open a stored run: its tables, findings and states as Polars frames (`highwater.notebook`).

    HistoryError if the folder holds none, or a damaged one.
    """
    from highwater.notebook import load as load_run  # every command imports this module, and few need frames

    return load_run(folder)
