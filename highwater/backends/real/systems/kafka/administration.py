"""How releases of Kafka are administered: by the Java client of the plan, or by that of the release itself."""

from msgspec import UNSET

from highwater.backends.real.clients import java
from highwater.backends.real.clients.administrators import Administrators
from highwater.backends.real.systems.kafka.releases import Release, number_of
from highwater.backends.real.systems.limits import administers
from highwater.backends.real.systems.zookeeper import topic_settings
from highwater.plans.plan import Plan, topics_of
from highwater.rig.versions import Versions


def unadministrable(plan: Plan, versions: Versions[Release]) -> str | None:
    """Why the releases of a run cannot be administered as the plan asks, in a sentence; None if they can."""
    if not administers(plan):
        return None
    old = next((each for each in versions.every if not each.administrators), None)
    if old is not None:
        return f"kafka {old.version} has no requests that move partitions, which came with 2.4 (KIP-455)"
    release = versions.every[0]
    if _named(plan) is None and number_of(release) < java.FIRST:
        return f"kafka {release.version} is administered by a Java client of 2.5 or later: add --client {java.NAME}:3.9.1"
    return java.missing(_client_of(plan, release))


def administrators_of(plan: Plan, release: Release) -> Administrators:
    """The administrators of a run of this release."""
    return Administrators(
        _client_of(plan, release),
        settings={topic.name: topic_settings(topic) for topic in topics_of(plan)},
        request_timeout_ms=plan.workload.request_timeout_ms,
    )


def _client_of(plan: Plan, release: Release) -> str:
    """The version of the Java client that administers."""
    return _named(plan) or release.jars


def _named(plan: Plan) -> str | None:
    """The version of the Java client that the plan names; None if it names no library, or another one."""
    name, _, version = ("" if plan.workload.client is UNSET else plan.workload.client).partition(":")
    return version if name == java.NAME else None
