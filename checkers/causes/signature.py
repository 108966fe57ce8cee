"""The signature of a run: what went wrong first, and the step of the protocol that did it.

One mistake leaves many anomalies, each in words of its own. A run is therefore known by the anomaly that was proven first, that
is, whose last witness comes first: a truncation of committed records is proven at the truncation, the loss that follows at the
next election, the read that misses the record later still. The step is the event that is the proof; where a high watermark, an
append or an answer to a client is the proof, it is the last step of that partition before it.

A run may contain several mistakes. Where a promised record was lost, the run is known by what led to the first loss: anomalies
of other partitions, and answers to clients, did not cause it. An answer that breaks a rule names only a run without any other
anomaly: no replica acts on it, and a client that sends wrong requests meets it in every run.

Runs with one cause agree in kind, checker and step (`text`). The faults in effect at that moment provoked it and differ from
seed to seed, so they are part of the value and of its sentence and not of the text. docs/triage.md explains the words.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from checkers.causes.fault_windows import kinds_in_effect, windows
from checkers.causes.steps import CONSEQUENCES, steps
from checkers.engine.anomalies import NOT_LIVE, UNKNOWN, Harm
from checkers.engine.verdict import Anomaly, Verdict, without_count
from checkers.severity import harm
from history.event import EventKind as K
from history.history import History

# What an anomaly that may cause a later loss does.
_STEPS = (Harm.LOSS_NEXT, Harm.USURPED, Harm.BROKEN_STEP)

# Of anomalies that one row proves, the first of these checkers names the cause: the nearer to the step, the earlier.
_CHECKERS = (
    "assertions",
    "clauses",
    "election",
    "state-writes",
    "deletion",
    "topic-identity",
    "incarnations",
    "log-matching",
    "isr-agreement",
    "single-leader",
    "single-controller",
    "fencing",
    "monotonic-hw",
    "acked-loss",
)

# What a cluster lacks that is not live: words of the sentence, the checker that says them, what is wrong. Causes come first.
_LACKS: tuple[tuple[str, str, str], ...] = (
    ("was still running", "brokers", "a broker does not shut down"),
    ("did not fence itself", "brokers", "a broker that reaches no other does not fence itself"),
    ("logs in its directories", "brokers", "the logs of a broker lie in one directory"),
    ("OfflineReplicaCount", "brokers", "OfflineReplicaCount is wrong"),
    (" tells that ", "metadata", "a broker tells clients what is not true"),
    ("though no other such request", "availability-cluster", "a request of an administrator is refused without a reason"),
    ("gave up its produce", "clients", "a client gives up a produce that it could retry"),
    (", its timeout, for its", "clients", "a call ends after the client's timeout"),
    ("though no fault hit it or", "clients", "a call hangs"),
    ("restarts with LEO", "brokers", "a broker restarts with a shorter log"),
    ("restarts with HW", "brokers", "a broker restarts with a lower high watermark"),
    ("gave up its full directory", "brokers", "a broker gives up a full directory in which it need not write"),
    ("as inactive at row", "demotions", "a controller treats a broker as inactive that it could hear"),
    ("though its ISR held", "advance", "a record that the whole ISR holds is committed late"),
    ("was removed from the ISR", "demotions", "a broker is removed from the ISR without a cause"),
    ("lost its leader", "demotions", "a partition loses its leader without a cause"),
    ("the result of its ISR change", "promptness", "a leader learns late what became of its ISR change"),
    ("is still in the ISR", "promptness", "a broker that is gone stays in the ISR"),
    ("does not know epoch", "promptness", "a replica learns late who leads"),
    ("has no state", "promptness", "a new partition gets no state"),
    ("took no step", "promptness", "a move stands still"),
    ("was still in the ISR", "laggards", "a follower lags and stays in the ISR"),
    ("is not registered", "availability-cluster", "a broker is not registered"),
    ("no broker is controller", "availability-cluster", "no broker is controller"),
    ("never had a leader", "availability-cluster", "a partition has no leader"),
    ("has no leader", "availability", "a partition has no leader"),
    ("acts in no epoch", "availability", "a replica acts in no leader epoch"),
    ("acts in epoch", "availability", "a replica acts in another leader epoch than ZooKeeper's"),
    ("not in the ISR of", "availability", "a replica stays out of the ISR"),
    ("is still requested", "availability-cluster", "a request under /admin is not done"),
    ("the log of", "availability", "logs of one partition differ"),
    ("the high watermark of", "availability", "the high watermark stays below the log end"),
    ("though no fault was in force", "progress", "no produce is acknowledged in a calm"),
    ("though only", "replacement", "no produce is acknowledged while one broker is cut off"),
    ("no acks=all produce", "availability", "no produce is acknowledged"),
    ("got no answer", "availability", "a client gets no answer"),
    (" ms for the answer to its ", "availability", "a client waits too long for an answer"),
    ("final readers", "availability", "final readers miss records"),
    ("tells clients", "convergence", "metadata of a broker differ from ZooKeeper"),
    ("for clients", "convergence", "metadata of a broker differ from ZooKeeper"),
    ("gives clients", "convergence", "metadata of a broker differ from ZooKeeper"),
    ("still lists", "convergence", "a broker lists a partition that is gone"),
    ("which is not in ZooKeeper", "convergence", "a log of a partition stays that is gone"),
    ("stray log", "convergence", "a log stays that is not assigned"),
    ("has no log of", "convergence", "a replica has no log"),
    ("logs of", "convergence", "a replica has several logs"),
)
_DECISIVE = r"^(elected-|epoch-raised|truncate:|wound:|hw-lowered|replica-deleted|topic-deleted)"
_ALLOWED = ("elected-in-isr", "elected-from-elr", "epoch-raised")
_REASONS = r"^(isr-expanded|isr-shrunk|truncate:|wound:|unclean-election-ordered)"
_OF_REQUESTS = ("availability-cluster", "a request of an administrator is not done")


class Signature(Struct, frozen=True, kw_only=True):
    """What went wrong first in a run. Equal `text` means one cause."""

    kind: str  # of the anomaly, or `not-live`, or `unknown`
    checker: str
    step: str  # of `checkers.causes.steps`, or what the cluster lacks; empty where the history shows none
    key: str = ""  # the partition or client, or empty for the whole run
    at: int | None = None  # row that proves it
    at_ns: int | None = None
    in_effect: tuple[str, ...] = ()  # kinds of the faults in effect at that time, sorted
    words: str = ""  # of the anomaly

    @property
    def text(self) -> str:
        """The cause in a short form that is equal for equal causes, for example `truncated-committed/log-matching/...`."""
        return "/".join(part for part in (self.kind, self.checker, self.step) if part)

    @property
    def sentence(self) -> str:
        """The cause in words, with the faults that were in effect."""
        during = f" while {' and '.join(self.in_effect)} {'was' if len(self.in_effect) == 1 else 'were'} in effect"
        where = f" of {self.key}" if self.key else ""
        if self.kind in (NOT_LIVE, UNKNOWN):
            return self.words
        by = f"Step {self.step}{where}" if self.step else f"A row{where}"
        moment = "" if self.at_ns is None else f" at {self.at_ns / 1e9:.3f} s"
        return f"{by}{moment}{during if self.in_effect else ', no fault in effect'}: {self.words}"


def signature(history: History, verdict: Verdict) -> Signature | None:
    """The signature of a run that is INVALID, not live or UNKNOWN, in this order of importance; None for a run that is none."""
    if verdict.anomalies:
        return _signature_of_anomaly(history, first_cause(history, verdict.anomalies))
    if verdict.not_live:
        return _signature_of_silence(history, verdict.not_live)
    if verdict.unchecked:
        checker, _, reason = verdict.unchecked[0].partition(": ")
        return Signature(
            kind=UNKNOWN,
            checker=checker if reason else "",
            step=_without_particulars(reason or checker),
            words=verdict.unchecked[0],
        )
    return None


def first_cause(history: History, anomalies: Sequence[Anomaly]) -> Anomaly:
    """The anomaly that names the cause: what led to the first loss, else the first anomaly that is not about a single answer."""
    losses = [found for found in anomalies if harm(found.kind) is Harm.LOSS]
    if not losses:
        return first_proven([found for found in anomalies if harm(found.kind) is not Harm.WRONG_ANSWER] or anomalies)
    loss = first_proven(losses)
    return first_proven([loss, *(found for found in anomalies if may_lead_to(history, found, loss))])


def may_lead_to(history: History, anomaly: Anomaly, loss: Anomaly) -> bool:
    """Whether an anomaly may have caused a later loss: by its kind, in the same partition or in the whole cluster."""
    last = proof(loss)
    if (
        harm(anomaly.kind) not in (Harm.LOSS_NEXT, Harm.USURPED, Harm.BROKEN_STEP)
        or anomaly.key not in (loss.key, "")
        or last is None
    ):
        return False
    if anomaly.kind != "unflushed":
        return True
    # Records that were not flushed are lost only where a fault destroys bytes.
    is_of_partition = pl.concat_str("topic", pl.lit("-"), pl.col("partition").cast(pl.String)) == loss.key
    wounds = history.events_frame.filter((pl.col("kind") == str(K.WOUND)) & is_of_partition & (pl.col("index") <= last))
    return (wounds["index"] > (proof(anomaly) or 0)).any()


def first_proven(anomalies: Iterable[Anomaly]) -> Anomaly:
    """The anomaly whose last witness comes first; of several with one last witness, that of the checker nearest to the step."""
    return min(anomalies, key=lambda found: (proof(found) is None, proof(found), nearness(found)))


def proof(anomaly: Anomaly) -> int | None:
    """The row that completes the proof of an anomaly: its last witness; None for an anomaly without witnesses."""
    return max(anomaly.witness, default=None)


def nearness(anomaly: Anomaly) -> tuple[int, int, Anomaly]:
    """Orders anomalies that one row proves: the nearer its checker is to the step of the protocol, the earlier."""
    near = _CHECKERS.index(anomaly.checker) if anomaly.checker in _CHECKERS else len(_CHECKERS)
    # An ISR that the leader assumes is in force before ZooKeeper's, so the weaker claim is broken first.
    return near, anomaly.kind == "strong-isr", anomaly


def _signature_of_anomaly(history: History, anomaly: Anomaly) -> Signature:
    """The signature of an anomaly: its kind, and the step that was taken where it was proven."""
    at = proof(anomaly)
    place = None if at is None else _place_of_row(history, at)
    time_ns = None if place is None else place.time_ns
    return Signature(
        kind=anomaly.kind,
        checker=anomaly.checker,
        step="" if place is None else _name_of_step(history.events_frame, place, first=min(anomaly.witness)),
        key=anomaly.key,
        at=at,
        at_ns=time_ns,
        in_effect=_faults_in_effect(history, time_ns),
        words=without_count(anomaly.words),
    )


class _Place(NamedTuple):
    """The row that completes a proof."""

    row: int
    time_ns: int
    kind: str  # of an event; `f` of an operation
    is_event: bool
    node: str | None
    topic: str | None
    partition: int | None
    detail: str | None


def _place_of_row(history: History, index: int) -> _Place | None:
    """The row of this index; None where no row has it."""
    columns = ("index", "time_ns", "kind", "is_event", "node", "topic", "partition", "detail")
    is_here = pl.col("index") == index
    events = history.events_frame.filter(is_here).with_columns(is_event=True)
    calls = history.operations_frame.filter(is_here).with_columns(kind=pl.col("f"), is_event=False, detail=pl.lit(""))
    found = pl.concat([events.select(columns), calls.select(columns)]).head(1)
    return None if found.is_empty() else _Place(*found.row(0))


def _name_of_step(events: pl.DataFrame, place: _Place, *, first: int) -> str:
    """The step that did it: the row itself, or the last one of its partition that changed who leads or what a log holds.

    Before an answer to a client it is looked for from row `first` on, the first witness.
    """
    is_here = pl.col("topic").eq_missing(place.topic) & pl.col("partition").eq_missing(place.partition)
    rows_of_partition = events.filter((pl.col("index") <= place.row) & is_here)
    if place.kind in (K.HW, K.APPEND):
        own = rows_of_partition.filter(pl.col("node").eq_missing(place.node))
        return f"{place.kind}:{place.detail or ''}{_change_in_flight(own)}"
    found = steps(rows_of_partition)
    if place.is_event and place.kind not in CONSEQUENCES:
        itself = found.filter(pl.col("index") == place.row)
        return place.kind if itself.is_empty() else _with_reason(found)
    decisive = found.filter(pl.col("step").str.contains(_DECISIVE))
    if not place.is_event:
        seen = decisive.filter(pl.col("index") >= first)
        return f"answer:{place.kind}" if seen.is_empty() else str(seen["step"][-1])
    return place.kind if decisive.is_empty() else _with_reason(found.filter(pl.col("index") <= decisive["index"][-1]))


def _with_reason(found: pl.DataFrame) -> str:
    """The last of these steps; of an election that the rules allow also the step before that made it possible."""
    step = str(found["step"][-1])
    before = found[:-1].filter(pl.col("step").str.contains(_REASONS))
    return step if step not in _ALLOWED or before.is_empty() else f"{step} after {before['step'][-1]}"


def _change_in_flight(own: pl.DataFrame) -> str:
    """Which ISR change the node of these events has asked for without an answer yet, as words to append; empty for none."""
    kinds = [str(kind) for kind in (K.BECAME_LEADER, K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)]
    last_changes = own.filter(pl.col("kind").is_in(kinds))["kind", "isr"].tail(2).rows()
    if not last_changes or last_changes[-1][0] != K.ISR_CHANGE_SENT:
        return ""
    grows = len(last_changes) == 2 and set(last_changes[-1][1] or ()) > set(last_changes[0][1] or ())
    return ", ISR expansion in flight" if grows else ", ISR change in flight"


def _faults_in_effect(history: History, time_ns: int | None) -> tuple[str, ...]:
    """The kinds of faults in effect at a time; none without a time."""
    if time_ns is None:
        return ()
    fault_windows = windows(history.events_frame, history.manifest.end_ns)
    return tuple(kinds_in_effect(fault_windows, pl.Series([time_ns], dtype=pl.Int64))[0])


def _signature_of_silence(history: History, not_live: tuple[str, ...]) -> Signature:
    """The signature of a run that did not become live again: what is lacking first, where, and the last step there."""
    return of_lack(history, min(not_live, key=rank_of_lack))


def rank_of_lack(words: str) -> int:
    """Orders what a cluster lacks, causes first."""
    return _rank_of_lack(words)[0]


def of_lack(history: History, words: str) -> Signature:
    """The signature of one thing that a cluster lacks, in the words of its checker."""
    _, checker, lacking = _rank_of_lack(words)
    keys = {f"{name.topic}-{name.partition}" for name in history.partitions}
    key = next((word for word in re.split(r"[\s,]+", words) if word in keys), "")
    return Signature(kind=NOT_LIVE, checker=checker, step=lacking, key=key, words=words)


def _rank_of_lack(words: str) -> tuple[int, str, str]:
    """How much a sentence on what was missing tells (0 most), the checker that says it, and what was missing."""
    for rank, (phrase, checker, lacking) in enumerate(_LACKS):
        if phrase in words:
            return rank, checker, lacking
    return len(_LACKS), *_OF_REQUESTS


def _without_particulars(words: str) -> str:
    """Words without the numbers that differ from run to run."""
    return re.sub(r"\d+", "#", words)
