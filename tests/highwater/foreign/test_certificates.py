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
