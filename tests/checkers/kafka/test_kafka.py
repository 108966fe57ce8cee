"""The judge of sends and polls finds each of Jepsen's anomalies, and only where it is (docs/properties.md)."""

from collections.abc import Hashable

import pytest

from checkers.engine.verdict import Validity
from checkers.kafka.judge import judge
from history.errors import HistoryError
from history.foreign import read
from history.foreign.jepsen import steps
from tests.checkers import corpus

_ROOT = corpus.ROOT / "kafka"


@pytest.mark.parametrize("name", sorted(corpus.QUEUES))
def test_kafka_corpus_history_gets_its_expected_verdict(name: str) -> None:
    story = corpus.QUEUES[name]

    judgement = judge(read.steps(_ROOT / f"{name}.edn"))

    assert tuple(sorted({anomaly.kind for anomaly in judgement.anomalies})) == story.kinds
    assert tuple(note.partition(":")[0] for note in judgement.notes) == story.notes
    assert bool(judgement.unchecked) == story.unchecked
    worst = Validity.INVALID if story.kinds else Validity.UNKNOWN if story.unchecked else Validity.VALID
    assert judgement.validity is worst


def test_polls_that_found_nothing_are_not_valid() -> None:
    """Brokers that answer no client look like that: a recording of such clients was VALID."""
    polled: list[dict[Hashable, Hashable]] = [
        {"process": 0, "type": t, "f": "poll", "value": (("poll", ()),)} for t in ("invoke", "ok")
    ]

    judgement = judge(steps(enumerate(polled, 1)))

    assert (judgement.validity, judgement.unchecked) == (Validity.UNKNOWN, ("no completed operation polled a record",))


def test_every_kafka_corpus_history_has_an_expected_verdict() -> None:
    assert {str(path.relative_to(_ROOT).with_suffix("")) for path in _ROOT.rglob("*.edn")} == set(corpus.QUEUES)


def test_bad_kafka_history_shows_the_anomaly_in_its_file_name() -> None:
    bad = {name.removeprefix("bad/"): story.kinds for name, story in corpus.QUEUES.items() if name.startswith("bad/")}

    assert [name for name, kinds in bad.items() if not any(name.startswith(kind) for kind in kinds)] == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nothing", "send must be a list of \\[:send k v\\] and \\[:poll\\]"),
        ((("write", 1, 2),), "a micro-operation must be \\[:send k v\\] or \\[:poll\\]"),
        ((("send", 1, ("x", 2)),), "the answer to a send must be \\[offset value\\]"),
        ((("poll", ((1, 2),)),), "the answer to a poll must be"),
        ((("poll", ((1, (("x", 2),)),)),), "a record must be \\[offset value\\]"),
    ],
)
def test_malformed_kafka_operation_is_refused_with_its_line(value: Hashable, message: str) -> None:
    with pytest.raises(HistoryError, match=f"line 2: {message}"):
        judge(steps(enumerate(called(0, "send", value), 1)))


def test_unknown_kafka_function_is_refused_with_its_line() -> None:
    """Otherwise a history with a new function that moves consumers would be judged as if the function were not there."""
    with pytest.raises(HistoryError, match="line 3: seek is not a function of a queue like Kafka"):
        judge(steps(enumerate(called(0, "debug-topic-partitions", None) + called(0, "seek", None), 1)))


def test_json_object_keys_are_read_as_partition_numbers() -> None:
    """JSON turns the key 0 into "0": the value would seem to be read from a partition without writes."""
    sent = called(0, "send", (("send", 0, (0, "a")),))
    polled = called(1, "poll", (("poll", (("0", ((0, "a"),)),)),))

    judgement = judge(steps(enumerate(sent + polled, 1)))

    assert judgement.validity is Validity.VALID


def called(process: int, f: str, answered: Hashable) -> list[dict[Hashable, Hashable]]:
    values: dict[Hashable, Hashable] = {"process": process, "type": "invoke", "f": f, "value": None}
    return [values, {**values, "type": "ok", "value": answered}]
