"""The eligible leader replicas (KIP-966): who left the ISR while it had fewer than min.insync.replicas members.

While the ISR is that short the HW stands still (`high_watermark`), so that they hold all that was ever committed and may lead
when no member of the ISR can. With the ISR they are the replicas that are counted on (docs/promise.md §1).
"""

from reference.config import Variant
from reference.messages import IsrMember


def after(
    variant: Variant,
    *,
    isr: tuple[IsrMember, ...],
    elr: tuple[IsrMember, ...],
    wanted: tuple[IsrMember, ...],
    min_isr: int,
) -> tuple[IsrMember, ...]:
    """The ELR beside the ISR `wanted` that follows `isr`: empty as soon as the ISR is long enough."""
    if not variant.elr or len(wanted) >= min_isr:
        return ()
    present = {m.broker for m in wanted}
    left = {m.broker: m for m in (*elr, *isr) if m.broker not in present}
    return tuple(sorted(left.values()))
