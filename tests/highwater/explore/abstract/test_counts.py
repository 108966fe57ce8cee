"""Counts, verdicts and lengths of the abstract models: docs/oracles.md §8.1, measured there with TLC and a model of its own."""

import numpy as np
import pytest

from highwater.explore.abstract.async_isr import ISR_VARIANTS, AsyncIsr, IsrSizes
from highwater.explore.abstract.kafka_replication import KafkaReplication, Replica
from highwater.explore.abstract.levels import LevelSearch, Limits, Model, Result
from highwater.explore.abstract.rules import GUARDS, VARIANTS, Rules, Sizes

Counts = tuple[int, int, int]  # generated, distinct, depth
NO_LIMIT = Limits(seconds=1, states=100_000_000)


def search(model: Model, limits: Limits = NO_LIMIT) -> Result:
    return LevelSearch(model, limits, lambda: 0.0).run()


def searched(rules: Rules, *sizes: int) -> Result:
    replicas, log_size, max_records, max_epoch = sizes
    return search(
        KafkaReplication(rules, Sizes(replicas=replicas, log_size=log_size, max_records=max_records, max_epoch=max_epoch))
    )


def counts(result: Result) -> Counts:
    assert result.end == "exhausted"
    return result.generated, result.distinct, result.depth


def lengths(result: Result) -> dict[str, int]:
    return {finding.invariant: len(finding.steps) for finding in result.findings}


@pytest.mark.parametrize(
    ("variant", "sizes", "expected"),
    [
        ("truncate-to-hw", (2, 2, 2, 1), (2691, 1251, 16)),
        ("truncate-to-hw", (2, 2, 2, 2), (24459, 10131, 20)),
        ("truncate-to-hw", (3, 2, 2, 1), (222712, 67807, 21)),
        ("kip101", (2, 2, 2, 1), (2483, 1177, 15)),
        ("kip101", (2, 2, 2, 2), (21447, 9045, 18)),
        ("kip101", (3, 2, 2, 1), (187996, 59788, 22)),
        ("kip279", (2, 2, 2, 1), (2753, 1177, 15)),
        ("kip279", (2, 2, 2, 2), (23425, 9027, 18)),
        ("kip279", (3, 2, 2, 1), (220384, 60106, 22)),
        ("kip320-first-try", (3, 1, 1, 2), (578332, 175453, 23)),
        ("kip320", (2, 2, 2, 1), (1819, 957, 15)),
        ("kip320", (2, 2, 2, 2), (11839, 5973, 18)),
        ("kip320", (3, 2, 2, 1), (104488, 39619, 22)),
        ("kip320", (1, 2, 2, 1), (24, 16, 8)),
        ("kip320", (2, 2, 2, 0), (173, 93, 12)),
    ],
)
def test_counts_are_those_of_tlc(variant: str, sizes: tuple[int, ...], expected: Counts) -> None:
    assert counts(searched(VARIANTS[variant], *sizes)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "expected"), [(VARIANTS["kip320"], (1967560, 737794, 26)), (GUARDS["fetch-fence"], (2468929, 863029, 26))]
)
def test_counts_of_three_replicas_and_three_epochs(rules: Rules, expected: Counts) -> None:
    assert counts(searched(rules, 3, 2, 2, 2)) == expected


@pytest.mark.parametrize(
    ("variant", "sizes", "expected"),
    [
        ("truncate-to-hw", (2, 2, 2, 1), {"WeakIsr": 9, "StrongIsr": 10}),
        ("truncate-to-hw", (2, 2, 2, 2), {"WeakIsr": 9, "StrongIsr": 10}),
        ("truncate-to-hw", (3, 2, 2, 1), {"WeakIsr": 9, "StrongIsr": 9}),
        ("kip101", (2, 2, 2, 1), {}),
        ("kip101", (2, 2, 2, 2), {"WeakIsr": 12, "StrongIsr": 12}),
        ("kip101", (2, 3, 3, 2), {"WeakIsr": 12, "StrongIsr": 12}),
        ("kip101", (3, 2, 2, 1), {"StrongIsr": 12}),
        ("kip101", (3, 1, 1, 2), {"WeakIsr": 11, "StrongIsr": 11}),
        ("kip279", (2, 2, 2, 2), {}),
        ("kip279", (3, 2, 2, 1), {"StrongIsr": 12}),
        ("kip279", (3, 1, 1, 2), {"WeakIsr": 11, "StrongIsr": 11}),
        ("kip320-first-try", (3, 1, 1, 2), {"WeakIsr": 12, "StrongIsr": 13}),
        ("kip320", (2, 2, 2, 2), {}),
        ("kip320", (3, 2, 2, 1), {}),
    ],
)
def test_shortest_counterexamples_have_the_known_lengths(variant: str, sizes: tuple[int, ...], expected: dict[str, int]) -> None:
    assert lengths(searched(VARIANTS[variant], *sizes)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("truncation-fence", {"WeakIsr": 14, "StrongIsr": 14}),
        ("expansion-in-epoch", {"WeakIsr": 14, "StrongIsr": 12}),
        ("expansion-fence", {"WeakIsr": 15, "StrongIsr": 15}),
        ("hw-fence", {"WeakIsr": 13, "StrongIsr": 13}),
        ("fetch-fence", {"WeakIsr": 13}),
        ("matching-truncation", {"WeakIsr": 12, "StrongIsr": 12}),
    ],
)
def test_kip320_needs_each_of_its_guards(guard: str, expected: dict[str, int]) -> None:
    assert lengths(searched(GUARDS[guard], 3, 2, 2, 2)) == expected


def test_two_replicas_need_only_matching_truncation() -> None:
    found = {guard: lengths(searched(rules, 2, 2, 2, 2)) for guard, rules in GUARDS.items()}

    assert {guard: of for guard, of in found.items() if of} == {"matching-truncation": {"WeakIsr": 11, "StrongIsr": 11}}


@pytest.mark.parametrize(
    ("variant", "sizes", "expected", "length"),
    [
        ("maximal-isr", (3, 2, 3), (134129, 22456, 21), None),
        ("maximal-isr", (2, 2, 3), (577, 168, 15), None),
        ("current-isr", (3, 2, 3), (128689, 22456, 21), 7),
        ("proposed-isr", (3, 2, 3), (133041, 22456, 21), 4),
        ("no-version-check", (3, 2, 3), (723337, 77056, 21), 7),
    ],
)
def test_isr_requests_have_the_counts_of_tlc(
    variant: str, sizes: tuple[int, int, int], expected: Counts, length: int | None
) -> None:
    replicas, offset, version = sizes
    model = AsyncIsr(ISR_VARIANTS[variant], IsrSizes(replicas=replicas, max_offset=offset, max_version=version))

    result = search(model)

    assert (counts(result), lengths(result).get("ValidHighWatermark")) == (expected, length)


def test_counterexample_is_a_path_of_the_model() -> None:
    """The last state of KIP-101's: b2 truncated a committed record, because b1 knows nothing of epoch 1."""
    model = KafkaReplication(VARIANTS["kip101"], Sizes(replicas=2, log_size=2, max_records=2, max_epoch=2))
    finding = search(model).findings[0]

    states = [model.situation(step.key) for step in finding.steps]

    assert all(
        any(after.key in batch.keys for batch in model.successors(np.array([before.key])))
        for before, after in zip(finding.steps, finding.steps[1:], strict=False)
    )
    both = frozenset({0, 1})
    assert states[-1].replicas == (
        Replica(log=((0, 0),), hw=1, epoch=0, leader=0, isr=both),
        Replica(log=(), hw=0, epoch=2, leader=0, isr=both),
    )


def test_search_that_reaches_a_limit_keeps_what_it_found() -> None:
    model = KafkaReplication(VARIANTS["truncate-to-hw"], Sizes(replicas=2, log_size=2, max_records=2, max_epoch=2))

    result = search(model, Limits(seconds=1, states=5000))

    assert result.end == "too-large"
    assert "do not fit in memory" in result.stopped_by
    assert lengths(result) == {"WeakIsr": 9, "StrongIsr": 10}
