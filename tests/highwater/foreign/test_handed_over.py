"""What people hand over to `highwater check` and `judge`: forms of histories, several at once, guesses, names of levels."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkers.elle.levels import BETWEEN, NAMES, OTHER_NAMES
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.foreign.guess import Unguessed, guess
from history.errors import HistoryError
from history.foreign.read import Form, form_of, history_of, steps
from tests.tidy.sources import ROOT

_CASES = ROOT.parent / "shared" / "cases"
VALID, INVALID, UNKNOWN, USAGE = ExitCode.VALID, ExitCode.INVALID, ExitCode.UNKNOWN, ExitCode.USAGE
Printed = pytest.CaptureFixture[str]


def _edn(*calls: tuple[str, str, str]) -> str:
    """Calls that end before the next begins, each of its own process: function, what is asked, what is answered."""
    return "".join(
        f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}\n"
        for process, (f, argument, answer) in enumerate(calls)
        for kind, value in (("invoke", argument), ("ok", answer))
    )


_READ = ("read", "nil", "1")
GOOD = _edn(("write", "1", "1"), _READ)
BAD = _edn(("write", "2", "2"), _READ)


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("a02-history.txt", [], VALID),
        ("a05-wr-process.edn", ["--model", "list-append", "--consistency", "strong-session-snapshot-isolation"], INVALID),
        ("a07-ok-only.edn", ["--model", "list-append", "--consistency", "serializable"], INVALID),
        ("c04-total-queue.edn", [], VALID),
        ("c05-unordered-queue.edn", ["--model", "unordered-queue"], VALID),
        ("c05-unordered-queue.edn", [], USAGE),
        ("c06-unique-ids.edn", [], INVALID),
        ("c07-adya-g2.edn", [], INVALID),
        ("d02-counter-decrement.edn", ["--model", "counter"], VALID),
        ("e01-csv-hint.edn", [], USAGE),
    ],
)
def test_case_that_was_handed_over_gets_its_verdict(name: str, options: list[str], code: ExitCode, capsys: Printed) -> None:
    if not _CASES.is_dir():
        pytest.skip(f"no cases in {_CASES}")

    assert run_command_line(["check", str(_CASES / name), *options]) == code
    assert "looks like" not in capsys.readouterr().err


# --- forms ------------------------------------------------------------------------------------------------------------------


_TXT = "0\t:invoke\t:write\t1\n0\t:ok\t:write\t1\n:nemesis\t:info\t:kill\t#object[x]\n1\t:invoke\t:read\tnil\n1\t:ok\t:read\t{}\n"


@pytest.mark.parametrize(("read", "code"), [("1", VALID), ("2", INVALID), ("1\t:late\nand its\n  second line", VALID)])
def test_history_txt_of_jepsen_is_judged(read: str, code: ExitCode, tmp_path: Path) -> None:
    """What the nemesis did and errors, which may have several lines, are not read."""
    file = tmp_path / "h"
    file.write_text(_TXT.format(read))

    assert form_of(file) is Form.TEXT
    assert run_command_line(["check", str(file)]) == code


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0\t:invoke\t:write\t1\n0\t:done\t:write\t1\n", "line 2: not a process, a type, a function and a value"),
        ("0\t:invoke\t:read\tnil\n0\t:info\t:read\tnil\t:timeout\n1\t:inv", "line 3: not a process"),
        ("0\t:invoke\t:write\t1\n0\t:ok\t:write\t12", "line 2: cut: no line end"),
        ("0\t:invoke\t:write\t[1\n0\t:ok\t:write\t[1\n", "line 1: } closes ["),
        *(
            (f"0\t:invoke\t:write\t{value}\n0\t:ok\t:write\t{value}\n", "line 1: the value must be one EDN value, not")
            for value in ("1, :key 7", "1} {:process 1, :type :ok, :f :w, :value 2", "[1] [2]", "#{1} :a 2", "1 ; a", "#_")
        ),
        ("0\t:invoke\t:write\t1\n0\t:ok\t:write}{:a\t1\n", "line 2: not a process, a type, a function and a value"),
        ("0\t:invoke\t:write\t1\n1\t:ok\t:write\t1\n", "line 2: process 1 completes write, but it has no call open"),
    ],
)
def test_bad_history_txt_is_refused_with_its_line(text: str, reason: str, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "history.txt").write_text(text)

    assert run_command_line(["check", str(tmp_path / "history.txt")]) == USAGE
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("error", ["", " :conn-not-ready", " [:psql-exception ERROR: no replica node addresses]"])
def test_error_behind_spaces_is_no_part_of_the_value(error: str, tmp_path: Path) -> None:
    """As Knossos wrote its examples."""
    lines = "7 :invoke :write 0", f"7 :fail :write  0{error}", "6 :invoke :read nil", "6 :ok :read 0"
    (tmp_path / "h.txt").write_text("".join(f"{line}\n" for line in lines))

    assert run_command_line(["check", str(tmp_path / "h.txt"), "--initial", "1"]) == INVALID
    assert [step.value for step in steps(tmp_path / "h.txt")] == [0, 0, None, 0]


def test_exported_history_txt_is_the_same_history(tmp_path: Path) -> None:
    (tmp_path / "h.txt").write_text(_TXT.format("1"))

    assert run_command_line(["export", str(tmp_path / "h.txt"), str(tmp_path / "h.edn")]) == VALID
    assert [(s.f, s.value) for s in steps(tmp_path / "h.edn")] == [(s.f, s.value) for s in steps(tmp_path / "h.txt")]


_FORK = "{:type :ok, :value [[:append :x 1] [:r :y %s]]} {:type :ok, :value [[:append :y 1] [:r :x %s]]}"


@pytest.mark.parametrize(
    ("text", "level", "code"),
    [
        (_FORK % ("[1]", "[1]"), "read-committed", INVALID),
        (_FORK % ("nil", "nil"), "snapshot-isolation", VALID),
        (_FORK % ("nil", "nil"), "serializable", INVALID),
        ("{:type :ok, :value [[:append :x 1]]} {:type :ok, :value [[:r :x []]]}", "strict-serializable", VALID),
        ("{:type :ok, :value [[:append :x 1]]} {:type :fail, :value [[:append :x 2]]} {:type :ok, :value [[:r :x [1 2]]]}",
         "read-committed", INVALID),
        ("{:type :ok, :value [[:append :x 1]]} {:type :info, :value [[:append :x 2]]} {:type :ok, :value [[:r :x [1 2]]]}",
         "serializable", VALID),
        ("{:type :ok, :process 0, :value [[:append :x 1]]} {:type :ok, :process 0, :value [[:r :x []]]}",
         "strong-session-serializable", INVALID),
        ("{:type :ok, :process 0, :value [[:append :x 1]]} {:type :ok, :process 1, :value [[:r :x []]]}",
         "strong-session-serializable", VALID),
    ],
)  # fmt: skip
def test_transactions_without_invocations_are_judged(text: str, level: str, code: ExitCode, tmp_path: Path) -> None:
    """Nothing is known of real time; the order of a process is, where it is stated."""
    (tmp_path / "h.edn").write_text(text)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--consistency", level]) == code


def test_steps_on_one_line_are_told_apart(tmp_path: Path, capsys: Printed) -> None:
    """`line 1 before line 1` says nothing."""
    path = tmp_path / "printed.edn"
    path.write_text("[{:type :ok, :value [[:append :m 1] [:r :n [1]]]} {:type :ok, :value [[:append :n 1] [:r :m [1]]]}]")

    assert run_command_line(["check", str(path), "--consistency", "serializable"]) == ExitCode.INVALID
    output = capsys.readouterr().out
    assert "line 1 before line 2" in output
    assert "line 2: process nil, ok: append n 1, r m -> [1]" in output
    assert "the steps of the file stand on one line: line N is the step N" in output


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{:type :ok, :value [[:r :x [1]]]}\n{:type :invoke, :value [[:r :x]]}", 1),
        ("{:type :ok, :value [[:r :x [1]]]}\n{:type :ok, :f :write, :value 1}", 1),
        ("{:type :ok, :f :write, :value 1}", 1),
        ("{:type :ok, :value [[:send 1 [0 1]]]}", 1),
    ],
)
def test_other_completions_without_a_call_are_refused(text: str, line: int) -> None:
    with pytest.raises(HistoryError, match=f"line {line}: .* but it has no call open"):
        history_of(text)


@pytest.mark.parametrize(
    ("read", "read_back"), [("[:r :x]", "[:r :x [1]]"), ("[:r :x nil]", "[:r :x [1]]"), ("[:r :x]", "[:r :x nil]")]
)
@pytest.mark.parametrize("outcome", [":ok", ":info", ":fail"])
def test_read_may_be_asked_without_a_value(read: str, read_back: str, outcome: str, tmp_path: Path) -> None:
    """In invocations, and in completions of unknown outcome, which repeat them."""
    value = read_back if outcome == ":ok" else read
    steps = [
        (0, ":invoke", "[:append :x 1]"), (1, ":invoke", read), (0, ":ok", "[:append :x 1]"), (1, outcome, value),
        (2, ":invoke", "[:r :x]"), (2, ":ok", "[:r :x [1]]"),
    ]  # fmt: skip
    (tmp_path / "h.edn").write_text(
        "\n".join(f"{{:process {p}, :type {kind}, :value [{read_back}]}}" for p, kind, read_back in steps)
    )

    assert run_command_line(["check", str(tmp_path / "h.edn")]) == VALID


_STEP = "{:process 0, :type :invoke, :f :write, :value 1}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_STEP + _STEP.replace(":invoke", ":done"), "line 2: :type must be one of invoke, ok, fail, info, not 'done'"),
        ("{:process 0, :f :write, :value 1}\n" * 2, "info, and the step has 'process' 'f' 'value' only"),
        ('{"process" 0, "type" "ok", "f" "w"}\n' * 2, 'line 1: :type must be one of invoke, ok, fail, info, and the step'),
        (_STEP.replace("1}", "}") * 2, "line 1: a map has a key without a value"),
        (_STEP.replace("1}", "[1}") * 2, "line 1: } closes ["),
        (_STEP.replace("1}", ":}") * 2, "line 1: ':' is not EDN"),
        (_STEP.replace("1}", "#}") * 2, "line 1: '#' is not EDN"),
        (_STEP.replace("1}", "1.2.3}") * 2, "line 1: '1.2.3' is not a number"),
        (_STEP.replace("}", "") * 2, "line 1: the file is cut inside a form: nothing closes the { of this line"),
        ("[0, :invoke, :write, 1]\n[0, :ok, :write, 1]\n", "line 1: a step must be a map, not 0"),
        ("; a, b, c\n; d, e, f\n", "the file has no invocation or completion of a client"),
        (_STEP * 2, "line 2: process 0 invokes write while its call of line 1 is open"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["h.edn", "h"])
def test_refused_edn_is_not_taken_for_a_table(name: str, text: str, reason: str, tmp_path: Path, capsys: Printed) -> None:
    """Commas are blanks in EDN, and equally many of them in each line show nothing."""
    (tmp_path / name).write_text(text)

    assert run_command_line(["check", str(tmp_path / name)]) == USAGE
    message = capsys.readouterr().err
    assert reason in message
    assert "looks like" not in message


# --- several histories ------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with histories, a Jepsen store, and files that are no histories."""
    texts = {
        "good.edn": GOOD, "sub/bad.edn": BAD, "README.txt": "Dear reader", "sub/notes.json": '{"a": 1}',
        "jepsen/t/1/history.edn": GOOD, "jepsen/t/1/results.edn": "{:valid? true}", "jepsen/t/1/jepsen.log": "INFO hello\n",
        "jepsen/t/2/history.txt": _TXT.format(2), "judged/row.json": "{}",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _verdicts(out: str) -> list[str]:
    return [line.partition(":")[0] for line in out.splitlines() if line.startswith(("VALID:", "INVALID:", "UNKNOWN:"))]


def test_each_of_several_files_gets_a_verdict(place: Path, capsys: Printed) -> None:
    assert run_command_line(["check", str(place / "good.edn"), str(place / "sub" / "bad.edn")]) == INVALID
    out = capsys.readouterr().out
    assert _verdicts(out) == ["VALID", "INVALID"]
    assert out.splitlines()[-1] == "2 histories: 1 VALID, 1 INVALID; invalid"


def test_folder_and_pattern_mean_the_histories_in_them(place: Path, capsys: Printed) -> None:
    assert run_command_line(["check", str(place)]) == INVALID
    assert _verdicts(capsys.readouterr().out) == ["VALID", "VALID", "INVALID", "INVALID"]

    assert run_command_line(["check", f"{place}/*.edn", f"{place}/jepsen/*/1"]) == VALID
    assert capsys.readouterr().out.splitlines()[-1] == "2 histories: 2 VALID; valid"


def test_refused_history_costs_no_other_its_verdict(place: Path, capsys: Printed) -> None:
    (place / "sub" / "bad.edn").write_text("{:type :done}")
    arguments = ["check", str(place / "sub" / "bad.edn"), str(place / "good.edn")]

    assert run_command_line(arguments) == USAGE
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "2 histories: 1 VALID, 1 refused; usage"
    assert captured.err.count("\n") == 1

    assert run_command_line([*arguments, "--json"]) == USAGE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["exit"] for row in rows] == [USAGE, VALID, USAGE]
    assert rows[-1]["counts"] == {"VALID": 1, "refused": 1}


@pytest.mark.parametrize("option", [["--report", "page.html"], ["--refines", "kip320"]])
def test_page_and_refinement_are_of_one_history(option: list[str], place: Path, capsys: Printed) -> None:
    assert run_command_line(["check", str(place), *option]) == USAGE
    assert "takes one history, not 4" in capsys.readouterr().err


def test_pattern_that_nothing_fits_is_refused(tmp_path: Path, capsys: Printed) -> None:
    assert run_command_line(["check", f"{tmp_path}/*.edn"]) == USAGE
    assert "no file has a name of this pattern" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "code"), [(GOOD, VALID), (BAD, INVALID), ("{:type :done}", USAGE), ("", USAGE)])
def test_history_is_read_from_standard_input(text: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))

    assert run_command_line(["check", "-"]) == code
    captured = capsys.readouterr()
    assert " -: " in captured.out or captured.err.startswith("highwater: -: ")


def test_jepsen_store_is_judged_without_a_model(place: Path, capsys: Printed) -> None:
    assert run_command_line(["judge", str(place / "jepsen"), "--json"]) == INVALID
    rows = json.loads(capsys.readouterr().out)["runs"]
    found = [(Path(row["run"]).name, row["model"], row["guessed"], row["verdict"]) for row in rows]
    assert found == [("history.edn", "register", True, "VALID"), ("history.txt", "register", True, "INVALID")]


# --- guesses ----------------------------------------------------------------------------------------------------------------


_UNORDERED = _edn(("enqueue", "1", "1"), ("enqueue", "2", "2"), ("dequeue", "nil", "2"), ("dequeue", "nil", "1"))
_STALE_SET = _edn(("add", "1", "1"), ("read", "nil", "#{}"), ("read", "nil", "#{1}"))
_AT_LEAST_ONCE = _edn(("enqueue", "1", "1"), ("dequeue", "nil", "1"), ("dequeue", "nil", "1"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_UNORDERED, "fifo-queue says INVALID, unordered-queue says VALID, total-queue says VALID"),
        (_AT_LEAST_ONCE, "fifo-queue says INVALID, unordered-queue says INVALID, total-queue says VALID"),
        (_STALE_SET, "set says INVALID, set-full says VALID"),
    ],
)
def test_models_that_fit_and_differ_are_asked_about(text: str, message: str, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "h.edn").write_text(text)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--json"]) == USAGE
    captured = capsys.readouterr()
    assert json.loads(captured.out)["exit"] == USAGE
    assert f"they differ: {message}; choose with --model\n" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "model", "others", "code"),
    [
        (_edn(("enqueue", "1", "1"), ("dequeue", "nil", "1")), "fifo-queue", ["unordered-queue", "total-queue"], VALID),
        (_edn(("enqueue", "1", "1"), ("dequeue", "nil", "7")), "fifo-queue", ["unordered-queue", "total-queue"], INVALID),
        (_edn(("add", "1", "1"), ("read", "nil", "[1]")), "set", ["set-full"], VALID),
        (_edn(("add", "5", "5"), ("add", "-2", "-2"), ("read", "nil", "3")), "counter", [], VALID),
        (_edn(("broadcast", "1", "1"), ("read", "nil", "[1]")), "broadcast", [], VALID),
        (_edn(("read", "nil", "{0 10, 1 10}"), ("read", "nil", "{0 5, 1 10}")), "bank", [], INVALID),
        (_edn(("txn", "[[:w :x 1]]", "[[:w :x 1]]"), ("txn", "[[:r :x nil]]", "[[:r :x 1]]")), "rw-register", [], VALID),
    ],
)  # fmt: skip
def test_guess_stands_in_the_json(
    text: str, model: str, others: list[str], code: ExitCode, tmp_path: Path, capsys: Printed
) -> None:
    (tmp_path / "h.edn").write_text(text)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["guessed"], said["others"], said["exit"]) == (model, True, others, code)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--json", "--model", model]) == code
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["guessed"], said["others"]) == (model, False, [])


def test_error_of_a_guessed_model_names_the_guess(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "h.edn").write_text(_edn(("append", "1", "0"), ("read", "nil", "[1]")))

    assert run_command_line(["check", str(tmp_path / "h.edn")]) == USAGE
    assert "; model partition-log, guessed from append, read: --model chooses another" in capsys.readouterr().err

    (tmp_path / "h.edn").write_text(GOOD)
    assert run_command_line(["check", str(tmp_path / "h.edn"), "--consistency", "PL-SI"]) == USAGE
    assert "; model register, guessed from read, write: --model chooses another" in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["5", "[1 2]", "#{1}", "nil"])
def test_reads_alone_do_not_tell_the_model(answer: str, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "h.edn").write_text(_edn(("read", "nil", answer)))

    assert isinstance(guess(steps(tmp_path / "h.edn")), Unguessed)
    assert run_command_line(["check", str(tmp_path / "h.edn")]) == USAGE
    assert "reads alone do not tell the model; --model must be of" in capsys.readouterr().err


# --- levels -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_level_is_taken(name: str, tmp_path: Path) -> None:
    """Without an anomaly, every level is kept; a read of an aborted write breaks all that forbid more than cycles of writes."""
    ok = "{:process 0, :type :%s, :value [[:append :x 1]]} {:process 1, :type :%s, :value [[:r :x %s]]} "
    (tmp_path / "good.edn").write_text(ok % ("invoke", "invoke", "nil") + ok % ("ok", "ok", "[1]"))
    (tmp_path / "bad.edn").write_text(ok % ("invoke", "invoke", "nil") + ok % ("fail", "ok", "[1]"))
    level = OTHER_NAMES.get(name, name)
    weaker, _ = BETWEEN.get(level, (level, level))
    expected_exit_code = UNKNOWN if weaker is None else VALID if weaker.endswith("read-uncommitted") else INVALID

    assert run_command_line(["check", str(tmp_path / "good.edn"), "--consistency", name]) == VALID
    assert run_command_line(["check", str(tmp_path / "bad.edn"), "--consistency", name]) == expected_exit_code


def test_unknown_name_of_a_level_is_refused(tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "h.edn").write_text(GOOD)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--consistency", "PL-4"]) == USAGE
    assert "unknown consistency model 'PL-4'" in capsys.readouterr().err
    assert run_command_line(["check", str(tmp_path / "h.edn"), "--consistency", ","]) == USAGE
