"""Which checkers can judge a run whose system does not show everything (docs/systems.md).

A system tells which sources of rows it gives completely (`history.manifest.Source`). A checker that reads rows of another source
does not judge, because missing rows would look like a fault; the verdict names it under `unchecked`, and the run may still be
VALID. Where the brokers' notes are missing, `client_log` judges in place of the ledger, from the clients alone, and
`stored_records` compares the disks at the end, `deleted_records` looks for records of deleted topics, and `administration` judges
requests to the brokers. `transactions`, `group_delivery`, `auto_commit`, `compaction`, `exactly_once`,
`zombies` and `share_groups` judge what only such systems offer.
"""

from collections.abc import Iterator, Sequence

from checkers.clients import (
    auto_commit,
    client_log,
    compaction,
    exactly_once,
    group_delivery,
    share_groups,
    transactions,
    zombies,
)
from checkers.durability import deleted_records, stored_records
from checkers.durability.acked_loss import CHECKER as LEDGER
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, source_of
from checkers.liveness import administration
from history.manifest import Source, SystemFacts

# Where the brokers' notes are missing: what clients saw, and what is on the disks at the end.
IN_PLACE_OF_NOTES = (
    client_log.CHECKER,
    stored_records.CHECKER,
    deleted_records.CHECKER,
    administration.CHECKER,
    transactions.CHECKER,
    group_delivery.CHECKER,
    auto_commit.CHECKER,
    compaction.CHECKER,
    exactly_once.CHECKER,
    zombies.CHECKER,
    share_groups.CHECKER,
)
# Rules of the reference: other systems may take a replica that ended without a clean shutdown out of the ELR (KIP-966), and raise
# epochs and choose leaders by other rules.
_OF_THE_REFERENCE = ("electorate", "succession")
# They judge what clients saw; events of brokers only add to that.
_OF_CLIENTS = ("client-log", "offset-agreement", "assumptions", "vacuity")


def judging(facts: Facts, checkers: Sequence[Checker]) -> tuple[Checker, ...]:
    """Those of the checkers that can judge a run; without notes, also the judges of clients and disks in place of the ledger."""
    able = tuple(checker for checker in checkers if not _sources_missing(facts, checker))
    if LEDGER in able or LEDGER not in checkers:
        return able
    return (*(checker for checker in IN_PLACE_OF_NOTES if not _sources_missing(facts, checker)), *able)


def unjudged(system: SystemFacts | None, facts: Facts, checkers: Sequence[Checker]) -> Iterator[str]:
    """What is judged otherwise: one sentence if there are no final reads, and one for each set of sources that checkers lack."""
    if system is None:
        return
    if not facts.makes_final_reads:
        yield f"{system.name} makes no final reads: its records are judged by all reads"
    silent: dict[tuple[Source, ...], list[str]] = {}
    for checker in checkers:
        lacks = _sources_missing(facts, checker)
        if lacks:
            silent.setdefault(lacks, []).append(checker.name)
    for lacks, names in silent.items():
        words = f"{system.name} {system.version}".rstrip()
        yield f"{words} gives no {' and no '.join(lacks)}: {', '.join(names)} did not judge"


def _sources_missing(facts: Facts, checker: Checker) -> tuple[Source, ...]:
    """The sources that a checker reads and the system does not give."""
    if checker.name in _OF_CLIENTS:
        return ()
    read = {source_of(kind) for kind in checker.events} | ({"notes"} if checker.name in _OF_THE_REFERENCE else set())
    return tuple(source for source in ("notes", "coordination", "disks") if source in read and source not in facts.observes)
