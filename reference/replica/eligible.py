"""The eligible leader replicas (ELR, KIP-966): those that left the ISR while it had fewer than min.insync.replicas members.

While the ISR is that short the HW does not rise (`high_watermark`). So the ELR hold every committed record, and may lead if no
member of the ISR can. The promise counts on the ISR and the ELR (docs/promise.md §1).
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
    """The ELR after the ISR changes from `isr` to `wanted`; empty once `wanted` has `min_isr` members."""
    if not variant.elr or len(wanted) >= min_isr:
        return ()
    present = {m.broker for m in wanted}
    absent = {m.broker: m for m in (*elr, *isr) if m.broker not in present}
    return tuple(sorted(absent.values()))
