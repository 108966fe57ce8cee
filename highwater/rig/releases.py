"""Which release each broker of the reference is, and which inter-broker protocol it speaks: at first, and after each roll.

The version under test is the one that the plan's system names, else the newest. While a run has more than one release, all
brokers speak the oldest of them; a roll with `finalize` makes a broker speak its own release's
(docs/decisions/0060-inter-broker-protocol.md).
"""

from typing import NamedTuple

from msgspec.structs import replace

from highwater.plans.plan import WITH_SCRATCH, Plan, system_of
from highwater.rig.versions import Versions, named_by_rolls
from nemesis.faults import Roll
from nemesis.schedule import rolls_of
from reference.config import NEWEST, RELEASES, BrokerConfig, Protocol, Release
from reference.types import BrokerId


class Spoken(NamedTuple):
    """The code of a broker, and the inter-broker protocol that it speaks."""

    release: Release
    protocol: Protocol


def first(plan: Plan, broker: BrokerId) -> Spoken:
    """What a broker is at its first start."""
    versions = _versions(plan)
    release = versions.first(broker)
    return Spoken(release, versions.oldest if versions.mixed else _own(plan, release, broker))


def rolled(plan: Plan, roll: Roll, config: BrokerConfig) -> BrokerConfig:
    """The settings of a broker after a roll. A protocol that was made final stays, unless the broker goes back."""
    versions = _versions(plan)
    release = versions.after(roll, config.broker)
    protocol = first(plan, config.broker).protocol
    if not roll.back:
        is_final = roll.finalize or config.inter_broker_protocol != versions.oldest
        protocol = _own(plan, release, config.broker) if is_final else versions.oldest
    return replace(config, release=release, inter_broker_protocol=protocol)


def unfit(plan: Plan) -> str | None:
    """Why the rolls of a plan cannot be judged, or would change nothing, in a sentence; None if they can, or there are none."""
    unknown_release = next((each for each in named_by_rolls(plan.schedule) if each not in RELEASES), None)
    if unknown_release is not None:
        return f"the versions of the reference are {', '.join(RELEASES)}; a roll leads to {unknown_release}"
    if not rolls_of(plan.schedule):
        return None
    if plan.workload.name in WITH_SCRATCH or any(step.do == "delete-topic" for step in plan.script):
        return "beside a roll no topic may be deleted: an old version cannot tell it from the next one of its name (KIP-516)"
    if _versions(plan).mixed:
        return None
    return "a roll changes the version of no broker; name two, as in --system reference:kip112..kip343"


def _versions(plan: Plan) -> Versions[Release]:
    system = system_of(plan)
    tested = _named(system.version) if system.version else NEWEST
    return Versions(
        tested=tested,
        starts=tuple(map(_named, system.starts)) or (tested,),
        named={version: _named(version) for version in named_by_rolls(plan.schedule)},
        age=RELEASES.index,
    )


def _own(plan: Plan, release: Release, broker: BrokerId) -> Protocol:
    return "legacy" if release == NEWEST and broker in plan.cluster.legacy_brokers else release


def _named(version: str) -> Release:
    return next(release for release in RELEASES if release == version)  # `plans.plan` refuses others
