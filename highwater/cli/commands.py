"""The commands of `highwater` in the order of its help, each with the module of `highwater.cli` that has its function.

A module is imported when its command is asked for: importing all of them takes a second.
"""

import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """A command: its name, the module that has it, and its line in the list of commands."""

    name: str
    module: str
    line: str

    def load(self) -> Callable[..., int]:
        """Import the function that carries out the command."""
        function: Callable[..., int] = getattr(import_module(f"highwater.cli.{self.module}"), self.name)
        return function


class Group(NamedTuple):
    """Commands below one word, as in `highwater admin reassign`."""

    name: str
    line: str
    members: tuple[Command, ...]


COMMANDS = (
    Command("run", "run", "Perform one plan or seed and judge it."),
    Command("replay", "replay", "Perform a stored run again and compare the digests."),
    Command("campaign", "campaign", "Run many seeds, on all cores or on Spark."),
    Command("watch", "watch", "Show how far a campaign is."),
    Command("chaos", "chaos", "Gate a change: corpus, stored plans, seeds, known mistakes."),
    Command("bisect", "bisect", "Find the first bad one of a folder of Kafka builds."),
    Command("shrink", "shrink", "Find the smallest plan that fails in the same way."),
    Command("describe", "describe", "Show leaders, replicas and ISR of a cluster or run."),
    Command("inspect", "inspect", "Look at any moment of a run or an explored path."),
    Command("check", "check", "Judge one history, also of Jepsen; store nothing."),
    Command("verify", "verify", "Verify what proves a verdict, without a judge."),
    Command("export", "export", "Write a history as EDN, for Elle, Knossos and Jepsen."),
    Command("judge", "judge", "Judge stored histories again."),
    Command("report", "report", "Write the page of a stored run."),
    Command("serve", "serve", "Show all runs of a store in a browser."),
    Command("query", "query", "Answer a question about many runs."),
    Command("diff", "diff", "Compare two campaigns."),
    Command("compare", "compare", "Weigh two protocol variants on the same plans."),
    Command("triage", "query", "Count the causes of failed runs."),
    Command("protocols", "catalogue", "List the protocols and what each has switched."),
    Command("protocol", "catalogue", "Show the documents' statements and the promise's rules."),
    Command("faults", "catalogue", "List the kinds of faults."),
    Command("systems", "systems", "List or fetch systems under test, as Apache Kafka."),
    Command("clean", "clean", "Remove what runs on this machine left behind."),
)
GROUPS = (
    Group(
        "explore",
        "Search all schedules of a small cluster, or of a model.",
        (
            Command("machines", "explore_machines", "Search all schedules of a small cluster."),
            Command("model", "explore_model", "Search an abstract model of the protocol."),
            Command("refine", "explore_refine", "Check that the machines implement a model."),
            Command("realise", "explore_realise", "Look for a model's counterexample on the machines."),
            Command("ablate", "explore_ablate", "Tell which switches of safe matter."),
        ),
    ),
    Group(
        "admin",
        "Administer a cluster through ZooKeeper.",
        (Command("reassign", "reassign", "Move partitions: the admin tool of KIP-236."),),
    ),
    Group(
        "store",
        "Keep runs: a dataset of Parquet files, old runs, a zip file.",
        (
            Command("ingest", "store", "Copy stored runs into a dataset."),
            Command("compact", "store", "Make few large files of many small ones."),
            Command("verify", "store", "Compare a dataset with its stored digests."),
            Command("mend", "store", "Set damaged parts of a dataset aside, to take them in again."),
            Command("prune", "store_runs", "Remove the oldest runs of a store."),
            Command("pack", "store_runs", "Put a stored run into a zip file."),
        ),
    ),
)
# Options of `highwater explore` before its searches had names, and the search that each asked for.
_SEARCHES = {"--model": "model", "--ablate": "ablate", "--realise": "realise", "--refines": "refine"}


def renamed_search_hint(arguments: Sequence[str]) -> str:
    """What to type now for `highwater explore` without the name of a search, as earlier versions had it; else ""."""
    if arguments[:1] != ["explore"] or (arguments[1:] and not arguments[1].startswith("-")) or {"-h", "--help"} & {*arguments}:
        return ""
    words = [part for word in arguments[1:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    option = next((option for option in _SEARCHES if option in words), "")
    search = [_SEARCHES.get(option, "machines")]
    if option:
        at = words.index(option)
        search += [name for name in words[at + 1 : at + 2] if (option, name) != ("--ablate", "safe")]
        words = words[:at] + words[at + 2 :]
    old = " ".join(["explore", *([option] if option else arguments[1:2])])
    return f"{old} is now: {shlex.join(['highwater', 'explore', *search, *words])}"
