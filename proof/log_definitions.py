"""The definition of each log checker, computed over all rows and pairs of rows, without state.

Each function takes the rows of one partition and returns the kinds of its anomalies. Excused records, cuts and reasons for not
being live are returned as words, into which `proof.verdict_words` also translates a verdict.
"""

from proof.answers import answers
from proof.client_definitions import (
    committed_offsets,
    duplicates,
    monotonic_hw,
    offset_agreement,
    order,
    passed_over,
    polls,
)
from proof.compaction import compaction
from proof.deleted_records import deleted_records
from proof.durability import acked_loss, elections
from proof.end_definitions import cluster, convergence
from proof.final_reads import black_box
from proof.group_definitions import auto_commit, group_delivery, share_groups
from proof.handed_over import background
from proof.liveness_definitions import availability, progress, replacement
from proof.log_rows import Definition, of_rows
from proof.replica_definitions import election, fencing, isr_agreement, log_matching, single_leader, state_writes
from proof.run_definitions import (
    deletion,
    electorate,
    flushes,
    incarnations,
    producers,
    single_controller,
    topic_identity,
)
from proof.session_definitions import exactly_once, zombies

_OF_CALLS: dict[str, Definition] = {
    "acked-loss": of_rows(passed_over), "offset-agreement": of_rows(offset_agreement), "order": of_rows(order),
    "duplicates": of_rows(duplicates), "monotonic-hw": of_rows(monotonic_hw), "fencing": fencing,
    "polls": of_rows(polls),
}  # fmt: skip
_OF_REPLICAS: dict[str, Definition] = {
    "offset-agreement": of_rows(offset_agreement), "monotonic-hw": of_rows(monotonic_hw),
    "single-leader": of_rows(single_leader), "isr-agreement": of_rows(isr_agreement), "election": of_rows(election),
    "log-matching": of_rows(log_matching), "state-writes": of_rows(state_writes), "fencing": fencing,
}  # fmt: skip

# A definition of these would be their program once more: they read rows as they come. `transactions` joins the judges of sends
# and polls and of list-append, each of which is compared by itself (proof/queues.py, proof/elle.py): what a definition would add
# is how it hands its rows to the two, and which of their findings it leaves out, and that is its program.
UNPROVEN = (
    "administration",
    "advance",
    "assertions",
    "assumptions",
    "brokers",
    "clauses",
    "clients",
    "demotions",
    "laggards",
    "metadata",
    "metrics",
    "promptness",
    "stored-records",
    "succession",
    "transactions",
    "vacuity",
)

# Kind of history (`proof.logs.DRAWERS`) -> the definitions that are compared on it.
DEFINITIONS: dict[str, dict[str, Definition]] = {
    "lies": _OF_CALLS,
    "feuds": _OF_REPLICAS,
    "operations": _OF_CALLS,
    "events": _OF_REPLICAS,
    "joins": {"isr-agreement": of_rows(isr_agreement)},
    "controllers": {"single-controller": of_rows(single_controller)},
    "topics": {"topic-identity": of_rows(topic_identity)},
    "wounds": {"acked-loss": acked_loss, "election": elections},
    "incarnations": {"incarnations": of_rows(incarnations)},
    "deletion": {"deletion": of_rows(deletion)},
    "electorates": {"electorate": electorate},
    "answers": {"answers": answers},
    "flushes": {"flushes": flushes},
    "producers": {"producers": producers},
    "progress": {"progress": progress},
    "replacements": {"replacement": replacement},
    "availability": {"availability": availability},
    "ends": {"convergence": convergence},
    "clusters": {"availability-cluster": cluster},
    "final-reads": {"client-log": black_box},
    "deleted-records": {"deleted-records": deleted_records},
    "handed-over": {"background": of_rows(background)},
    "processed": {"exactly-once": exactly_once},
    "takeovers": {"zombies": zombies},
    "sharing": {"share-groups": share_groups},
    "deliveries": {"group-delivery": group_delivery},
    "auto-commits": {"auto-commit": auto_commit},
    "compacted": {"compaction": compaction},
    "commits": {"committed-offsets": of_rows(committed_offsets)},
}  # fmt: skip
