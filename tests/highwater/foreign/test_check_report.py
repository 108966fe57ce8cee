"""`highwater check`: the guess of the model, the quoted lines, the page, and what a wrong file is told."""

import os
import re
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.foreign.guess import Guess, Unguessed, guess
from history.foreign.read import steps
from tests.highwater.foreign.test_check_any_file import GOOD
from tests.tidy.sources import ROOT

_HISTORIES = ROOT / "corpus" / "histories"
_READS_3 = """{:process 0, :type :invoke, :f :write, :value 1, :time 1000000000}
{:process 0, :type :ok, :f :write, :value 1, :time 1500000000}
{:process 7, :type :invoke, :f :read, :value nil, :time 2000000000}
{:process 7, :type :ok, :f :read, :value 3, :time 2250000000}
"""
# Two models have the functions of these; the guess names the other one. A recorded history names its model itself.
_SHARED = {"set-full.edn": "set", "etcd.log": "register", "unordered-queue.edn": "fifo-queue"}


@pytest.mark.parametrize("name", sorted(name for name in GOOD if name != "lost.jsonl" and not name.startswith("recorded")))
def test_model_is_guessed_from_the_functions_in_use(name: str, tmp_path: Path) -> None:
    model, data = GOOD[name]
    (tmp_path / name).write_bytes(data)
    found = guess(steps(tmp_path / name))

    assert isinstance(found, Guess)
    assert found.model == _SHARED.get(name, model)


def test_guess_names_the_other_models_that_fit(tmp_path: Path) -> None:
    (tmp_path / "set.edn").write_bytes(GOOD["set-full.edn"][1])
    found = guess(steps(tmp_path / "set.edn"))

    assert isinstance(found, Guess)
    assert found.words == "model set, guessed from add, read; set-full would fit too: --model chooses another"


def test_register_that_begins_with_0_is_one_of_knossos(tmp_path: Path) -> None:
    """The model cas-register begins with 0, as Knossos does; a register begins with nil."""
    (tmp_path / "h.edn").write_text(_READS_3.replace(":value 3", ":value 0"))

    assert getattr(guess(steps(tmp_path / "h.edn")), "model", "") == "cas-register"


def test_register_that_begins_with_0_may_be_written_0_later(tmp_path: Path) -> None:
    """0 was read before anybody wrote it: the write of 0 at the end does not explain it."""
    write_0 = _READS_3.splitlines()[0].replace(":value 1", ":value 0")
    (tmp_path / "h.edn").write_text(_READS_3.replace(":value 3", ":value 0") + write_0)
    (tmp_path / "other.edn").write_text(write_0.replace(":process 0", ":process 1") + _READS_3.replace(":value 3", ":value 0"))

    assert getattr(guess(steps(tmp_path / "h.edn")), "model", "") == "cas-register"
    assert getattr(guess(steps(tmp_path / "other.edn")), "model", "") == "register"


@pytest.mark.parametrize(
    ("micro", "answer", "model"), [("[:w 1 7]", "7", "rw-register"), ("[:append 1 7]", "[7]", "list-append")], ids=["w", "append"]
)
def test_transactions_may_be_named_read_write_and_txn(micro: str, answer: str, model: str, tmp_path: Path) -> None:
    """Some clients of Jepsen name a transaction of reads `read`, one of writes `write` and a mixed one `txn`."""
    values = {"write": f"[{micro}]", "read": f"[[:r 1 {answer}]]", "txn": f"[[:r 1 {answer}] {micro.replace('7', '8')}]"}
    (tmp_path / "h.edn").write_text(
        "\n".join(
            f"{{:process 0, :type {t}, :f :{f}, :value {value}}}" for f, value in values.items() for t in (":invoke", ":ok")
        )
    )

    assert run_command_line(["check", str(tmp_path / "h.edn")]) == ExitCode.VALID
    assert getattr(guess(steps(tmp_path / "h.edn")), "model", "") == model


def test_history_of_unknown_functions_is_refused_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "h.edn").write_text(_READS_3.replace(":write", ":mine"))

    assert isinstance(guess(steps(tmp_path / "h.edn")), Unguessed)
    assert run_command_line(["check", str(tmp_path / "h.edn")]) == ExitCode.USAGE
    assert "no model has the functions mine, read" in capsys.readouterr().err


def test_check_quotes_the_lines_it_cites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "h.edn"
    file.write_text(_READS_3)

    assert run_command_line(["check", str(file)]) == ExitCode.INVALID
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "model register, guessed from read, write: --model chooses another"
    assert lines[1].startswith(f"INVALID: {file}: 2 operations")
    assert lines[2:] == [
        "  nonlinearizable: read -> 3 of line 3 cannot follow the 1 calls ordered before it: the state is 1; no call wrote 3",
        "    line 1: process 0, 1.000 s to 1.500 s, write 1: ok",
        "    line 3: process 7, 2.000 s to 2.250 s, read: ok -> 3",
        f"page    highwater check {file} --model register --report page.html",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        ("a.zip", b"PK\x03\x04\x14", "a zip archive; unpack it first"),
        ("page.html", b"<!doctype html>\n<html><body>", "an HTML page"),
        ("plan.yaml", b"name: seed-1\ndraws: 1\ncluster:\n", "a plan; `highwater run --plan` performs it"),
        ("rows.csv", b"time,process,value\n1,2,3\n", "a CSV table"),
        ("letter.txt", b"Dear reader, this is a letter.\n", "plain text that begins with 'Dear reader, this is a letter.'"),
        ("a.json", b'{"verdict": "VALID", "runs": 3}', "JSON of objects with runs, verdict; a step of a history has"),
        ("results.edn", b"{:valid? false}", "the results of a Jepsen test; its history.edn is read"),
        ("G1a.edn", b"{:stats {:valid? true},\n :valid? false}", "the results of a Jepsen test; its history.edn is read"),
        ("test.bin", bytes(range(128, 256)), "binary data"),
    ],
)
def test_wrong_file_is_told_what_it_looks_like(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)

    assert run_command_line(["check", str(tmp_path / name)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert f"the file looks like {message}" in error
    assert error.count("\n") == 1


def test_folder_of_a_jepsen_test_is_judged_by_its_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("history.edn", _READS_3), ("results.edn", "{:valid? true}"), ("history.txt", "0\t:invoke\t:read\tnil\n")):
        (tmp_path / name).write_text(text)

    assert run_command_line(["check", str(tmp_path)]) == ExitCode.INVALID
    assert f"INVALID: {tmp_path / 'history.edn'}: 2 operations" in capsys.readouterr().out


_PATTERNS = ("elle/bad/list-append-*.edn", "kafka/bad/*.edn", "jepsen/bad/*.edn", "linearizability/bad/*.edn")
_PAGES = sorted(path for pattern in _PATTERNS for path in _HISTORIES.glob(pattern))


@pytest.mark.slow
@pytest.mark.parametrize("file", _PAGES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_page_of_each_bad_history_shows_its_anomalies(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has the verdict, the anomaly, its quoted lines, and a picture of the calls."""
    model = file.stem if file.parts[-3] in ("jepsen", "linearizability") else ""
    page = tmp_path / "page.html"
    code = run_command_line(["check", str(file), "--report", str(page), *(["--model", model] if model else [])])
    html = page.read_text(encoding="utf-8")

    assert code == ExitCode.INVALID
    assert '<span class="verdict">INVALID</span>' in html
    assert '<svg class="lanes"' in html
    assert '<tr data-line="' in html
    has_cycle = (
        file.parts[-3] != "jepsen"
        and re.search(r"^  G(0|1c|2|-)(?!.*allowed)", capsys.readouterr().out, re.MULTILINE) is not None
    )
    assert ('<svg class="cycle"' in html) == has_cycle
    assert ('<table class="offsets">' in html) == (file.parts[-3] == "kafka")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipe_is_refused_without_being_read(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody writes into the pipe: a command that opens it to say what it looks like never ends."""
    file = Path("/dev/zero")
    if kind == "pipe":
        file = tmp_path / "history.edn"
        os.mkfifo(file)

    assert run_command_line(["check", str(file)]) == 2
    assert capsys.readouterr().err == f"highwater: {file}: a pipe or a device; histories are read from regular files\n"


@pytest.mark.parametrize("name", ["register.edn", "lines.json", "list-append.edn", "kafka.edn"])
def test_page_of_a_history_shows_its_first_calls(name: str, tmp_path: Path) -> None:
    model, data = GOOD[name]
    (tmp_path / name).write_bytes(data)
    page = tmp_path / "page.html"

    assert run_command_line(["check", str(tmp_path / name), "--model", model, "--report", str(page)]) in (0, 10, 11)
    assert '<svg class="lanes"' in page.read_text(encoding="utf-8")


def test_page_escapes_what_clients_wrote(tmp_path: Path) -> None:
    """A value of a history may be HTML, or half of a surrogate pair."""
    file, page = tmp_path / "h.json", tmp_path / "page.html"
    bad = '"<script>alert(1)</script>"'
    rows = [("invoke", "put", bad), ("ok", "put", bad), ("invoke", "get", "null"), ("ok", "get", '"\\ud800</svg>"')]
    lines = [f'{{"process": 0, "type": "{t}", "f": "{f}", "key": "<b>", "value": {value}}}' for t, f, value in rows]
    file.write_text("\n".join(lines))

    assert run_command_line(["check", str(file), "--report", str(page)]) == ExitCode.INVALID
    html = page.read_bytes().decode()
    assert "alert(1)" in html
    assert "<script>alert" not in html
    assert "<b>&" not in html
    assert "\\ud800&lt;/svg&gt;" in html


def test_page_of_a_history_in_a_missing_folder_is_made(tmp_path: Path) -> None:
    (tmp_path / "h.edn").write_text(_READS_3)
    page = tmp_path / "new" / "page.html"

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--report", str(page)]) == ExitCode.INVALID
    assert page.exists()


def test_report_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "h.edn").write_text(_READS_3)

    assert run_command_line(["check", str(tmp_path / "h.edn"), "--report", str(tmp_path)]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
