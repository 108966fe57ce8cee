"""What the first seeds derive, as one digest. It may change only together with the version of the derivation.

python -m tests.tidy.derivation --rewrite
"""

import sys
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from highwater.campaigns.chaos import MIXES
from highwater.plans.derive import DERIVATION, MIXED, derive
from highwater.plans.plan import plan_digest

STORED = Path(__file__).with_name("derivation.json")
SEEDS = range(50)


class Derived(Struct, frozen=True, kw_only=True):
    """A version of the derivation, and the digest of the plans that it gives."""

    derivation: int
    digest: str


def derived() -> Derived:
    """The plans of the first seeds as of today: each within the promise and beyond it, over the fault mixes in turn."""
    mixes = (*MIXES, ("all",))
    found = blake2b(digest_size=16)
    for seed in SEEDS:
        mix = mixes[seed % len(mixes)]
        found.update(plan_digest(derive(seed, faults=mix, workload=MIXED)).encode())
        found.update(plan_digest(derive(seed, profile="beyond")).encode())
    return Derived(derivation=DERIVATION, digest=found.hexdigest())


def stored_digest() -> Derived:
    """The digest that derivation.json holds."""
    return msgspec.json.decode(STORED.read_bytes(), type=Derived)


def rewrite() -> None:
    """Store today's digest. Refused if the plans changed under the same version."""
    now = derived()
    if STORED.exists() and now.digest != stored_digest().digest and now.derivation <= stored_digest().derivation:
        sys.exit(
            f"seeds derive other plans: raise DERIVATION in highwater/plans/derive.py above {stored_digest().derivation} first"
        )
    STORED.write_bytes(msgspec.json.format(msgspec.json.encode(now), indent=1) + b"\n")


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite()
