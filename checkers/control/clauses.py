"""Checker: which clauses of the documents a broker process broke, by rules over its turns (`monitors`).

A turn is one event of a process and what it did about it. Most of a turn leaves no row: heartbeats and their answers, what a
controller holds in its memory when it sends, requests that wait and why they ended. So the rules are judged while the run goes
on, and a row is recorded only where one is broken: "rule: what the process did (clause)".

>>> from checkers.sketches import sketch
>>> sketch("clauses", "rule-broken node=b1 partition=0 detail=narrowed-early:b2-has-not-answered")
['narrowed-early']
"""

from checkers.engine.anomalies import PLANTED, Harm, Kind, unknown
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "clauses"


# The worst first.
RULES: tuple[Kind, ...] = tuple(
    Kind(name, Harm.BROKEN_STEP, 10 * rank, breaks=(breaks,), unshown=PLANTED)
    for rank, (name, breaks) in enumerate(
        (
            ("acknowledged-above-hw", "DUR"),
            ("deleted-before-stopped", "RES"),
            ("original-replaced", "RES"),
            ("begun-while-cancelled", "LIVE"),
            ("assigned-in-another-order", "CTL"),
            ("ended-with-good-directory", "LIVE"),
            ("fence-too-late", "SL"),
            ("watched-out-of-office", "CTL"),
            ("asked-without-notification", "CTL"),
            ("unconditional-write", "CTL"),
            ("stale-proposal-accepted", "ISR"),
            ("stale-member-elected", "ISR"),
            ("unguarded-write", "CTL"),
            ("another-epoch-used", "CTL"),
            ("older-controller-obeyed", "CTL"),
            ("another-registration-obeyed", "CTL"),
            ("outlives-its-session", "CTL"),
            ("command-out-of-office", "CTL"),
            ("answered-out-of-office", "CTL"),
            ("leader-truncated", "LM"),
            ("appended-out-of-role", "LM"),
            ("role-epoch-falls", "SL"),
            ("role-not-commanded", "SL"),
            ("proposal-out-of-role", "ISR"),
            ("served-out-of-role", "SL"),
            ("fetched-from-another", "LM"),
            ("fetched-in-another-epoch", "LM"),
            ("fetched-elsewhere", "LM"),
            ("wrong-log-end", "LM"),
            ("older-state-told", "SL"),
            ("stranger-told", "RES"),
            ("command-number-falls", "CTL"),
            ("dead-leader-kept", "LIVE"),
            ("refusal-does-not-fence", "SL"),
            ("served-while-fenced", "SL"),
            ("late-answer-counts", "SL"),
            ("fence-not-postponed", "LIVE"),
            ("heartbeat-of-another-registration", "CTL"),
            ("state-not-granted", "CTL"),
            ("narrowed-early", "RES"),
            ("given-above-hw", "HWM"),
            ("another-hw-told", "HWM"),
            ("latest-is-not-hw", "HWM"),
            ("two-commands-in-flight", "META"),
            ("command-not-repeated", "LIVE"),
            ("closed-while-leading", "LIVE"),
            ("parked-request-lost", "LIVE"),
            ("older-metadata-told", "META"),
            ("first-metadata-not-full", "META"),
            ("init-repeated", "CTL"),
            ("not-stopped", "RES"),
            ("fence-too-early", "LIVE"),
            ("silence-too-early", "LIVE"),
            ("command-not-answered", "LIVE"),
            ("unwatched-read", "LIVE"),
            ("command-asks-zookeeper", "LIVE"),
            ("legacy-broker-asks", "LIVE"),
            ("legacy-shutdown-waits", "LIVE"),
            ("offline-replica-denied", "META"),
            ("elected-without-znode", "CTL"),
            ("listed-replica-deleted", "DUR"),
            ("state-not-told", "LIVE"),
            ("stranger-stopped", "RES"),
            ("newer-registration-refused", "LIVE"),
            ("topic-not-read", "RES"),
            ("proposal-forgotten", "LIVE"),
            ("answered-from-elsewhere", "LM"),
            ("another-checkpoint", "HWM"),
            ("hw-not-followed", "HWM"),
            ("command-ignored", "SL"),
            ("role-taken-again", "SL"),
            ("unlisted-replica-kept", "RES"),
            ("codes-mixed-up", "CTL"),
            ("untold-metadata", "META"),
            ("offset-in-range-refused", "LIVE"),
            ("fetched-beyond-the-end", "LM"),
            ("acknowledgement-waits", "LIVE"),
            ("deleted-replica-in-checkpoint", "HWM"),
            ("created-in-failed-directory", "LIVE"),
            ("created-beside-failed-directory", "LM"),
            ("storage-error-without-failure", "META"),
            ("untrue-gauge", "META"),
            ("registered-without-znode", "CTL"),
            ("state-not-held", "SL"),
            ("unreadable-replica-elected", "LIVE"),
            ("epoch-not-raised", "SL"),
            ("init-incomplete", "LIVE"),
            ("results-mixed-up", "ISR"),
            ("heartbeat-not-timed", "LIVE"),
            ("silence-ignored", "LIVE"),
            ("office-not-claimed", "LIVE"),
            ("notification-kept", "LIVE"),
            ("new-replica-again", "META"),
            ("offline-replica-not-told", "META"),
            ("unknown-znode", "CTL"),
            ("another-znode-form", "CTL"),
            ("init-missing", "LIVE"),
            ("other-version-proposed", "ISR"),
            ("another-state-wanted", "LIVE"),
            ("failure-not-shown", "META"),
            ("fetched-before-flush", "DUR"),
            ("cancelled-move-goes-on", "RES"),
            ("narrowed-untold", "RES"),
            ("runs-without-directory", "LIVE"),
            ("session-not-renewed", "LIVE"),
            ("fence-postponed-by-refusal", "SL"),
            ("init-dropped", "LIVE"),
        ),
        1,
    )
)
_NAMES = frozenset(kind.name for kind in RULES)


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report one anomaly for each broken rule; a rule that this version does not know makes the verdict UNKNOWN."""
    columns = (events.column(name) for name in ("index", "node", "topic", "partition", "detail"))
    anomalies, doubts = [], []
    for at, node, topic, partition, detail in zip(*columns, strict=True):
        rule, _, words = (detail or "").partition(":")
        if rule not in _NAMES:
            doubts.append(f"row {at} says that {node or 'a process'} broke a rule that is not known: {detail or 'none'}")
            continue
        key = "" if topic is None else f"{topic}-{partition}"
        anomalies.append(Anomaly(kind=rule, checker=NAME, key=key, witness=(at,), words=f"{node}: {words.strip()}"))
    return Findings(anomalies=tuple(anomalies), unchecked=tuple(doubts))


CHECKER = Checker(
    name=NAME,
    claim="No process breaks a clause that has a rule over its turns.",
    assumes="The backend watches every turn of every process: the simulator does.",
    blind="Clauses without a rule; processes whose turns nobody sees: real ones.",
    reports=(*RULES, unknown(unshown="a history of another version shows it (tests/checkers/test_clauses.py)")),
    group_by=WHOLE_RUN,
    events=(K.RULE_BROKEN,),
    check=check,
    split=gathered(check),
)
