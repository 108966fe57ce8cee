#!/usr/bin/env python3
"""A cluster of librdkafka's mock brokers: mock_cluster.py up TOPIC:PARTITIONS … | down | start N | kill N | pause N | resume N

All nodes are threads of one process, which keeps the records in memory. `up` starts it and writes mock.yaml into the folder $DATA
(/tmp/highwater-mock), because the nodes listen where the kernel lets them. `kill` cuts the connections of a node and refuses new
ones, and `start` ends that; its records stay. `pause` stops all nodes. The mock brokers are in the library that the package
confluent-kafka brings.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka

NODES = 3
DATA = Path(os.environ.get("DATA", "/tmp/highwater-mock"))
FILE = """\
version: {version}
nodes:
{nodes}hooks:
  start: [{command}, start, "{{node}}"]
  kill: [{command}, kill, "{{node}}"]
  pause: [{command}, pause, "{{node}}"]
  resume: [{command}, resume, "{{node}}"]
"""


def main(what: str, *words: str) -> None:
    """Perform one command."""
    down = DATA / "down" / words[0] if words else DATA
    match what:
        case "up":
            (DATA / "down").mkdir(parents=True, exist_ok=True)
            output = (DATA / "output.log").open("w")
            process = subprocess.Popen([sys.executable, __file__, "serve", *words], stderr=output, start_new_session=True)
            (DATA / "pid").write_text(str(process.pid))
            while not (DATA / "mock.yaml").exists() and process.poll() is None:
                time.sleep(0.1)
        case "serve":
            serve(words)
        case "kill":
            down.touch()
            send(signal.SIGHUP)
        case "start":
            down.unlink()
            send(signal.SIGHUP)
        case "pause" | "resume":
            send(signal.SIGSTOP if what == "pause" else signal.SIGCONT)
        case "down":
            send(signal.SIGKILL)
            shutil.rmtree(DATA)
        case _:
            raise SystemExit(__doc__)


def send(number: int) -> None:
    """Send a signal to the process of the cluster."""
    os.kill(int((DATA / "pid").read_text()), number)


def serve(topics: tuple[str, ...]) -> None:
    """Be the cluster, until a signal ends the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # in the threads of the library, too
    (path,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    error = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), error, len(error))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), NODES))
    for topic in topics:
        name, partitions = topic.split(":")
        library.rd_kafka_mock_topic_create(cluster, name.encode(), int(partitions), NODES)
    addresses = library.rd_kafka_mock_cluster_bootstraps(cluster).decode().split(",")
    nodes = "".join(f'- {{id: {id}, address: "{address}"}}\n' for id, address in enumerate(addresses, 1))
    command = f"{sys.executable}, {Path(__file__).resolve()}"
    described = FILE.format(version=confluent_kafka.libversion()[0], nodes=nodes, command=command)
    (DATA / "mock.tmp").write_text(described)
    (DATA / "mock.tmp").rename(DATA / "mock.yaml")
    while signal.sigwait({signal.SIGHUP}):
        for id in range(1, NODES + 1):
            is_down = (DATA / "down" / str(id)).exists()
            (library.rd_kafka_mock_broker_set_down if is_down else library.rd_kafka_mock_broker_set_up)(cluster, id)


if __name__ == "__main__":
    main(*sys.argv[1:] or ("",))
