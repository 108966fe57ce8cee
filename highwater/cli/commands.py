"""The commands of `highwater`, in the order of its help."""

from collections.abc import Callable

from highwater.cli.campaign import campaign
from highwater.cli.catalogue import faults, protocol, protocols
from highwater.cli.chaos import chaos
from highwater.cli.check import check
from highwater.cli.clean import clean
from highwater.cli.describe import describe
from highwater.cli.diff import diff
from highwater.cli.explore import explore
from highwater.cli.export import export
from highwater.cli.judge import judge
from highwater.cli.query import query, triage
from highwater.cli.reassign import reassign
from highwater.cli.replay import replay
from highwater.cli.report import report
from highwater.cli.run import run
from highwater.cli.shrink import shrink
from highwater.cli.store import compact, ingest, verify
from highwater.cli.systems import systems
from highwater.cli.watch import watch

# In the order of `highwater --help`.
COMMANDS: tuple[Callable[..., int], ...] = (
    run,
    replay,
    campaign,
    watch,
    chaos,
    shrink,
    explore,
    describe,
    check,
    export,
    judge,
    report,
    query,
    diff,
    triage,
    protocols,
    protocol,
    faults,
    systems,
    clean,
)
# Commands below one word, `highwater admin reassign`: the word, its help, the commands.
GROUPS: tuple[tuple[str, str, tuple[Callable[..., int], ...]], ...] = (
    ("admin", "Administration of a cluster through ZooKeeper.", (reassign,)),
    ("store", "A dataset of runs as Parquet, for Spark, Polars and DuckDB.", (ingest, compact, verify)),
)
