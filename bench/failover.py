"""How failover grows with the partitions of a dead broker, at a time for each write of ZooKeeper (V3, Discussion 1).

`python -m bench.failover` simulates three brokers and one ZooKeeper server without clients: producers would add nothing to what
V3 counts, and 10 000 partitions of them are too many for one process. A broker that leads all partitions dies, and its session
ends in the same moment, so that no time is in the figures until the death is noticed. With `--controller` it is the controller
that dies: another broker then reads all states first.

Two moments are printed, in ms of simulated time from the end of the session: the last partition has its new leader in ZooKeeper,
and the last new leader leads, having had the controller's command. Work of processors takes no simulated time.
"""

import argparse
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World
from highwater.cli.output import say
from highwater.errors import HarnessError
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec, checked
from highwater.rig.scene import scene_of
from history.event import EventKind
from history.promise import Promise, TopicPromise
from monitors.watch import no_watch
from reference.config import TopicSpec
from reference.coordination import paths
from reference.types import BrokerId

VARIANTS = ("failover-one-by-one", "safe", "failover-by-multi")
SIZES = (100, 1000, 10_000)
_TOPIC = "t"
_FAILOVER_S_MAX = 300
_SESSION_MS = 6000
_QUIET_MS = 600_000  # there are no records, so followers wait long for some: 10 000 fetches each half second are not simulated


class Failover(Struct, frozen=True, kw_only=True):
    """One failover: how many partitions got a leader, how many transactions ZooKeeper made, and when, in ms."""

    leaders: int
    transactions: int
    written_ms: float
    led_ms: float
    cpu_s: float


def plan_of(protocol: str, *, partitions: int, write_ms: int) -> Plan:
    """Three brokers and a topic of which each has a replica of every partition."""
    topic = TopicSpec(name=_TOPIC, partitions=partitions, replication_factor=3, min_insync_replicas=2, flush="none")
    promise = Promise(
        topics=(TopicPromise(topic=_TOPIC, min_insync_replicas=2),),
        session_timeout_ms=_SESSION_MS,
        replica_lag_time_max_ms=_QUIET_MS,
        request_timeout_ms=_QUIET_MS,
    )
    return checked(
        Plan(
            name="failover",
            protocol=protocol,
            draws=1,
            cluster=ClusterShape(
                topics=(topic,),
                zookeeper_write_ms=write_ms,
                session_timeout_ms=_SESSION_MS,
                replica_lag_time_max_ms=_QUIET_MS,
                request_timeout_ms=_QUIET_MS,
                fetch_wait_max_ms=_QUIET_MS // 3,
            ),
            workload=WorkloadSpec(producers=1, consumers=0),
            promise=promise,
            quiet_ms=promise.bound_ms,
        )
    )


def fail_over(plan: Plan, *, controller: bool) -> Failover:
    """Simulate the death of a broker that leads every partition, until all have another leader."""
    begun = process_time()
    world, dead = _led_by_one(plan, controller=controller)
    world.sim.zk_write_ns = int(plan.cluster.zookeeper_write_ms or 0) * MS
    node = world.nodes[dead]
    zxid, from_ns, rows = world.server.tree.zxid, world.sim.scheduler.now, world.sim.recorder.events
    known = len(rows)
    node.stop("killed")
    world.server.expire(world.server.session_of(node.address))
    written_ns: dict[int | None, int] = {}
    led_ns: dict[int | None, int] = {}
    partitions = plan.cluster.topics[0].partitions
    while len(led_ns) < partitions and world.sim.scheduler.now < from_ns + _FAILOVER_S_MAX * 1000 * MS:
        world.sim.scheduler.run_until(world.sim.scheduler.now + 10 * MS)
        for row in rows[known:]:
            if row.kind is EventKind.STATE_WRITTEN:
                written_ns.setdefault(row.partition, row.time_ns)
            elif row.kind is EventKind.BECAME_LEADER:
                led_ns.setdefault(row.partition, row.time_ns)
        known = len(rows)
    return Failover(
        leaders=len(led_ns),
        transactions=world.server.tree.zxid - zxid,
        written_ms=(max(written_ns.values()) - from_ns) / MS,
        led_ms=(max(led_ns.values()) - from_ns) / MS,
        cpu_s=process_time() - begun,
    )


def _led_by_one(plan: Plan, *, controller: bool) -> tuple[World, BrokerId]:
    """A cluster at rest in which one broker leads all partitions: the controller, or another."""
    scene = scene_of(plan)
    for leader in scene.brokers:
        replicas = (leader, *(broker for broker in scene.brokers if broker != leader))
        assignment = {_TOPIC: (replicas,) * plan.cluster.topics[0].partitions}
        world = World(replace(scene, assignment=assignment), watch=no_watch)
        world.warm_up()
        for _ in range(_FAILOVER_S_MAX):  # thousands of partitions that are created one by one take longer
            if world.is_led():
                break
            world.sim.scheduler.run_until(world.sim.scheduler.now + 1000 * MS)
        else:
            raise HarnessError("not every partition has a leader before the failover")
        elected = paths.decode_controller(world.server.tree.nodes[paths.CONTROLLER].data)
        if (elected == leader) is controller:
            world.sim.scheduler.run_until(world.sim.scheduler.now + 2000 * MS)
            return world, leader
    raise AssertionError("some broker is controller, and some is not")


def main() -> None:
    """Print a line for each number of partitions and each way to write them."""
    parser = argparse.ArgumentParser(prog="bench.failover", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write-ms", type=int, default=4, help="time of a transaction of ZooKeeper (V3: 4)")
    parser.add_argument("--controller", action="store_true", help="let the controller die")
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    arguments = parser.parse_args()
    say(f"{'partitions':>10}  {'variant':<20} {'transactions':>12} {'in ZooKeeper':>13} {'all led':>10} {'CPU':>7}")
    for partitions in arguments.partitions:
        for variant in arguments.variants:
            plan = plan_of(variant, partitions=partitions, write_ms=arguments.write_ms)
            found = fail_over(plan, controller=arguments.controller)
            missing = "" if found.leaders == partitions else f"  only {found.leaders} have a leader"
            figures = f"{found.transactions:>12} {found.written_ms:>10.0f} ms {found.led_ms:>7.0f} ms {found.cpu_s:>5.0f} s"
            say(f"{partitions:>10}  {variant:<20} {figures}{missing}")


if __name__ == "__main__":
    main()
