"""The published verdicts on Kafka's replication that a directed search looks for on the machines (docs/model.md).

Each names the variant of the abstract model that leads the search, and the smallest world of the machines known to have it.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from highwater.explore.abstract.guide import Guide
from highwater.explore.abstract.rules import GUARDS, VARIANTS, Machines, Rules, Sizes
from highwater.explore.state import Bounds
from reference.config import Variant


class Published(Struct, frozen=True, kw_only=True):
    """A published counterexample: the rules of the model that has it, the protocol of the machines and their world.

    `log_size`: how many records a log of the model holds; a state of the machines with a longer log has no place in it.
    """

    rules: Rules
    protocol: str
    bounds: Bounds
    log_size: int = 1
    holds: Literal["weak-isr", "strong-isr"] = "strong-isr"


_TWO_FAILOVERS = Bounds(brokers=3, records=2, max_epochs=3, crashes=0, expiries=2)

PUBLISHED: dict[str, Published] = {
    "truncate-to-hw": Published(
        rules=VARIANTS["truncate-to-hw"],
        protocol="truncate-to-hw",
        bounds=Bounds(brokers=3, records=1, max_epochs=2, crashes=0, expiries=1),
    ),
    "kip101": Published(rules=VARIANTS["kip101"], protocol="kip101", bounds=_TWO_FAILOVERS),
    "kip279": Published(rules=VARIANTS["kip279"], protocol="kip279", bounds=_TWO_FAILOVERS),
    "kip320-first-try": Published(
        rules=VARIANTS["kip320-first-try"],
        protocol="kip320-first-try-no-floor",
        bounds=Bounds(brokers=3, records=1, max_epochs=3, crashes=0, expiries=2),
    ),
    # KIP-320 without the rule of KAFKA-7128.
    "expansion-in-epoch": Published(
        rules=GUARDS["expansion-in-epoch"],
        protocol="kip320",
        bounds=Bounds(brokers=4, records=1, max_epochs=2, crashes=0, expiries=1),
    ),
}

_INVARIANTS = {"weak-isr": "WeakIsr", "strong-isr": "StrongIsr", "committed": "StrongIsr"}


def guide_of(published: Published, variant: Variant, bounds: Bounds, holds: str, clock: Callable[[], float]) -> Guide:
    """What leads the machines of a variant within these bounds to a violation of a property."""
    sizes = Sizes(
        replicas=bounds.brokers,
        log_size=min(published.log_size, bounds.records),
        max_records=bounds.records,
        max_epoch=bounds.max_epochs - 1,
    )
    machines = Machines(epoch_floor=variant.startup_epoch_floor)
    return Guide(published.rules, sizes, _INVARIANTS[holds], machines, clock)
