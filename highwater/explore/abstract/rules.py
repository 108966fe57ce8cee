"""What the variants of the replication model require: one variant is one value of `Rules` (docs/model.md).

The variants are those of the published models (docs/oracles.md §8.1). `GUARDS` names the guards of KIP-320 that can be taken out
one at a time, to see which invariant needs them.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Truncation = Literal["to-hw", "kip101", "kip279", "when-fetching"]
Acknowledgement = Literal["leader", "record-epoch", "leader-epoch"]


class Rules(Struct, frozen=True, kw_only=True):
    """What a replica must fulfil before an action of the model.

    `truncation` says where a new follower truncates its log; `truncation_fenced`: only against a leader of the same epoch.
    The others say what counts as an acknowledgement: the follower follows this leader (`leader`); also the epoch of its last
    record is the leader's at that offset (`record-epoch`); or it follows this leader in the leader's epoch (`leader-epoch`).
    `expansion_in_epoch`: the ISR grows only after the HW has reached the first offset of the leader's epoch.
    """

    truncation: Truncation
    truncation_fenced: bool = False
    fetch: Acknowledgement = "leader"
    hw: Acknowledgement = "leader"
    shrinking: Acknowledgement = "leader"
    expansion: Acknowledgement = "leader"
    expansion_in_epoch: bool = False


_FIRST_TRY = Rules(
    truncation="when-fetching",
    fetch="record-epoch",
    hw="record-epoch",
    shrinking="record-epoch",
    expansion="record-epoch",
    expansion_in_epoch=True,
)
_KIP320 = Rules(
    truncation="kip279",
    truncation_fenced=True,
    fetch="leader-epoch",
    hw="leader-epoch",
    shrinking="leader-epoch",
    expansion="leader-epoch",
    expansion_in_epoch=True,
)
VARIANTS: dict[str, Rules] = {
    "truncate-to-hw": Rules(truncation="to-hw"),
    "kip101": Rules(truncation="kip101"),
    "kip279": Rules(truncation="kip279"),
    "kip320-first-try": _FIRST_TRY,
    "kip320": _KIP320,
}
# KIP-320 without one of its guards.
GUARDS: dict[str, Rules] = {
    "truncation-fence": replace(_KIP320, truncation_fenced=False),
    "expansion-in-epoch": replace(_KIP320, expansion_in_epoch=False),
    "expansion-fence": replace(_KIP320, expansion="leader"),
    "hw-fence": replace(_KIP320, hw="leader"),
    "fetch-fence": replace(_KIP320, fetch="leader"),
    "matching-truncation": replace(_KIP320, truncation="to-hw"),
}


class Sizes(Struct, frozen=True, kw_only=True):
    """The constants of the replication model: epochs are 0 to `max_epoch`, records 0 to `max_records` - 1."""

    replicas: int
    log_size: int
    max_records: int
    max_epoch: int


class Machines(Struct, frozen=True, kw_only=True):
    """What the machines of `reference` do otherwise than the published model, for a guide that leads where they can go.

    `failover`: the controller replaces a leader and removes it in one epoch, and only when its session is over.
    `alone`: a leader that is alone in its ISR raises its HW before anything else happens.
    `leader_answers`: only a replica that takes itself for the leader says where an epoch ended.
    `epoch_start`: a leader knows where its epoch began before it writes.
    `diverging_waits`: a follower that must truncate when it fetches is not counted.
    `epoch_floor`: a replica refuses epochs below the last one in its log.
    """

    failover: bool = True
    alone: bool = True
    leader_answers: bool = True
    epoch_start: bool = True
    diverging_waits: bool = True
    epoch_floor: bool = True


PUBLISHED = Machines(
    failover=False, alone=False, leader_answers=False, epoch_start=False, diverging_waits=False, epoch_floor=False
)
