"""`make bench-spark`: costs are those of all processes, and the table says what was measured."""

import sys

import pytest

from bench.cost import cost_of

# A parent that ignores the end of its child, as Spark's Python daemon does, and ends before it.
_ORPHANS = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def burn():
    end = time.process_time() + 0.6
    while time.process_time() < end: pass
for _ in range(2):
    if os.fork() == 0:
        os.fork()
        burn()
        os._exit(0)
print("started", flush=True)
"""


@pytest.mark.slow
def test_cost_counts_orphans_and_unawaited_children() -> None:
    cost = cost_of([sys.executable, "-c", _ORPHANS])

    assert (cost.output, cost.exit_code) == ("started\n", 0)
    assert 2.0 <= cost.cpu_s <= 2.8  # four processes of 0.6 s, less what the last tenth of a second hides
    assert cost.peak_mib["python"] > 1
