"""Declaring a kind of anomaly: its name, what it does, which invariant it breaks, which protocols show it.

A checker declares each kind that it reports once (`Checker.reports`). The order in which findings are told, the kinds of each
invariant, the rows of corpus/mutants.yaml and docs/properties.md follow from the declarations. A kind that several checkers
report is declared in one of them, and the others name that declaration.
"""

from enum import IntEnum

from msgspec import Struct

NOT_LIVE = "not-live"
UNKNOWN = "unknown"
# Why no variant of the protocol shows a kind, and what shows it instead.
HISTORIES = "no switch does it; histories of the corpus show it"
BROKEN_MACHINE = "no switch does it; machines that are broken by hand show it (tests/mutants)"
PLANTED = "no switch does it; mistakes that are planted in the protocol show it (tests/mutants/test_rules.py)"
WITHOUT_NOTES = (
    "it judges systems whose brokers note nothing; simulated ones without notes show it (tests/mutants/test_black_box.py)"
)
NO_COMMITS = "the reference keeps no offsets of consumer groups; histories of the corpus show it"
NO_GROUPS = "the reference has no consumer groups; histories of the corpus show it"
NO_TRANSACTIONS = "the reference has no transactions; histories of the corpus show it"


class Harm(IntEnum):
    """What an anomaly does, worst first. A failed run has many kinds of anomalies, most of them consequences of one."""

    LOSS = 1  # a promised record, position or log is gone
    FALSE_READ = 2  # clients read what is not true
    MISSED = 3  # clients miss records for some time, or their view goes back
    DISORDER = 4  # records are out of order or doubled
    WRONG_ANSWER = 5  # a wrong request is carried out, or a right one refused; a client is not told what became of its records
    LOSS_NEXT = 6  # the next failover may lose a record
    USURPED = 7  # two brokers act in one role, or a state is written by the wrong one
    BROKEN_STEP = 8  # a step of the documents was left out, or came too early; what comes of it may not be seen in this run
    NOT_LIVE = 9  # what must happen in time did not: the run is not live, and may be VALID
    UNKNOWN = 10  # the history cannot be judged


class Kind(Struct, frozen=True):
    """A kind of finding. It has either protocols that show it or the reason why none does."""

    name: str  # NOT_LIVE and UNKNOWN are no anomalies
    harm: Harm
    rank: int = 0  # among kinds of the same harm, worst first; in tens, so that another one fits between
    breaks: tuple[str, ...] = ()  # names of invariants (highwater/catalogue/mutants.py)
    shown_by: tuple[str, ...] = ()  # variants of the protocol, each with its plan in corpus/mutants.yaml
    unshown: str = ""

    @property
    def is_anomaly(self) -> bool:
        """Whether it makes a run INVALID."""
        return self.harm < Harm.NOT_LIVE


def not_live(*breaks: str, shown_by: tuple[str, ...] = (), unshown: str = "") -> Kind:
    """Declare that a checker judges liveness, and which invariants are broken if the run is not live."""
    return Kind(name=NOT_LIVE, harm=Harm.NOT_LIVE, breaks=breaks, shown_by=shown_by, unshown=unshown)


def unknown(*, shown_by: tuple[str, ...] = (), unshown: str = "") -> Kind:
    """Declare that a checker may find that a history cannot be judged."""
    return Kind(name=UNKNOWN, harm=Harm.UNKNOWN, shown_by=shown_by, unshown=unshown)
