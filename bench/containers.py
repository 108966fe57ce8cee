"""`make bench-docker`: three brokers and one ZooKeeper in containers on this machine, measured with a stock client."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

import msgspec

from bench.cluster import measure, say
from highwater.backends.real.containers.backend import DockerBackend
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.os_process import resident_kb
from highwater.backends.real.site import CLIENTS
from highwater.backends.real.systems.registry import system_for
from highwater.errors import HarnessError
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec
from history.promise import Promise, TopicPromise
from reference.config import TopicSpec
from reference.types import BrokerId
from server.runtime.health import is_serving

# The controller notices a dead broker when its session ends; the failover is measured from there.
_SESSION_MS = 6000
_LAG_MS = 10_000  # long enough that no follower leaves the ISR while the benchmark keeps both cores busy
_REQUEST_MS = 5000
_START_S_MAX = 60.0
_LOOK_S = 0.02


def _plan() -> Plan:
    """Return a plan for three brokers. Only its cluster is used: no topic is created and no workload runs."""
    topic = TopicSpec(name="unused", partitions=1, replication_factor=3, min_insync_replicas=2, flush="none")
    promise = Promise(
        topics=(TopicPromise(topic="unused", min_insync_replicas=2, flush="none"),),
        session_timeout_ms=_SESSION_MS,
        replica_lag_time_max_ms=_LAG_MS,
        request_timeout_ms=_REQUEST_MS,
    )
    shape = ClusterShape(
        brokers=3,
        topics=(topic,),
        session_timeout_ms=_SESSION_MS,
        replica_lag_time_max_ms=_LAG_MS,
        request_timeout_ms=_REQUEST_MS,
    )
    workload = WorkloadSpec(producers=1, consumers=1, request_timeout_ms=_REQUEST_MS)
    return Plan(
        name="bench",
        draws=1,
        cluster=shape,
        workload=workload,
        promise=promise,
        faults_ms=1000,
        quiet_ms=promise.bound_ms,
        schedule=(),
    )


class ContainerCluster:
    """A cluster of brokers in containers, for the measurements of `bench.cluster`."""

    def __init__(self, site: ContainerSite) -> None:
        self._site = site
        self.listening = {BrokerId(int(name[1:])): where for name, where in site.clients[CLIENTS].items()}
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in site.clients[CLIENTS].values())
        self.zookeeper = site.zookeeper

    def kill(self, broker: BrokerId) -> None:
        """Send SIGKILL to a broker and wait for its end."""
        self._site.runners[broker].process.end()

    def resident_kb(self, broker: BrokerId) -> int:
        """The resident memory of a running broker, in KiB."""
        return resident_kb(self._site.runners[broker].process.pid)


async def _begin(site: ContainerSite) -> None:
    try:
        await site.open()
        await asyncio.gather(*(node.start() for node in site.nodes.values()))
        # A client that asks for the controller before there is one backs off for longer than the election takes.
        async with asyncio.timeout(_START_S_MAX):
            for broker, where in zip(site.nodes, site.clients[CLIENTS].values(), strict=True):
                while not await asyncio.to_thread(is_serving, where, broker):
                    await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise HarnessError(f"a broker did not serve clients within {_START_S_MAX:.0f} s of its start") from None
    finally:
        await site.leave()


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the cluster, measure it and print the results. Exit code 1 if the start or a measurement fails."""
    started_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m bench.containers")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--json", action="store_true")
    options_given = parser.parse_args(arguments)
    plan = _plan()
    site = ContainerSite(plan, system_for(plan))
    try:
        refusal = DockerBackend().refuse(plan)
        if refusal is not None:
            raise HarnessError(refusal)
        asyncio.run(_begin(site))
        cluster = ContainerCluster(site)
        measured = measure(cluster, tuple(cluster.listening), options_given.records, started_s)
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        site.stop()
        site.close()
    if options_given.json:
        sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    else:
        say(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
