"""`highwater check --certificate` and `highwater verify`: every verdict of the corpus that can have a certificate has one."""

from pathlib import Path

import msgspec
import pytest

from checkers.jepsen.judge import NAMES
from highwater.cli.main import run_command_line
from history.foreign.read import calls as read_calls
from tests.checkers.corpus import FOREIGN, ROOT
from verifier.certificate import Certificate, Linearization, digest_of

_CERTIFIED = sorted(name for name, judged in FOREIGN.items() if judged.judge in ("elle", "linearizability"))


def _check(name: str, out: Path) -> int:
    judged = FOREIGN[name]
    asked = ["--model", judged.model, "--consistency", judged.consistency]
    return run_command_line(["check", str(ROOT / f"{name}.edn"), *asked, "--certificate", str(out)])


@pytest.mark.parametrize("name", _CERTIFIED)
def test_every_verdict_of_the_corpus_has_a_certificate(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "proof.json"
    code = _check(name, out)

    if code == 11:
        assert "no certificate: the verdict is UNKNOWN" in capsys.readouterr().err
        assert not out.exists()
    else:
        assert msgspec.json.decode(out.read_bytes(), type=Certificate).verdict == {0: "VALID", 10: "INVALID"}[code]
        assert run_command_line(["verify", str(ROOT / f"{name}.edn"), str(out)]) == 0


_SKEW = "elle/bad/list-append-G2-item"


def _written(tmp_path: Path) -> tuple[str, Path]:
    out = tmp_path / "proof.json"
    _check(_SKEW, out)
    return str(ROOT / f"{_SKEW}.edn"), out


def test_verify_names_the_question_that_was_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, out = _written(tmp_path)
    capsys.readouterr()

    assert run_command_line(["verify", history, str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"verified: INVALID: {history}: list-append, ")


def test_forged_certificate_exits_with_1_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, out = _written(tmp_path)
    out.write_bytes(out.read_bytes().replace(b'"verdict":"INVALID"', b'"verdict":"VALID"'))
    capsys.readouterr()

    assert run_command_line(["verify", history, str(out)]) == 1
    assert capsys.readouterr().out.endswith(": such a witness does not prove VALID\n")


def test_certificate_of_another_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _written(tmp_path)

    assert run_command_line(["verify", str(ROOT / "elle/ok/list-append-G0.edn"), str(out)]) == 1
    assert "the certificate is of another history" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"format":1,"history":"","model":"set","initial":"","level":"","verdict":"UNKNOWN","witness":{"kind":"cycle"}}',
        '{"format":1,"history":"","model":"a.py:B","initial":"","level":"","verdict":"VALID","witness":{"kind":"linearization","order":[]}}',
        '{"format":1,"history":"","model":"kv","initial":"1","level":"","verdict":"VALID","witness":{"kind":"linearization","order":[]}}',
    ],
)
def test_file_that_is_no_certificate_is_refused_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proof.json").write_text(text)

    assert run_command_line(["verify", str(ROOT / f"{_SKEW}.edn"), str(tmp_path / "proof.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def _line(type_: str, f: str, value: str) -> str:
    return f"{{:process 0, :type :{type_}, :f :{f}, :value {value}}}\n"


def _forged(tmp_path: Path, calls: tuple[tuple[str, str, str], ...], **changes: object) -> int:
    """Write a history and the certificate of its verdict, change the certificate, and verify it."""
    file, out = tmp_path / "history.edn", tmp_path / "proof.json"
    file.write_text("".join(_line("invoke", f, argument) + _line("ok", f, answer) for f, argument, answer in calls))
    run_command_line(["check", str(file), "--certificate", str(out), "--consistency", "strict-serializable"])
    assert run_command_line(["verify", str(file), str(out)]) == 0
    certificate = msgspec.json.decode(out.read_bytes())
    witness = changes.pop("witness", {})
    certificate.update(changes)
    certificate["witness"].update(witness)
    out.write_bytes(msgspec.json.encode(certificate))
    return run_command_line(["verify", str(file), str(out)])


_WRITTEN = (("write", "1", "1"), ("read", "nil", "2"))
_HELD = (("release", "nil", "nil"),)
_APPENDED = (("txn", "[[:append 1 1]]", "[[:append 1 1]]"), ("txn", "[[:r 1 nil]]", "[[:r 1 []]]"))
_SET = (("txn", "[[:w 1 1]]", "[[:w 1 1]]"), ("txn", "[[:r 1 nil]]", "[[:r 1 1]]"))


@pytest.mark.parametrize(
    ("calls", "model"),
    [
        *((_WRITTEN, model) for model in ("set", "kv", "mutex", "fifo-queue", "partition-log", "versioned-node", "list-append")),
        *((_HELD, model) for model in ("register", "set", "kv", "multi-register", "rw-register")),
        ((("write", "1", "1"), ("cas", "[2 3]", "[2 3]")), "register"),
        (_APPENDED, "rw-register"),
        (_SET, "list-append"),
    ],
)
def test_certificate_of_a_model_without_the_calls_is_refused(
    calls: tuple[tuple[str, str, str], ...], model: str, tmp_path: Path
) -> None:
    """No order explains a call that an object does not have. That is no verdict on the object: the file is none of it."""
    assert _forged(tmp_path, calls, model=model) == 1


@pytest.mark.parametrize(
    ("calls", "f", "value"),
    [
        (_WRITTEN, "cas", "5"),
        (_WRITTEN, "write", "nil"),
        (_APPENDED, "txn", "[[:append 1]]"),
        (_APPENDED, "txn", "7"),
        (_SET, "txn", "[[:append 1 1]]"),
    ],
)
def test_certificate_of_a_history_that_no_judge_takes_is_refused(
    calls: tuple[tuple[str, str, str], ...], f: str, value: str, tmp_path: Path
) -> None:
    """The verifier has no judge before it that refuses a call of another shape."""
    file, out = tmp_path / "history.edn", tmp_path / "proof.json"
    _forged(tmp_path, calls)
    file.write_text(file.read_text() + _line("invoke", f, value) + _line("ok", f, value))
    certificate = msgspec.json.decode(out.read_bytes(), type=Certificate)
    forged = msgspec.structs.replace(certificate, history=digest_of(read_calls(file)))
    if certificate.model == "register":
        forged = msgspec.structs.replace(forged, model="cas-register")
    out.write_bytes(msgspec.json.encode(forged))

    assert run_command_line(["verify", str(file), str(out)]) == 1


@pytest.mark.parametrize(
    ("model", "calls"),
    [("mutex", (("acquire", "nil", "nil"),)), ("partition-log", (("append", '"a"', "5"),)), ("register", (("write", "1", "1"),))],
)
def test_order_of_answers_that_are_right_alone_is_refused(
    model: str, calls: tuple[tuple[str, str, str], ...], tmp_path: Path
) -> None:
    """No judge says VALID of such a history, so no certificate may prove it."""
    file, out = tmp_path / "history.edn", tmp_path / "proof.json"
    file.write_text("".join(_line("invoke", f, argument) + _line("ok", f, answer) for f, argument, answer in calls))
    forged = Certificate(
        format=1, history=digest_of(read_calls(file)), model=model, initial="", level="linearizable", verdict="VALID",
        witness=Linearization(order=(0,)),
    )  # fmt: skip
    out.write_bytes(msgspec.json.encode(forged))

    assert run_command_line(["verify", str(file), str(out)]) == 1


@pytest.mark.parametrize("level", ["", "serializable", "read-committed", "strict-serializable"])
def test_certificate_of_an_object_has_no_other_level(level: str, tmp_path: Path) -> None:
    assert _forged(tmp_path, _WRITTEN, level=level) == 1


@pytest.mark.parametrize("snapshots", [(0,), (0, 0, 0)])
def test_snapshots_of_other_transactions_are_refused(snapshots: tuple[int, ...], tmp_path: Path) -> None:
    assert _forged(tmp_path, _SET, level="snapshot-isolation", witness={"snapshots": snapshots}) == 1


@pytest.mark.parametrize("kept", [(1, 0), (0, 0, 1), (0, 1, 1), (0, 1, 2), (-1, 0), ()])
def test_calls_kept_are_named_once_and_in_order(kept: tuple[int, ...], tmp_path: Path) -> None:
    assert _forged(tmp_path, _WRITTEN, witness={"kept": kept}) == 1


def test_dependency_with_places_that_show_nothing_is_refused(tmp_path: Path) -> None:
    rw = {"source": 1, "target": 0, "kind": "rw", "at": [[1, 0], [0, 0]]}
    process = {"source": 0, "target": 1, "kind": "process", "at": []}

    assert _forged(tmp_path, _APPENDED, witness={"edges": [rw, process]}) == 0
    assert _forged(tmp_path, _APPENDED, witness={"edges": [{**rw, "at": [[1, 0], [0, 0], [0, 0]]}, process]}) == 1
    assert _forged(tmp_path, _APPENDED, witness={"edges": [rw, {**process, "at": [[0, 0], [1, 0]]}]}) == 1


def test_certificate_takes_one_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    histories = [str(ROOT / f"{name}.edn") for name in (_SKEW, "elle/ok/list-append-G0")]

    assert run_command_line(["check", *histories, "--certificate", str(tmp_path / "proof.json")]) == 2
    assert "--certificate takes one history, not 2" in capsys.readouterr().err


@pytest.mark.parametrize("model", NAMES)
def test_wrong_answer_is_proved_from_the_command_line(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history, out = str(ROOT / f"jepsen/bad/{model}.edn"), str(tmp_path / "proof.json")

    assert run_command_line(["check", history, "--model", model, "--certificate", out]) == 10
    assert run_command_line(["verify", history, out]) == 0
    assert f"{model}, by its answers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "options", "code", "reason"),
    [
        ("jepsen/ok/counter", ["--model", "counter"], 0, "no certificate: a VALID by model counter has none"),
        ("kafka/bad/duplicate", ["--model", "kafka"], 10, "no certificate: verdicts by model kafka have none"),
    ],
)
def test_verdict_without_a_certificate_stands(
    name: str, options: list[str], code: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says why nothing was written."""
    out = tmp_path / "proof.json"

    assert run_command_line(["check", str(ROOT / f"{name}.edn"), *options, "--certificate", str(out)]) == code
    assert reason in capsys.readouterr().err
    assert not out.exists()
