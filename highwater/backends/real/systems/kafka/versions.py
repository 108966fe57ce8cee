"""Which release each broker of a run is, and which plans no brokers of these releases can perform.

While a run has more than one release, all brokers speak what the oldest of them knows: with ZooKeeper by
`inter.broker.protocol.version`, with KRaft by the feature level with which the nodes were formatted.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from highwater.backends.real.systems.kafka.releases import Release, number_of, release_named
from highwater.errors import UsageError
from highwater.plans.plan import Plan, system_of
from highwater.rig.versions import Versions, named_by_rolls
from nemesis.faults import Roll, ZooKeeperDown
from nemesis.schedule import Window, rolls_of
from nemesis.targets import Everyone, Named
from reference.types import BrokerId


def versions_of(plan: Plan, tested: Release) -> Versions[Release]:
    """The releases of a plan's run. UsageError for one that cannot run here, or where they do not fit the brokers."""
    starts, brokers = system_of(plan).starts, plan.cluster.brokers
    if len(starts) not in (0, 1, brokers):
        raise UsageError(f"starts must name one version for all brokers, or one for each of the {brokers}, not {len(starts)}")
    words = (*starts, *named_by_rolls(plan.schedule))
    named = {version: tested if version == tested.version else release_named(version) for version in words}
    versions = Versions(
        tested=tested, starts=tuple(named[version] for version in starts) or (tested,), named=named, age=number_of
    )
    other_mode = next((release for release in versions.every if release.mode != tested.mode), None)
    if other_mode is not None:
        raise UsageError(
            f"no roll leads from ZooKeeper to KRaft or back, as between kafka {other_mode.version} and {tested.version}"
        )
    return versions


def unfit(versions: Versions[Release], plan: Plan) -> str | None:
    """Why these releases cannot be performed, or would show nothing, in a sentence; None if they can."""
    leads = any(not (roll.to or roll.back) for roll in rolls_of(plan.schedule)) or any(_controllers_rolled(plan))
    if versions.tested not in versions.starts and not leads:
        first = " and ".join(dict.fromkeys(release.version for release in versions.starts))
        return f"all brokers start as kafka {first}, and no window (fault: roll) makes one of them {versions.tested.version}"
    return too_old(versions, plan.schedule, plan.cluster.brokers) or _controllers_too_old(versions, plan)


def _controllers_too_old(versions: Versions[Release], plan: Plan) -> str | None:
    """That controllers apart from the brokers are older than what a roll makes final, in a sentence; None if they are not."""
    apart = system_of(plan).controllers
    final = next((window for window in plan.schedule if isinstance(window.fault, Roll) and window.fault.finalize), None)
    if apart is UNSET or final is None or versions.tested in versions.starts:
        return None
    older = apart - sum(number for until_ms, number in _controllers_rolled(plan) if until_ms <= final.until_ms)
    makes = f"window {final.id} ({final.kind}) makes {versions.tested.version} final at {final.until_ms} ms"
    return f"{makes}, but of {apart} controllers {older} are older then (zookeeper-down, how: roll)" if older > 0 else None


def _controllers_rolled(plan: Plan) -> Iterator[tuple[int, int]]:
    """When windows make controllers apart from the brokers the version under test, in ms, and how many."""
    for window in plan.schedule:
        if isinstance(window.fault, ZooKeeperDown) and window.fault.how == "roll":
            yield window.until_ms, window.fault.servers


def too_old(versions: Versions[Release], schedule: Sequence[Window], brokers: int) -> str | None:
    """The first broker that is older than what a roll has made final, in a sentence; None if there is none.

    Targets that are known during the run only are taken to hit nobody.
    """
    runs = {BrokerId(broker): versions.first(BrokerId(broker)) for broker in range(1, brokers + 1)}
    final: Window | None = None
    for window in sorted(schedule, key=lambda window: window.until_ms):
        if not isinstance(window.fault, Roll):
            continue
        runs |= {broker: versions.after(window.fault, broker) for broker in _hit(window, brokers)}
        final = window if window.fault.finalize else final
        for broker, release in runs.items():
            if final is not None and number_of(release) < number_of(versions.tested):
                final_window = f"window {final.id} ({final.kind}) makes {versions.tested.version} final at {final.until_ms} ms"
                older = f"b{broker} is {release.version} at {window.until_ms} ms, and no older broker may join then"
                return f"{final_window}, but {older}"
    return None


def _hit(window: Window, brokers: int) -> Iterator[BrokerId]:
    """The brokers that a window surely hits."""
    if isinstance(window.target, Everyone):
        yield from map(BrokerId, range(1, brokers + 1))
    elif isinstance(window.target, Named):
        yield from map(BrokerId, window.target.brokers)
