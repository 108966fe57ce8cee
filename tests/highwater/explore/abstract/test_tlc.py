"""The abstract models beside TLC itself, on TLA+ texts of the same models: equal counts, and counterexamples of equal length."""

import pytest

from bench.model import ISR_REQUESTS, REPLICATION, isr_constants, replication_constants
from bench.tlc import TlcError, missing_java, run_tlc
from highwater.explore.abstract.async_isr import ISR_VARIANTS, AsyncIsr, IsrSizes
from highwater.explore.abstract.kafka_replication import KafkaReplication
from highwater.explore.abstract.levels import LevelSearch, Limits, Model, Result
from highwater.explore.abstract.rules import GUARDS, VARIANTS, Rules, Sizes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing_java() is not None, reason=str(missing_java()))]

UNEVEN = Sizes(replicas=2, log_size=3, max_records=3, max_epoch=1)  # not among the sizes of docs/oracles.md
THREE = Sizes(replicas=3, log_size=1, max_records=1, max_epoch=1)


def search(model: Model) -> Result:
    return LevelSearch(model, Limits(seconds=1, states=10_000_000), lambda: 0.0).run()


@pytest.mark.parametrize(
    ("rules", "sizes"),
    [
        (VARIANTS["truncate-to-hw"], UNEVEN),
        (VARIANTS["kip101"], UNEVEN),
        (VARIANTS["kip279"], THREE),
        (VARIANTS["kip320-first-try"], UNEVEN),
        (VARIANTS["kip320"], THREE),
        (VARIANTS["kip320"], UNEVEN),
        (GUARDS["truncation-fence"], UNEVEN),
    ],
)
def test_counts_are_equal_beside_tlc(rules: Rules, sizes: Sizes) -> None:
    tlc = run_tlc(REPLICATION, replication_constants(rules, sizes))

    result = search(KafkaReplication(rules, sizes))

    assert (result.generated, result.distinct, result.depth) == (tlc.generated, tlc.distinct, tlc.depth)


@pytest.mark.parametrize("invariant", ["WeakIsr", "StrongIsr"])
@pytest.mark.parametrize("variant", ["truncate-to-hw", "kip101"])
def test_counterexamples_are_as_long_as_those_of_tlc(variant: str, invariant: str) -> None:
    sizes = Sizes(replicas=2, log_size=2, max_records=2, max_epoch=2)
    tlc = run_tlc(REPLICATION, replication_constants(VARIANTS[variant], sizes), invariants=[invariant])

    result = search(KafkaReplication(VARIANTS[variant], sizes))

    assert tlc.violated == invariant
    assert {f.invariant: len(f.steps) for f in result.findings}[invariant] == tlc.length


@pytest.mark.parametrize("variant", ISR_VARIANTS)
def test_isr_requests_are_equal_beside_tlc(variant: str) -> None:
    sizes = IsrSizes(replicas=3, max_offset=1, max_version=2)
    constants = isr_constants(ISR_VARIANTS[variant], sizes)
    tlc = run_tlc(ISR_REQUESTS, constants, constraint="Within")
    violated = run_tlc(ISR_REQUESTS, constants, constraint="Within", invariants=["ValidHighWatermark"])

    result = search(AsyncIsr(ISR_VARIANTS[variant], sizes))

    assert (result.generated, result.distinct, result.depth) == (tlc.generated, tlc.distinct, tlc.depth)
    assert sum(len(f.steps) for f in result.findings) == violated.length


def test_tlc_that_cannot_read_its_constants_is_an_error() -> None:
    with pytest.raises(TlcError, match="constant"):
        run_tlc(REPLICATION, {})


def test_tlc_shares_no_temporary_folder_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each TLC deletes the standard modules that it unpacked; in a shared folder another one may be reading them."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djava.io.tmpdir=/nowhere")

    assert run_tlc(REPLICATION, replication_constants(VARIANTS["kip101"], THREE)).depth > 0
