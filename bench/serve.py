"""`make bench-serve`: how fast `highwater serve` reads a store of 10,000 runs, and how long a page takes.

Each page is asked for over HTTP five times; the median counts.
"""

import argparse
import sys
import tempfile
import urllib.request
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter, sleep

import msgspec
import uvicorn

from highwater.cli.output import say
from highwater.cli.serve import listening_on
from highwater.runs.findings import FoundAnomaly
from highwater.runs.memory import peak_mib
from highwater.runs.run import SUMMARY
from highwater.runs.summary import Summary
from highwater.serve.app import application
from highwater.serve.catalog import Catalog
from history import store
from history.manifest import FaultCount

_PROTOCOLS = ("safe", "v3", "article", "unclean-election")
_MIXES = ("crash", "network", "zk-flap", "clocks", "partitions")
_FAULTS = tuple(FaultCount(kind=kind, begun=3, acted=2) for kind in ("crash-random", "packets", "clog", "expire-session"))
_PAGES = ("/", "/?q=seed-77", "/?protocol=v3&verdict=INVALID&sort=acked&down=1", "/?page=60", "/run?key=seed-50/sim-50")
_ROUNDS = 5
_RUNS_MIN = 1000


def fill(root: Path, runs: int) -> None:
    """Write the folders of this many runs, one in fifty INVALID, without their histories."""
    lost = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="b2 leads epoch 3 without the record p1-15")
    for number in range(runs):
        folder = root / f"seed-{number}" / f"sim-{number}"
        folder.mkdir(parents=True)
        bad = number % 50 == 0
        summary = Summary(
            seed=number,
            protocol=_PROTOCOLS[number % len(_PROTOCOLS)],
            verdict="INVALID" if bad else "VALID",
            live=True,
            anomalies=(lost,) * 3 if bad else (),
            acked=number,
            faults=_FAULTS,
            plan=f"seed-{number}",
            plan_digest="",
            backend="sim",
            outcome="completed",
            store=f"seed-{number}/sim-{number}",
            repeat=f"highwater run --seed {number} --faults {_MIXES[number % len(_MIXES)]}",
        )
        (folder / SUMMARY).write_bytes(msgspec.json.encode(summary))
        (folder / store.MANIFEST).write_bytes(b"{}")


def measure(root: Path) -> None:
    """Serve a store, and print the time of each page while it is read and afterwards."""
    with listening_on("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        began = perf_counter()
        with Catalog(root) as catalog:
            server = uvicorn.Server(uvicorn.Config(application(catalog, hosts=["127.0.0.1"]), log_level="error", lifespan="off"))
            thread = Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                meanwhile = []
                while not catalog.snapshot.read:
                    meanwhile.append(_ask(port, "/"))
                    sleep(0.1)
                took = perf_counter() - began
                longest = max(meanwhile, default=0.0)
                say(f"read    {len(catalog.snapshot.runs)} runs in {took:.1f} s; pages meanwhile at most {longest:.2f} s")
                for page in _PAGES:
                    say(f"page    {median(_ask(port, page) for _ in range(_ROUNDS)):.2f} s  {page}")
                again = perf_counter()
                catalog.refresh()
                say(f"again   {perf_counter() - again:.2f} s to see that nothing has changed; {peak_mib()} MB")
            finally:
                server.should_exit = True
                thread.join()


def _ask(port: int, page: str) -> float:
    began = perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}") as found:
        found.read()
    return perf_counter() - began


def main() -> int:
    """Fill a store in a temporary folder and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    if runs < _RUNS_MIN:
        parser.error(f"--runs must be at least {_RUNS_MIN}, so that each page has something to show")
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        fill(Path(folder), runs)
        measure(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
