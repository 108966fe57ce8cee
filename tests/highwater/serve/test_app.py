"""The server: nothing outside of the store is reachable, nothing that a store holds becomes markup, Ctrl-C ends it."""

import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs.findings import FoundAnomaly
from history import store
from tests.highwater.serve.stores import EVIL, LOST, VALID, ask, put, serving
from tests.highwater.test_signals import command


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("serve")
    (place / "secret.txt").write_text("a secret")
    anomaly = FoundAnomaly(kind=EVIL, checker=EVIL, key=EVIL, words=EVIL)
    put(place / "store", VALID)
    put(
        place / "store", replace(LOST, anomalies=(anomaly,), cause=EVIL, signature=EVIL, repeat=f"--faults {EVIL}", protocol=EVIL)
    )
    (place / "store" / "notes.txt").write_text("not of a run")
    return place / "store"


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with serving(root) as found:
        yield found


def test_page_of_a_run_is_served_as_it_is_stored(port: int) -> None:
    page = ask(port, "/store/seed-1/sim-1/report.html")
    assert (page.status, page.text) == (200, "<!doctype html><title>page</title>the page")
    assert "connect-src" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_plan_of_a_run_is_shown_as_text(port: int) -> None:
    plan = ask(port, "/store/seed-1/sim-1/plan.yaml")
    assert (plan.status, plan.text) == (200, "name: x\n")
    assert plan.headers["content-type"].startswith("text/plain")
    assert plan.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "target",
    [
        "/store/../secret.txt",
        "/store/../../secret.txt",
        "/store/%2e%2e/secret.txt",
        "/store/%2e%2e%2fsecret.txt",
        "/store/..%5csecret.txt",
        "/store/%252e%252e/secret.txt",
        "/store/seed-1/sim-1/../../../secret.txt",
        "/store/seed-1/sim-1/%2e%2e/%2e%2e/%2e%2e/secret.txt",
        "/store/seed-1/sim-1/../../notes.txt",
        "/store//etc/passwd",
        "/store/%2fetc%2fpasswd",
        "/store/notes.txt",
        "/store/seed-1/sim-1/",
        "/store/seed-1/sim-1",
        "/store/seed-1/sim-1/report.html%00.txt",
        "/store/seed-1/sim-1/./report.html",
        "/store/",
        "/run?key=../../secret.txt",
        "/run",
        "/../secret.txt",
        "/report.css",
    ],
)
def test_no_path_leads_out_of_the_runs_of_the_store(target: str, port: int) -> None:
    answer = ask(port, target)
    assert answer.status == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost@evil.example"])
def test_request_under_another_name_is_refused(host: str, port: int) -> None:
    """A page elsewhere may point its own name at this machine (DNS rebinding)."""
    assert ask(port, "/", host=host).status == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LOCALHOST:1234"])
def test_request_under_an_own_name_is_answered(host: str, port: int) -> None:
    assert ask(port, "/", host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_server_answers_no_request_that_may_write(method: str, port: int) -> None:
    assert [ask(port, target, method=method).status for target in ("/", "/store/seed-1/sim-1/report.html")] == [405, 405]


@pytest.mark.parametrize(
    "target", ["/", "/run?key=seed-2/sim-1", "/compare?key=seed-1/sim-1&key=seed-2/sim-1", "/?q=%3Cimg%20src=x%3E"]
)
def test_nothing_of_a_store_becomes_markup(target: str, port: int) -> None:
    page = ask(port, target)
    assert page.status == 200
    assert "<img" not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_answers_allow_no_other_page_to_read_them(port: int) -> None:
    headers = ask(port, "/").headers
    assert "access-control-allow-origin" not in headers
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "keys", ["", "?key=seed-1/sim-1", "?key=seed-1/sim-1&key=none", "?key=seed-1/sim-1" + "&key=seed-2/sim-1" * 2]
)
def test_comparison_of_other_than_two_runs_is_refused(keys: str, port: int) -> None:
    answer = ask(port, f"/compare{keys}")
    assert (answer.status, "two runs of the store can be compared" in answer.text) == (400, True)


def test_file_that_was_replaced_by_a_link_is_not_followed(tmp_path: Path) -> None:
    """Between the reading of the store and the request."""
    folder = put(tmp_path / "store", VALID)
    (tmp_path / "secret.txt").write_text("a secret")
    with serving(tmp_path / "store") as port:
        (folder / store.REPORT).unlink()
        (folder / store.REPORT).symlink_to(tmp_path / "secret.txt")
        answer = ask(port, "/store/seed-1/sim-1/report.html")

    assert (answer.status, "secret" in answer.text) == (404, False)


def test_run_that_vanished_is_said_to_be_gone(tmp_path: Path) -> None:
    folder = put(tmp_path, VALID)
    with serving(tmp_path) as port:
        (folder / store.REPORT).unlink()
        assert ask(port, "/store/seed-1/sim-1/report.html").status == 404
        assert ask(port, "/").status == 200


def test_campaign_page_keeps_its_links_to_runs(tmp_path: Path) -> None:
    """It links by relative paths, so that it works from a file too."""
    put(tmp_path, LOST)
    folder = tmp_path / "campaigns" / "one"
    store.write_file(folder / "runs.jsonl", msgspec.json.encode(replace(LOST, store="seed-2/sim-1")) + b"\n")
    store.write_file(folder / "index.html", '<a href="../../seed-2/sim-1/report.html">x</a>')
    with serving(tmp_path) as port:
        assert 'href="/store/campaigns/one/index.html"' in ask(port, "/").text
        assert ask(port, "/store/campaigns/one/index.html").status == 200


# --- the command --------------------------------------------------------------------------------------------------------


def test_store_that_does_not_exist_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["serve", str(tmp_path / "absent")]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"highwater: {tmp_path / 'absent'}: no such folder\n"


def test_server_without_its_extra_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run_command_line(["serve", str(tmp_path)]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "highwater: highwater serve needs uvicorn, which the extra serve brings: pip install 'highwater-harness[serve]'\n"
    )


def test_port_that_is_taken_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_command_line(["serve", str(tmp_path), "--port", str(port)]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"highwater: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize("host", ["localhost", "256.1.1.1", "192.0.2.1"])
def test_address_of_another_machine_is_refused(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["serve", str(tmp_path), "--host", host, "--port", "0"]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_server_with_an_open_connection(number: signal.Signals, tmp_path: Path) -> None:
    put(tmp_path, VALID)
    with command("serve", str(tmp_path), "--port", "0", folder=tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        with urllib.request.urlopen(address) as page:
            assert page.status == 200
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1].strip("/")))):
            process.send_signal(number)
            assert process.wait(30) != 0
        assert process.stderr is not None
        assert process.stderr.read() == "highwater: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-1"]


@pytest.mark.slow
def test_signal_ends_the_server_of_a_silent_client(tmp_path: Path) -> None:
    put(tmp_path, VALID, page="x" * 50_000_000)
    with command("serve", str(tmp_path), "--port", "0", folder=tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1].strip("/")))) as client:
            client.sendall(b"GET /store/seed-1/sim-1/report.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            process.send_signal(signal.SIGINT)
            assert process.wait(30) != 0
        assert process.stderr is not None
        assert process.stderr.read() == "highwater: interrupted\n"
