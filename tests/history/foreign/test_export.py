"""An exported history reads back equal and gets the same verdict."""

import io
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.histories import log_tables
from checkers.engine.verdict import Validity
from checkers.kafka.judge import judge as judge_queue
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import judge as judge_log
from highwater.cli.main import run_command_line
from highwater.foreign.files import ModelChoice, exported, judge_file
from history import jsonl, store
from history.errors import HistoryError
from history.foreign import edn, export, jepsen, ours
from history.foreign.read import steps
from history.foreign.step import FALSE, TRUE, Atom, Step, pairs_of
from history.history import History
from history.op import Operation, OpType
from proof.manifests import manifest, promise
from tests.checkers.corpus import RUNS
from tests.checkers.corpus import history as stored
from tests.checkers.story import HistoryBuilder
from workloads.client import RequestF

_strings = st.text(max_size=6).map(lambda text: Atom("string", text))
_names = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
_symbols = _names.filter(lambda name: name not in ("nil", "true", "false")).map(lambda name: Atom("symbol", name))
# The reader makes an integer of a whole ratio, and 0.0 of -0.0.
_ratios = st.fractions().filter(lambda ratio: ratio.denominator > 1).map(lambda ratio: Atom("ratio", str(ratio)))
_floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: Atom("float", repr(number or 0.0)))
_others = st.sampled_from(
    [TRUE, FALSE, Atom("symbol", "##NaN"), Atom("float", "##-Inf"), Atom("character", "\n"), Atom("decimal", "1.5")]
)
_plain = st.none() | st.integers() | _names | _strings | _symbols | _ratios | _floats | _others
values = st.recursive(
    _plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(_plain, max_size=3)
        | st.dictionaries(_plain, inner, max_size=3).map(lambda d: pairs_of([x for pair in d.items() for x in pair]))
    ),
    max_leaves=8,
)


@given(values)
def test_exported_edn_value_is_read_back(value: object) -> None:
    text = "{:value " + export.edn(value, names=True) + "}\n"

    ((_, _, (found,)),) = edn.rows(io.BytesIO(text.encode()))

    assert found == value
    assert export.edn(found, names=True) == export.edn(value, names=True)


def _steps_of(lines: list[str]) -> list[Step]:
    return list(jepsen.of_rows(edn.rows(io.BytesIO("".join(lines).encode()))))


def _step(process: int, kind: OpType, f: str, value: object = None) -> Step:
    return Step(1, process, kind, f, value)


def test_exported_edn_operations_are_read_back() -> None:
    steps_told = [
        _step(0, OpType.INVOKE, "txn", (("append", 1, 2), ("r", 1, None))),
        _step(0, OpType.OK, "txn", (("append", 1, 2), ("r", 1, (1, 2)))),
        _step(1, OpType.INVOKE, "write", Atom("string", 'a "quoted" \\ line\n')),
        _step(1, OpType.FAIL, "write", Atom("string", 'a "quoted" \\ line\n')),
    ]

    steps_found = _steps_of(list(export.lines(lambda: steps_told, names=True)))

    assert [(s.process, s.type, s.f, s.value) for s in steps_found] == [(s.process, s.type, s.f, s.value) for s in steps_told]
    assert [s.index for s in steps_found] == [0, 1, 2, 3]


def test_exported_process_is_not_reused_after_unknown_outcome() -> None:
    """Knossos refuses an invocation of a process with an open call, and a call of unknown outcome stays open for ever."""
    steps_told = [_step(p, k, "read") for p, k in ((0, OpType.INVOKE), (0, OpType.INFO), (1, OpType.INVOKE), (0, OpType.INVOKE))]

    assert [s.process for s in _steps_of(list(export.lines(lambda: steps_told)))] == [0, 0, 1, 2]


def test_json_micro_operation_names_become_keywords() -> None:
    """Elle looks for :append, not for "append"."""
    (line,) = export.lines(lambda: [_step(0, OpType.INVOKE, "txn", (("append", "x", "append"), ("r", "y", None)))])

    assert line.endswith(':value [[:append "x" "append"] [:r "y" nil]]}\n')


def test_exported_compare_and_set_that_was_refused_fails() -> None:
    steps_told = [_step(0, OpType.INVOKE, "cas", (1, 2)), _step(0, OpType.OK, "cas", FALSE)]

    assert [(s.type, s.value) for s in _steps_of(list(export.lines(lambda: steps_told)))] == [
        (OpType.INVOKE, (1, 2)),
        (OpType.FAIL, (1, 2)),
    ]


def test_export_refuses_an_invalid_function_name() -> None:
    with pytest.raises(HistoryError, match="'two words' is not a function name"):
        list(export.lines(lambda: [_step(0, OpType.INVOKE, "two words")]))


# --- histories of highwater --------------------------------------------------------------------------------------------


def _store(tmp_path: Path, history: History) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_bytes(jsonl.encode(history))
    return path


@pytest.mark.parametrize("f", [*get_args(RequestF), "admin-pending", "committed"])
def test_admin_operations_are_left_out_of_an_export(f: str) -> None:
    """Their values are words (`orders-2 on 5,4,3`), no JSON."""
    builder = HistoryBuilder()
    builder.produce(1, "a", 0)
    operation = Operation(index=98, slot=0, process=9, type=OpType.INVOKE, f=f, value="orders-2 on 5,4,3", time_ns=98)
    history = builder.history()
    with_request = History(history.manifest, operations=[*history.operations, operation], events=history.events)

    assert {step.f for step in ours.steps(with_request)} == {"produce"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in RUNS if "topic" not in name))
def test_exported_history_gets_the_verdict_of_the_original(name: str, tmp_path: Path) -> None:
    """Judged by the rules of Jepsen's queue workload, which see client operations alone."""
    history = stored(name)
    if not ours.holds_records(history):
        return
    path = _store(tmp_path, history)
    try:
        judgement = judge_file(path, ModelChoice(model="kafka"))
    except HistoryError:  # stories of invalid histories
        with pytest.raises(HistoryError):
            store.write_lines(tmp_path / "out.edn", exported(path))
        return
    store.write_lines(tmp_path / "out.edn", exported(path))

    again = judge_file(tmp_path / "out.edn", ModelChoice(model="kafka"))

    assert (again.validity, [a.kind for a in again.anomalies], again.operations) == (
        judgement.validity,
        [a.kind for a in judgement.anomalies],
        judgement.operations,
    )


@pytest.mark.slow
def test_run_with_moved_partitions_is_exported_and_judged(tmp_path: Path) -> None:
    """A move changes who holds a partition, not its offsets: the exported log goes on."""
    run_command_line(
        ["run", "--seed", "2", "--seconds", "8", "--workload", "admin-storm", "--no-report", "--store", str(tmp_path / "store")]
    )
    (run,) = (tmp_path / "store").glob("*/sim-*")
    store.write_lines(tmp_path / "out.edn", exported(run))
    judgement, again = (judge_file(path, ModelChoice(model="kafka")) for path in (run, tmp_path / "out.edn"))

    assert "reassign" in {row.f for row in store.load(run).operations}
    assert [anomaly.kind for anomaly in again.anomalies] == [anomaly.kind for anomaly in judgement.anomalies]
    assert judgement.operations == again.operations > 1000


def test_large_good_history_is_valid_under_every_log_model(tmp_path: Path) -> None:
    operations, events, manifest_told = log_tables(3000)
    history = History.from_tables(manifest_told, operations=operations, events=events)
    store.save(tmp_path / "run", history)

    by_log = judge_file(tmp_path / "run", ModelChoice(model="partition-log"))
    store.write_lines(tmp_path / "out.edn", exported(tmp_path / "run"))
    by_queue = judge_file(tmp_path / "out.edn", ModelChoice(model="kafka"))

    assert (by_log.validity, by_log.anomalies) == (Validity.VALID, ())
    assert by_queue.anomalies == ()
    assert by_log.operations > 1000


def test_exported_consumer_seek_becomes_a_new_assignment() -> None:
    """Jepsen's consumer continues at its position. Without an assignment, a jump would be a poll that skips records."""
    builder = HistoryBuilder()
    for offset, value in enumerate("abc"):
        builder.produce(1, value, offset)
    builder.poll(2, 0, "a")
    builder.poll(2, 1, "b")
    builder.poll(2, 0, "a")

    consumer_steps = [(s.f, s.value) for s in ours.queue_steps(builder.history()) if s.process == 2 and s.type is OpType.INVOKE]

    poll = ("poll", (("poll",),))
    assert consumer_steps == [("assign", ()), ("assign", (0,)), poll, poll, ("assign", ()), ("assign", (0,)), poll]


def test_exported_register_history_has_json_values(tmp_path: Path) -> None:
    """A register history in our own format is judged by the register model."""
    rows = [
        Operation(index=0, process=0, type=OpType.INVOKE, f="write", topic="x", value="1", time_ns=0),
        Operation(index=1, process=0, type=OpType.OK, f="write", topic="x", value="1", time_ns=1),
        Operation(index=2, process=1, type=OpType.INVOKE, f="read", topic="x", time_ns=2),
        Operation(index=3, process=1, type=OpType.OK, f="read", topic="x", value="2", time_ns=3),
    ]
    history = History(manifest(promise()), operations=rows)

    judgement = judge_file(_store(tmp_path, history), ModelChoice(model="register"))

    assert [(a.kind, a.key, a.witness[-1]) for a in judgement.anomalies] == [("nonlinearizable", "x", 2)]
    assert [s.value for s in steps_of(tmp_path, exported(_store(tmp_path, history)))] == [1, 1, None, 2]


def steps_of(tmp_path: Path, lines: object) -> list[Step]:
    store.write_lines(tmp_path / "out.edn", lines)  # type: ignore[arg-type]
    return list(steps(tmp_path / "out.edn"))


def test_export_refuses_a_value_that_is_not_json_with_its_row(tmp_path: Path) -> None:
    rows = [Operation(index=4, process=0, type=OpType.INVOKE, f="write", value="{", time_ns=0)]
    path = _store(tmp_path, History(manifest(promise()), operations=rows))

    with pytest.raises(HistoryError, match="row 4: the value of write is not JSON"):
        judge_file(path, ModelChoice(model="register"))


def _run(*lines: str) -> History:
    """Rows of a run from lines `process type f topic#id value offset`, with more columns as `name=value`."""
    rows = []
    for index, line in enumerate(lines):
        process, type_, f, topic, value, offset, *more = line.split()
        name, _, topic_id = topic.partition("#")
        row = Operation(
            index=index, process=int(process), type=OpType(type_), f=f, topic=name, topic_id=topic_id or None, partition=0,
            value=None if value == "-" else value, offset=None if offset == "-" else int(offset), time_ns=index,
            acks=-1 if f == "produce" else None,
        )  # fmt: skip
        given = dict(setting.split("=") for setting in more)
        rows.append(msgspec.structs.replace(row, **{k: int(v) if v.lstrip("-").isdigit() else v for k, v in given.items()}))
    return History(manifest(promise()), operations=rows)


def test_record_sent_twice_may_be_there_twice() -> None:
    sent = ("1 invoke produce t a -", "1 ok produce t#x - 5 attempts=2")
    read = ("2 invoke poll t - 5", "2 ok poll t#x a 5", "2 invoke poll t - 6", "2 ok poll t#x a 6")

    assert _by_log(*sent, *read) is Validity.VALID
    assert _by_log(sent[0] + " delivery=once", sent[1], *read) is Validity.INVALID
    assert _by_log(sent[0], sent[1].replace("=2", "=1"), *read) is Validity.INVALID
    assert "duplicate" in _kinds_by_queue(sent[0] + " delivery=once", sent[1], *read)
    assert _kinds_by_queue(*sent, *read) == []


def test_record_without_a_promise_may_be_lost() -> None:
    """Sent with acks=1, it was at offset 5, where another record is now."""
    lost = ("1 invoke produce t a - acks=1", "1 ok produce t#x - 5")
    kept = ("1 invoke produce t b -", "1 ok produce t#x - 5", "2 invoke poll t - 5", "2 ok poll t#x b 5")

    assert _by_log(*lost, *kept) is Validity.VALID
    assert _by_log(lost[0].replace("acks=1", ""), lost[1], *kept) is Validity.INVALID
    assert _kinds_by_queue(*lost, *kept) == []
    assert "inconsistent-offsets" in _kinds_by_queue(lost[0].replace("acks=1", ""), lost[1], *kept)


def test_topic_made_again_is_another_log() -> None:
    first = ("1 invoke produce t a -", "1 ok produce t#x - 0", "2 invoke poll t - 0", "2 ok poll t#x a 0")
    second = ("1 invoke produce t b -", "1 ok produce t#y - 0", "2 invoke poll t - 0", "2 ok poll t#y b 0")
    unknown = ("3 invoke produce t c -", "3 info produce t#x - -", "2 invoke poll t - 1", "2 ok poll t#y c 1")

    assert _by_log(*first, *second, *unknown) is Validity.VALID
    assert ours.key_names(_run(*first, *second)) == ["t-0", "t-0/2"]
    assert _kinds_by_queue(*first, *second, *unknown) == []
    assert _by_log(*first, *(line.replace("#y", "#x") for line in second)) is Validity.INVALID


def test_record_of_a_deleted_topic_need_not_be_read() -> None:
    sent = ("1 invoke produce t a -", "1 ok produce t#x - 0", "1 invoke produce t b -", "1 ok produce t#x - 1")
    read = ("2 invoke poll t - 1", "2 ok poll t#x b 1")

    assert "lost-write" in _kinds_by_queue(*sent, *read)
    assert _kinds_by_queue(*sent, "9 invoke delete-topic t t -", *read) == []


def _by_log(*lines: str) -> Validity:
    return judge_log(PartitionLog(), ours.calls(_run(*lines)).calls).validity


def _kinds_by_queue(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge_queue(export.renewed(lambda: ours.queue_steps(_run(*lines)))).anomalies]
