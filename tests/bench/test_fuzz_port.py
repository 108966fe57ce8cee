"""The port fuzzer for five seconds; docs/performance.md describes the ten minutes that are run by hand."""

import random
from pathlib import Path

import pytest

from bench.fuzz_port import load_requests, main, mutated
from highwater.backends.real.zookeeper.local import missing

REQUESTS = Path(__file__).parents[1] / "server" / "wire" / "stock_requests.txt"


def test_fuzzer_sends_the_same_bytes_for_the_same_seed() -> None:
    frame = load_requests(REQUESTS)[5]
    of = {seed: [mutated(frame, draw) for draw in [random.Random(seed)] for _ in range(20)] for seed in (1, 1, 2)}

    assert of[1] == [mutated(frame, draw) for draw in [random.Random(1)] for _ in range(20)]
    assert of[1] != of[2]
    assert any(frame not in data for data in of[1])


@pytest.mark.zookeeper
@pytest.mark.slow
def test_fuzzed_broker_serves_clients_and_does_not_grow(capsys: pytest.CaptureFixture[str]) -> None:
    """Every record that was acknowledged meanwhile can be read."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)

    assert main(["--seconds", "5", "--requests", str(REQUESTS)]) == 0
    assert " 0 lost" in capsys.readouterr().out
