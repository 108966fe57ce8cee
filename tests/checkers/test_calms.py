"""How long faults excuse what comes late."""

import pytest
from msgspec.structs import replace

from checkers.engine.calms import CALM_MS, still_ms
from proof.manifests import promise


@pytest.mark.parametrize(("kind", "ms"), [("slow", 24_000), ("cut-peers", CALM_MS)])
def test_slow_link_holds_what_it_delayed(kind: str, ms: int) -> None:
    """Commands over connections that were being opened took 8.8 and 9.3 s (seeds 284 and 60222 of `--faults all`)."""
    assert still_ms(kind, replace(promise(), replica_lag_time_max_ms=4000)) == ms
