"""`make bench-checkers`: its generated histories are as described, and its plot shows its numbers."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from bench.checkers import SUBJECTS
from bench.histories import log_calls, log_tables, transactions, write_log
from bench.plot import Series, plot
from checkers.elle.judge import judge as judge_transactions
from checkers.engine.verdict import Validity
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import judge


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_benchmark_history_of_every_checker_is_valid(subject: object, tmp_path: Path) -> None:
    subject_found = next(known_subject for known_subject in SUBJECTS if known_subject is subject)
    write_log(tmp_path / "2000", 2000)

    assert subject_found.prepare(2000, tmp_path)()


def test_same_seed_gives_the_same_benchmark_history() -> None:
    assert log_tables(500)[0] == log_tables(500)[0]
    assert log_tables(500)[0] != log_tables(500, seed=2)[0]
    assert transactions(50) == transactions(50)
    assert log_calls(50) == log_calls(50)
    assert log_calls(50) != log_calls(50, seed=2)


def test_benchmark_operations_overlap_only_between_processes() -> None:
    calls = log_calls(400)
    end_of_process: dict[object, int] = {}
    for call in calls:
        assert end_of_process.get(call.process, -1) < call.start
        assert call.end is not None
        end_of_process[call.process] = call.end

    assert any(then.start < first.end for first, then in pairwise(calls) if first.end is not None)


def test_benchmark_transaction_lists_grow_to_the_given_length() -> None:
    history = transactions(3000, writes=32)
    lengths = [
        len(value)
        for call in history.calls
        if isinstance(call.result, tuple)
        for f, _, value in call.result
        if f == "r" and isinstance(value, tuple)
    ]

    assert max(lengths) >= 31
    assert 10 < sum(lengths) / len(lengths) < 20
    assert history.failed
    assert any(call.end is None for call in history.calls)


def test_checkers_find_the_planted_benchmark_anomaly() -> None:
    """Otherwise the benchmark would measure checkers that look at nothing."""
    calls = log_calls(400)
    at = next(i for i in range(200, 400) if calls[i].f == "read")
    wrong = [*calls[:at], replace(calls[at], result=-7), *calls[at + 1 :]]
    assert judge(PartitionLog(), wrong).validity is Validity.INVALID

    history = transactions(400)
    lost = [call for call in history.calls if call.index != 10]
    judgement = judge_transactions("list-append", type(history)(calls=tuple(lost), failed=(), steps=0))
    assert {anomaly.kind for anomaly in judgement.anomalies} == {"phantom-read"}


def test_benchmark_plot_is_svg_with_a_dot_for_each_result() -> None:
    text = plot([Series(name="a <b>", points=((10, 0.1), (1000, 2.0))), Series(name="c", points=((100, 1.0),))])

    root = ElementTree.fromstring(text)

    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 3
    assert "a &lt;b&gt;" in text
    assert re.findall(r'points="(\d+),(\d+) (\d+),(\d+)"', text)
