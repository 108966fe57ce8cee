"""`highwater check --certificate` and `highwater verify`: every verdict of the corpus that can have a certificate has one."""

from pathlib import Path

import msgspec
import pytest

from highwater.cli.main import run_command_line
from tests.checkers.corpus import FOREIGN, ROOT
from verifier.certificate import Certificate

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


def test_certificate_takes_one_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    histories = [str(ROOT / f"{name}.edn") for name in (_SKEW, "elle/ok/list-append-G0")]

    assert run_command_line(["check", *histories, "--certificate", str(tmp_path / "proof.json")]) == 2
    assert "--certificate takes one history, not 2" in capsys.readouterr().err


def test_verdict_by_a_model_of_reads_has_no_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict stands, and one line says why nothing was written."""
    history, out = str(ROOT / "jepsen/bad/counter.edn"), tmp_path / "proof.json"

    assert run_command_line(["check", history, "--model", "counter", "--certificate", str(out)]) == 10
    assert "no certificate: verdicts by model counter have none" in capsys.readouterr().err
    assert not out.exists()
