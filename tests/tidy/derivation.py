"""What the first seeds derive, as a digest of those of the reference and one of those of other systems.

Each may change only together with the version of its derivation.

python -m tests.tidy.derivation --rewrite
"""

import sys
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from highwater.campaigns.chaos import MIXES
from highwater.plans.derive import DERIVATION, MIXED, OF_SYSTEMS, PLAIN, derive
from highwater.plans.plan import plan_digest
from workloads.registry import OF_SESSIONS

STORED = Path(__file__).with_name("derivation.json")
SEEDS = range(50)


class Derived(Struct, frozen=True, kw_only=True):
    """The versions of the derivation, and the digests of the plans that they give."""

    derivation: int
    digest: str
    of_systems: int
    digest_of_systems: str


def derived() -> Derived:
    """The plans of the first seeds as of today: each within the promise and beyond it, over the fault mixes in turn.

    Those of other systems: each workload that keeps sessions, in turn.
    """
    mixes = (*MIXES, ("all",))
    found, found_of_systems = blake2b(digest_size=16), blake2b(digest_size=16)
    for seed in SEEDS:
        mix = mixes[seed % len(mixes)]
        found.update(plan_digest(derive(seed, faults=mix, workload=MIXED)).encode())
        found.update(plan_digest(derive(seed, profile="beyond")).encode())
        workload = (PLAIN, *OF_SESSIONS)[seed % (1 + len(OF_SESSIONS))]
        found_of_systems.update(plan_digest(derive(seed, workload=workload, foreign=True)).encode())
    return Derived(
        derivation=DERIVATION,
        digest=found.hexdigest(),
        of_systems=OF_SYSTEMS,
        digest_of_systems=found_of_systems.hexdigest(),
    )


def stored_digest() -> Derived:
    """The digest that derivation.json holds."""
    return msgspec.json.decode(STORED.read_bytes(), type=Derived)


def rewrite() -> None:
    """Store today's digest. Refused if the plans changed under the same version."""
    now = derived()
    if STORED.exists():
        before = stored_digest()
        for changed, version, stored, name in (
            (now.digest != before.digest, now.derivation, before.derivation, "DERIVATION"),
            (now.digest_of_systems != before.digest_of_systems, now.of_systems, before.of_systems, "OF_SYSTEMS"),
        ):
            if changed and version <= stored:
                sys.exit(f"seeds derive other plans: raise {name} in highwater/plans/derive.py above {stored} first")
    STORED.write_bytes(msgspec.json.format(msgspec.json.encode(now), indent=1) + b"\n")


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite()
