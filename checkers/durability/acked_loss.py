"""Durability: every promised record stays, unless the harness destroyed the last copy that counted (docs/promise.md §1, §2).

The checker keeps the ledger of one partition in one pass. A record is promised from the first of: acknowledged under acks=all,
below the HW of a leader, returned to a consumer. It is missing when the leader of a later epoch starts without it, when the log
of the last leader ends without it, or when a consumer reads past its offset. A missing record is

* excused, if the wounded replica was counted on when its wound was noticed, no counted-on replica held the record any more
  (DUR-3), and at least m replicas were wounded at a time (DUR-4: fewer copies than m should not have made a promise); or if an
  operator ordered the election of a replica that lacked it (DUR-7);
* otherwise lost by the protocol: `lost-write`, whatever wounds came before or after (DUR-2, DUR-3);
* unjudged, if the history has no ISR changes to tell the two apart (VAC-1).

Why it is sound: a record committed in epoch T is in the log of every leader of an epoch above T. A leader is therefore held only
to promises of epochs up to its own, and a deposed leader that answers late is not accused. A destroyed copy counts as held until
its wound is noticed. A copy that no row shows neither accuses nor excuses.

    >>> from checkers.sketches import sketch
    >>> sketch("acked-loss", "state-written leader=b1 isr=b1,b2", "ok produce value=a offset=0", "ok poll offset=1 value=b")
    ['lost-write']
"""

from operator import itemgetter

from checkers.durability.ledger import LEDGER_ROWS, NAME, Ledger
from checkers.engine import screens
from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, promised
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.timeline.replay import REPLAYED


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find the promised records that one partition lost. Ignores its argument `cuts` (excused losses), which it produces."""
    topic, partition = partition_of(operations, events)
    promise = promised(facts, topic)
    if promise is None:
        return Findings(counts={"promised": 0, "excused": 0})
    ledger = Ledger(
        topic=topic,
        partition=partition,
        promise=promise,
        by_operator=facts.promise.unclean_election == "by_operator",
    )
    answered = [call for call in operations.calls if call.type == "ok"]
    steps: list[tuple[int, EventRow | None, Call | None]] = [(row.at, row, None) for row in events.rows]
    steps.extend((call.ended, None, call) for call in answered)
    steps.sort(key=itemgetter(0))
    for _, row, call in steps:
        if row is not None:
            ledger.see(row)
        elif call is not None and call.f == "poll":
            ledger.read(call)
        elif call is not None and call.asked[0].acks == -1:
            for record in call.rows:
                if record.offset is not None and record.value is not None:
                    ledger.promise_record(record.offset, record.value, record.leader_epoch, record.at)
    return ledger.findings()


LOST_WRITE = Kind(
    "lost-write", Harm.LOSS, 10, breaks=("DUR",),
    shown_by=(
        "v3", "v3-external-view", "article", "truncate-to-hw", "isr-join-hw-only", "isr-current", "isr-eager",
        "no-min-isr-check", "hw-under-min-isr", "no-elr", "truncate-to-hw-no-incarnation", "hw-checkpoint-eager",
        "hw-checkpoint-missing",
        "hw-checkpoint-zero-on-shutdown", "no-replica-without-leader", "no-purgatory-epoch-check", "leads-from-startup",
        "offline-replica-recreated", "log-dir-keep-leader", "isr-no-version", "isr-no-member-epoch", "cancel-without-isr",
        "unnamed-log-deleted",
    ),
)  # fmt: skip

CHECKER = Checker(
    name=NAME,
    claim="A promised record stays at its offset; it is missing only where the harness destroyed the last copy that counted.",
    assumes="Brokers record each append, truncation and HW; ZooKeeper's writes and destroyed data are recorded completely.",
    blind="Loss of records that were never promised; changes to a copy before its append is recorded.",
    reports=(LOST_WRITE,),
    group_by=PARTITION,
    operations=("produce", "poll"),
    events=LEDGER_ROWS,
    phase="ledger",
    complexity="n log n in the rows, plus one pass over the promised records for each leader change and each wound",
    check=check,
    screen=screens.acked_loss,
    tied=REPLAYED,
)
