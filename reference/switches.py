"""Which switch needs which setting of another one: without it the switch would be accepted and do nothing.

A row is about a switch that is not at its setting in `safe`. It was read off the branches on the switch: none of them is reached
without what the row asks for. tests/highwater/test_idle_switches.py performs a run with the switch and without it.
A document that lacks a rule has all that belongs to the rule off together, so settings that `v3` or `article` has together are
not refused.
"""

from collections.abc import Iterator

from msgspec import Struct

from reference.config import ARTICLE, SAFE, V3, Variant


class Need(Struct, frozen=True, kw_only=True):
    """A switch, the settings of others of which it needs one, and why.

    `asked`: only where clients ask for moves, as in a plan; V3's path takes requests of the explorer, or of a user.
    `old`: brokers that speak a protocol before KIP-343 are enough as well.
    """

    switch: str
    needs: tuple[tuple[str, object], ...]
    why: str
    asked: bool = False
    old: bool = False


_FETCHES = (("truncation", "fetch"),)
_EPOCH_ENDS = (("truncation", "kip101"), ("truncation", "kip279"), ("truncation", "kip320"))
_BY_CONTROLLER = (("isr_change_via", "controller"),)
_BY_DIRECTORY = (("log_dir_failure", "replicas"),)
_PROPOSAL_A = (("reassignment", "A"),)
_JSON = (("reassign_path", "json"),)
_KIP_236_ASKS = "clients ask for a move at /admin/reassign_partitions, where V3's path is not read"
_ROLLS_BACK = "no move is rolled back otherwise"
_OF_ALTER_ISR = "it is about what a leader asks of the controller"
_OF_DIRECTORIES = "a broker ends at its first bad directory otherwise"

NEEDS: tuple[Need, ...] = (
    Need(switch="leo_of_diverging", needs=_FETCHES, why="other fetches do not tell where logs diverge"),
    Need(switch="hw_of_diverging", needs=_FETCHES, why="other fetches do not tell where logs diverge"),
    Need(switch="epoch_end_recheck", needs=_EPOCH_ENDS, why="nobody asks for the end of an epoch otherwise"),
    Need(
        switch="out_of_range_resets",
        needs=(*_EPOCH_ENDS, ("truncation", "hw")),
        why="a fetch that tells the epoch of its log is never out of range",
    ),
    Need(
        switch="epoch_before_transition",
        needs=(("leader_change", "epoch"), ("follower_change", "epoch")),
        why="no epoch decides whether a command is obeyed otherwise",
    ),
    Need(switch="isr_change_version", needs=_BY_CONTROLLER, why=_OF_ALTER_ISR),
    Need(switch="isr_member_epoch", needs=_BY_CONTROLLER, why=_OF_ALTER_ISR),
    Need(switch="isr_add_shutting_down", needs=_BY_CONTROLLER, why=_OF_ALTER_ISR),
    Need(switch="isr_change_zombie", needs=_BY_CONTROLLER, why=_OF_ALTER_ISR),
    Need(switch="isr_pending_clear", needs=_BY_CONTROLLER, why=_OF_ALTER_ISR),
    Need(
        switch="isr_version_reread",
        needs=(("isr_change_via", "zookeeper"),),
        why="the leader writes no ISR itself otherwise",
        old=True,
    ),
    Need(
        switch="controller_epoch",
        needs=(("zk_guard", False),),
        why="no controller could write, because each write checks /controller_epoch",
    ),
    Need(
        switch="controller_epoch_persist",
        needs=(("controller_epoch", True),),
        why="there is no epoch that could be kept",
    ),
    Need(
        switch="controller_epoch_persist",
        needs=(("zk_guard", False),),
        why="no controller could write, because each write checks /controller_epoch",
    ),
    Need(switch="controller_epoch_check", needs=(("controller_epoch", True),), why="no command carries an epoch otherwise"),
    Need(
        switch="broker_epoch_newer",
        needs=(("broker_incarnation", True),),
        why="no command is refused for its registration otherwise",
    ),
    Need(switch="recovery_election", needs=(("unclean_election", False),), why="an unclean election comes before it"),
    Need(switch="idempotence_state_on_failover", needs=(("idempotence", True),), why="there are no sequences to keep otherwise"),
    Need(switch="dir_fail_keep_leader", needs=_BY_DIRECTORY, why=_OF_DIRECTORIES),
    Need(switch="offline_replica_recreated", needs=_BY_DIRECTORY, why=_OF_DIRECTORIES),
    Need(switch="notification_requery", needs=_BY_DIRECTORY, why=_OF_DIRECTORIES),
    Need(switch="failover_query", needs=_BY_DIRECTORY, why=_OF_DIRECTORIES),
    Need(switch="unnamed_log", needs=(("topic_id", True),), why="no log has a topic id otherwise"),
    Need(switch="reassign_path", needs=_PROPOSAL_A, why="proposal B of KIP-236 has paths of its own"),
    Need(switch="reassign_rollback", needs=_PROPOSAL_A, why="proposal B of KIP-236 has no rollback to leave out"),
    Need(switch="reassign_rollback", needs=_JSON, why="V3 has no way to cancel a move"),
    Need(switch="reassign_given_up", needs=_PROPOSAL_A, why=_ROLLS_BACK),
    Need(switch="reassign_given_up", needs=_JSON, why=_ROLLS_BACK),
    Need(switch="reassign_given_up", needs=(("reassign_rollback", True),), why=_ROLLS_BACK),
    Need(switch="cancel_requires_isr", needs=_PROPOSAL_A, why=_ROLLS_BACK),
    Need(switch="cancel_requires_isr", needs=_JSON, why=_ROLLS_BACK),
    Need(switch="cancel_requires_isr", needs=(("reassign_rollback", True),), why=_ROLLS_BACK),
    Need(switch="reassign_widens", needs=_JSON, why=_KIP_236_ASKS, asked=True),
    Need(switch="reassign_complete", needs=_JSON, why=_KIP_236_ASKS, asked=True),
    Need(switch="reassign_full", needs=_JSON, why=_KIP_236_ASKS, asked=True),
    Need(switch="reassign_order", needs=_JSON, why=_KIP_236_ASKS, asked=True),
)


def unmet(variant: Variant, *, asked: bool = True, old: bool = False) -> Iterator[tuple[str, str]]:
    """Each switch that does nothing or cannot work as the others are set, with a sentence that says what it needs.

    `asked`: moves are asked for by clients. `old`: some brokers speak a protocol before KIP-343.
    """
    for need in NEEDS:
        if (need.asked and not asked) or (need.old and old) or not is_unmet(need, variant):
            continue
        if any(_has_the_same(need, variant, document) for document in (V3, ARTICLE)):
            continue
        wanted = " or ".join(f"{other}={_word(value)}" for other, value in need.needs)
        given = " and ".join(dict.fromkeys(_word(getattr(variant, other)) for other, _ in need.needs))
        yield need.switch, f"{need.switch}={_word(getattr(variant, need.switch))} needs {wanted}, not {given}: {need.why}"


def is_unmet(need: Need, variant: Variant) -> bool:
    """Whether the variant turns the row's switch away from `safe`, and has none of the settings that the row asks for."""
    turned = getattr(variant, need.switch) != getattr(SAFE, need.switch)
    return turned and all(getattr(variant, other) != value for other, value in need.needs)


def _has_the_same(need: Need, variant: Variant, document: Variant) -> bool:
    """Whether a document has the variant's settings of all switches in the row."""
    return all(getattr(variant, name) == getattr(document, name) for name in (need.switch, *(other for other, _ in need.needs)))


def _word(value: object) -> str:
    """A setting as plans write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
