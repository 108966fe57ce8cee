"""`make bench-process`: three brokers and one ZooKeeper as processes on this machine, measured with a stock client."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.cluster import measure, say
from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper
from highwater.errors import HarnessError
from reference.types import Millis

# The controller notices a dead broker when its session ends; the failover is measured from there.
_SETTINGS = {
    "session_timeout_ms": Millis(2000),
    "controller_heartbeat_timeout_ms": Millis(6000),
    "broker_heartbeat_timeout_ms": Millis(9000),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the cluster, measure it and print the results. Exit code 1 if the start or a measurement fails."""
    started_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m bench.processes")
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--json", action="store_true")
    options_given = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder,
            LocalZooKeeper() as zookeeper,
            LocalCluster(Path(folder), zookeeper.address, settings=_SETTINGS) as cluster,
        ):
            measured = measure(cluster, tuple(cluster.listening), options_given.records, started_s)
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options_given.json:
        sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
    else:
        say(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
