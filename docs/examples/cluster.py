"""A cluster of six broker processes with a ZooKeeper, to work on by hand; docs/brokers.md shows such a session.

    python docs/examples/cluster.py

It is the cluster of `--backend process`: each link between two brokers goes through proxies, so `cut b4 b1` stops what passes
between these two, and both still reach ZooKeeper. The cluster ends with the input (Ctrl-D, Ctrl-C) and leaves nothing behind.
"""

import asyncio
import sys

from highwater.backends.real.processes.site import ProcessSite
from highwater.backends.real.site import JOINED, LinkCondition, Proof
from highwater.backends.real.systems.reference import Reference
from highwater.backends.real.zookeeper.admin import Admin
from highwater.cli.output import say
from highwater.plans.plan import ClusterShape, Plan
from highwater.rig.scene import scene_of
from history.promise import Promise, TopicPromise
from reference.config import TopicSpec
from reference.coordination import paths
from reference.coordination.api import Data, GetData
from reference.types import Address

TOPIC = TopicSpec(name="test_topic", partitions=2, replication_factor=3, min_insync_replicas=2, flush="none")
SESSION_MS = 18_000  # also controller.heartbeat.timeout.ms: slow enough to watch
PROMISE = Promise(
    topics=(TopicPromise(topic="test_topic", min_insync_replicas=2, flush="none"),),
    session_timeout_ms=SESSION_MS,
    replica_lag_time_max_ms=4000,
    request_timeout_ms=2000,
)
SHAPE = ClusterShape(brokers=6, topics=(TOPIC,), session_timeout_ms=SESSION_MS)
PLAN = Plan(name="by-hand", draws=1, cluster=SHAPE, promise=PROMISE)
COMMANDS = "controller | cut b4 b1 | join b4 b1 | pause b4 | resume b4 | kill b4 | start b4"


async def main() -> None:
    """Start the cluster, b1 first so that it is the controller, and obey the commands on stdin."""
    site = ProcessSite(PLAN, Reference(PLAN))
    try:
        await site.open()
        admin = Admin(site.zookeeper)
        await admin.make_topics(scene_of(PLAN).assignment)
        for node in site.nodes.values():
            await node.start()
            while await controller(admin) is None:
                await asyncio.sleep(0.1)
        say(f"zookeeper {site.zookeeper}")
        (clients,) = site.clients.values()  # at one place
        say("brokers   " + ",".join(f"{host}:{port}" for host, port in clients.values()))
        say("data      " + str(site.nodes[min(site.nodes)].log_dirs[0].parents[2]))
        say(COMMANDS)
        while line := await asyncio.to_thread(sys.stdin.readline):
            say(await obey(site, admin, line.split()))
        admin.close()
    finally:
        await site.leave()
        site.stop()
        site.close()


async def controller(admin: Admin) -> str | None:
    """The content of /controller."""
    (answer,) = await admin.ask(GetData(paths.CONTROLLER))
    return answer.data.decode() if isinstance(answer, Data) else None


async def obey(site: ProcessSite, admin: Admin, words: list[str]) -> str:
    """Perform one command; the line to print: for a fault, what its probe measured."""
    nodes = {node.address: node for node in site.nodes.values()}
    match words:
        case ["controller"]:
            return await controller(admin) or "no controller"
        case [("cut" | "join") as what, one, other] if one in nodes and other in nodes and one != other:
            condition = LinkCondition(held=True) if what == "cut" else JOINED
            pairs = ((Address(one), Address(other)), (Address(other), Address(one)))
            probe = await site.links.set(dict.fromkeys(pairs, condition))
        case [("pause" | "resume" | "kill" | "start") as what, one] if one in nodes:
            node = nodes[Address(one)]
            probe = await {"pause": node.pause, "resume": node.resume, "kill": node.kill, "start": node.start}[what]()
        case _:
            return f"one of: {COMMANDS}"
    proof: Proof = await probe()
    return proof.detail


if __name__ == "__main__":
    asyncio.run(main())
