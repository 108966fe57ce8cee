"""For any file, `highwater check` ends with a verdict or with one line and exit 2, never with a traceback.

Valid files of every format are damaged as disks, editors and buggy programs damage them. A damaged file that is still a history
gets a verdict; any other is refused.
"""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.engine.verdict import Validity
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.foreign.files import MODELS, ModelChoice, check_asked, judge_file
from history import jsonl, store
from history.errors import HistoryError
from tests.checkers.corpus import history as stored

_VERDICTS = (ExitCode.VALID, ExitCode.INVALID, ExitCode.UNKNOWN, ExitCode.NOT_LIVE)
_CALLS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "register": ((":write", "1", "1"), (":read", "nil", "1"), (":write", "2", "2"), (":read", "nil", "2")),
    "cas-register": ((":write", "1", "1"), (":cas", "[1 2]", "[1 2]"), (":read", "nil", "2")),
    "multi-register": ((":txn", "[[:write :x 1] [:read :y nil]]", "[[:write :x 1] [:read :y 0]]"),),
    "mutex": ((":acquire", "nil", "nil"), (":release", "nil", "nil")),
    "kv": ((":put", '"a"', '"a"'), (":append", '"b"', '"b"'), (":get", "nil", '"ab"')),
    "set": ((":add", "1", "1"), (":add", "2", "2"), (":read", "nil", "#{1 2}")),
    "fifo-queue": ((":enqueue", "1", "1"), (":enqueue", "2", "2"), (":dequeue", "nil", "1")),
    "unordered-queue": ((":enqueue", "1", "1"), (":enqueue", "2", "2"), (":dequeue", "nil", "2"), (":dequeue", "nil", "1")),
    "partition-log": ((":append", '"a"', "0"), (":append", '"b"', "1"), (":read", "1", '"b"'), (":end", "nil", "2")),
    "versioned-node": ((":create", "5", ":ok"), (":set", "[6 0]", "1"), (":read", "nil", "[6 1]"), (":delete", "1", ":ok")),
    "kafka": ((":txn", "[[:send 1 1]]", "[[:send 1 [0 1]]]"), (":poll", "[[:poll]]", "[[:poll {1 [[0 1]]}]]")),
    "bank": ((":transfer", "{:from 0, :to 1, :amount 1}", "{:from 0, :to 1, :amount 1}"), (":read", "nil", "{0 1, 1 2}")),
    "long-fork": ((":write", "[[:w 0 1]]", "[[:w 0 1]]"), (":read", "[[:r 0 nil] [:r 1 nil]]", "[[:r 0 1] [:r 1 nil]]")),
    "counter": ((":add", "1", "1"), (":read", "nil", "1")),
    "set-full": ((":add", "1", "1"), (":read", "nil", "[1]")),
    "sequential": ((":write", "1", "1"), (":read", "1", '[1 ["1_1" "1_0"]]')),
    "comments": ((":write", "[0 1]", "[0 1]"), (":read", "[0 nil]", "[0 #{1}]")),
    "monotonic": ((":add", "nil", "{:val 1, :sts 10}"), (":read", "nil", "[{:val 1, :sts 10}]")),
    "broadcast": ((":broadcast", "1", "1"), (":read", "nil", "[1]")),
    "total-queue": ((":enqueue", "1", "1"), (":enqueue", "2", "2"), (":dequeue", "nil", "2"), (":drain", "nil", "[1]")),
    "unique-ids": ((":generate", "nil", "10"), (":generate", "nil", "11")),
    "adya-g2": ((":insert", "[5 [1 nil]]", "[5 [1 nil]]"), (":insert", "[6 [nil 2]]", "[6 [nil 2]]")),
    "list-append": ((":txn", "[[:append 1 1] [:r 2 nil]]", "[[:append 1 1] [:r 2 [1 2]]]"),) * 2,
    "rw-register": ((":txn", "[[:w 1 1] [:r 2 nil]]", "[[:w 1 1] [:r 2 nil]]"), (":txn", "[[:r 1 nil]]", "[[:r 1 1]]")),
}
_WRITTEN = ("0\t:invoke\t:write\t1", "0\t:ok\t:write\t1", "1\t:invoke\t:read\tnil")
_ETCD = "".join(f"INFO  jepsen.util - {words}\n" for words in _WRITTEN)


def _edn_history(model: str) -> bytes:
    """Eight calls of this model as Jepsen writes them, by two processes in turn."""
    lines = []
    for number in range(8):
        f, argument, answer = _CALLS[model][number % len(_CALLS[model])]
        for index, kind, value in ((2 * number, ":invoke", argument), (2 * number + 1, ":ok", answer)):
            lines.append(f"{{:index {index}, :time {index}, :process {number % 2}, :type {kind}, :f {f}, :value {value}}}")
    return ("\n".join(lines) + "\n").encode()


def _json_history() -> bytes:
    """The calls of `register` as JSON lines."""
    rows = []
    for number in range(8):
        f, argument, answer = _CALLS["register"][number % 4]
        for kind, value in (("invoke", argument), ("ok", answer)):
            row = {"process": number % 2, "type": kind, "f": f[1:], "value": None if value == "nil" else int(value)}
            rows.append(msgspec.json.encode(row))
    return b"\n".join(rows) + b"\n"


def _recording_of(model: str, *calls: tuple[str, dict[str, object], dict[str, object]]) -> bytes:
    """Calls behind a line of manifest."""
    rows: list[dict[str, object]] = [{"manifest": {"system": "s", "model": model}}]
    for number, (f, argument, answer) in enumerate(calls):
        for kind, fields in (("invoke", argument), ("ok", answer)):
            rows.append({"process": number % 2, "type": kind, "f": f, "time": len(rows), **fields})
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


_OF_A_LOG = _recording_of(
    "log",
    ("produce", {"values": ["a", "b"]}, {"offsets": [0, 1]}),
    ("poll", {"offset": 0}, {"records": [[0, "a"], [1, "b"]]}),
    ("commit", {"group": "g", "offset": 2}, {}),
    ("committed", {"group": "g"}, {"offset": 2}),
    ("latest", {}, {"offset": 2}),
)
_OF_A_REGISTER = _recording_of("register", ("write", {"value": 1}, {"value": 1}), ("read", {}, {"value": 1}))


def _ours(name: str) -> bytes:
    return jsonl.encode(stored(name))


GOOD: dict[str, tuple[str, bytes]] = {
    **{f"{model}.edn": (model, _edn_history(model)) for model in _CALLS},
    "vector.edn": ("register", b"[" + _edn_history("register") + b"]"),
    "lines.json": ("register", _json_history()),
    "packed.edn.gz": ("register", gzip.compress(_edn_history("register"), mtime=0)),
    "etcd.log": ("cas-register", _ETCD.encode()),
    "recorded.jsonl": ("log", _OF_A_LOG),
    "recorded.jsonl.gz": ("log", gzip.compress(_OF_A_LOG, mtime=0)),
    "recorded-register.jsonl": ("register", _OF_A_REGISTER),
    "lost.jsonl": ("log", _ours("bad/acked-loss-read-past")),
}
_WORDS = (
    b"0", b"-1", b"7", b"9223372036854775808", b"9" * 40, b"9" * 5000, b"1.5", b"1e999", b"nil", b"null", b"true", b'"x"',
    b"[]", b"[1 2]", b"{}", b"#{1}", b":info", b":fail", b":ok", b":invoke", b'"fail"', b'"info"', b"#_", b"##NaN", b"\\",
    b"\xff", b"\x00", b"\n",
)  # fmt: skip


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """One to three changes of a file. Places are fractions of its length, so that one damage applies to every file."""
    place = st.integers(0, 999)
    blows = draw(st.lists(st.tuples(st.integers(0, 6), place, place, st.sampled_from(_WORDS)), min_size=1, max_size=3))

    def damage(data: bytes) -> bytes:
        for kind, one, two, word in blows:
            data = _struck(data, kind, one, two, word)
        return data

    return damage


def _struck(data: bytes, kind: int, first_draw: int, second_draw: int, word: bytes) -> bytes:
    at, size = first_draw * len(data) // 1000, second_draw % 40
    lines = data.split(b"\n")
    first, second = first_draw * len(lines) // 1000, second_draw * len(lines) // 1000
    match kind:
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[:at] + word + data[at:]
        case 3:
            lines[first], lines[second] = lines[second], lines[first]
        case 4:
            lines.insert(second, lines[first])
        case 5:
            del lines[first]
        case _:
            # Replacing a whole word leaves the file well formed more often than the other changes.
            words = lines[first].split(b" ")
            words[second_draw % len(words)] = word
            lines[first] = b" ".join(words)
    return b"\n".join(lines)


def _ends_well(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    capsys.readouterr()
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    if code == ExitCode.USAGE:
        assert captured.out == "", captured
        # Only a history that a program recorded is refused with all its mistakes, each on a line.
        assert captured.err.count("\n") == 1 or "recorded" in arguments[1], captured
        assert all(line.startswith("highwater: ") for line in captured.err.splitlines()), captured
    else:
        assert code in _VERDICTS, (code, captured)
        assert not captured.err
    return code


@pytest.mark.parametrize("name", sorted(GOOD))
def test_check_gives_each_undamaged_history_a_verdict(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the tests of damaged files would prove little."""
    model, data = GOOD[name]
    (tmp_path / name).write_bytes(data)

    assert _ends_well(["check", str(tmp_path / name), "--model", model], capsys) in _VERDICTS


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOOD))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(damage=damages())
def test_check_judges_or_refuses_a_damaged_history(
    name: str, damage: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = GOOD[name]
    (tmp_path / name).write_bytes(damage(data))

    _ends_well(["check", str(tmp_path / name), "--model", model], capsys)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(damage=damages(), table=st.sampled_from([store.OPERATIONS, store.EVENTS, store.MANIFEST]))
def test_check_judges_or_refuses_a_damaged_stored_run(
    damage: Callable[[bytes], bytes], table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parquet pages have checksums, so changed bytes are detected and refused."""
    history = stored("bad/acked-loss-read-past")
    store.save(tmp_path / "run", history)
    path = tmp_path / "run" / table
    whole = path.read_bytes()
    path.write_bytes(damage(whole))

    code = _ends_well(["check", str(tmp_path / "run")], capsys)

    assert code == ExitCode.USAGE or table == store.MANIFEST or path.read_bytes() == whole or code == ExitCode.INVALID


@pytest.mark.parametrize("form", ["lines.json", "register.edn"])
def test_error_of_an_unmatched_completion_names_the_line(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A completion without a call in line 5 of a longer file."""
    lines = GOOD[form][1].split(b"\n")
    del lines[4]
    (tmp_path / form).write_bytes(b"\n".join(lines))

    assert run_command_line(["check", str(tmp_path / form), "--model", "register"]) == ExitCode.USAGE
    assert "line 5: process 0 completes write, but it has no call open" in capsys.readouterr().err


@pytest.mark.parametrize("model", MODELS[1:])
@pytest.mark.parametrize("how", [":info", ":fail", "of a nemesis"])
def test_history_without_an_ok_operation_is_unknown(model: str, how: str, tmp_path: Path) -> None:
    """A client that never got an answer proves nothing. Knossos counts such a history as valid."""
    f, argument, _ = _CALLS[model][0]
    lines = [f"{{:process 0, :type {kind}, :f {f}, :value {argument}}}" for kind in (":invoke", how)]
    file = tmp_path / "history.edn"
    file.write_text("{:process :nemesis, :type :info, :f :kill}" if how == "of a nemesis" else "\n".join(lines))
    judgement = judge_file(file, ModelChoice(model=model))

    assert (judgement.validity, judgement.anomalies, len(judgement.unchecked)) == (Validity.UNKNOWN, (), 1)


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_check_prints_a_lone_surrogate_as_its_escape(flag: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON can contain it; UTF-8 and terminals cannot."""
    steps = [{"process": 0, "type": t, "f": "get", "key": "\ud800", "value": "x"} for t in ("invoke", "ok")]
    file = tmp_path / "history.json"
    file.write_text("\n".join(map(json.dumps, steps)))

    assert run_command_line(["check", str(file), "--model", "kv", *flag]) == ExitCode.INVALID
    assert "\\ud800" in capsys.readouterr().out
    assert run_command_line(["export", str(file), str(tmp_path / "copy.edn")]) == ExitCode.VALID
    assert judge_file(tmp_path / "copy.edn", ModelChoice(model="kv")).anomalies[0].key == '"\\ud800"'


@pytest.mark.parametrize(
    ("model", "initial", "message"),
    [
        ("register", ":a :b", "--initial: ':a :b' is not one EDN value"),
        ("kv", "5", "--initial: the value of model kv must be a string, such as '\"\"', not 5"),
        ("counter", ":a", "--initial: the value of model counter must be a whole number, not :a"),
        ("set-full", "1", "--initial: model set-full has no initial value"),
        ("bank", "100", "--initial: the value of model bank must be a map of whole numbers, such as {0 10, 1 10}, not 100"),
        (
            "multi-register",
            "[1 2]",
            "--initial: the value of model multi-register must be one value or a map of values, not [1 2]",
        ),
        (
            "multi-register",
            "[[:x 0]]",
            "--initial: the value of model multi-register must be one value or a map of values, not [[:x 0]]",
        ),
    ],
)
def test_initial_value_that_does_not_fit_the_model_is_refused(model: str, initial: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        check_asked(ModelChoice(model=model, initial=initial))


def test_consistency_models_may_be_separated_by_spaces(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_bytes(_edn_history("list-append"))
    command = ["check", str(tmp_path / "history.edn"), "--model", "list-append", "--consistency", "serializable, read-committed"]

    assert run_command_line(command) in _VERDICTS


_LATE = """{:process 0, :type :invoke, :f :write, :value 1, :time 9000000000, :index 0}
{:process 0, :type :ok, :f :write, :value 1, :time 9000000001, :index 1}
{:process 1, :type :invoke, :f :read, :value nil, :time 4, :index 2}
{:process 1, :type :ok, :f :read, :value READ, :time END, :index 3}
"""


@pytest.mark.parametrize(("read", "verdict"), [("1", Validity.VALID), ("7", Validity.INVALID)])
def test_call_that_was_written_late_keeps_its_place(read: str, verdict: Validity, tmp_path: Path) -> None:
    """Elle and RedisRaft publish such histories: a call took its time, waited seconds for a connection, and was written then.

    Had it begun at its time, it would forbid less: the history would be VALID, too.
    """
    file = tmp_path / "history.edn"
    file.write_text(_LATE.replace("READ", read).replace("END", "9000000003"))
    judgement = judge_file(file, ModelChoice(model="register"))

    assert (judgement.validity, judgement.unchecked) == (verdict, ())
    assert "1 call was written long after the time of invocation in line 3: the file's order counts" in judgement.notes


@pytest.mark.parametrize(("read", "verdict"), [("1", Validity.UNKNOWN), ("7", Validity.INVALID)])
def test_completion_before_its_place_makes_valid_unknown(read: str, verdict: Validity, tmp_path: Path) -> None:
    """Had the read returned at its time, it would have read what was written later."""
    file = tmp_path / "history.edn"
    file.write_text(_LATE.replace("READ", read).replace("END", "5"))
    judgement = judge_file(file, ModelChoice(model="register"))

    assert judgement.validity is verdict
    assert judgement.unchecked == (
        "line 4: time 5 after 9000000001 in line 2: the steps are out of order, though their indices are not",
    )
    with pytest.raises(HistoryError, match="line 4: time 5 after 9000000001"):
        judge_file(file, ModelChoice(model="kafka"))
