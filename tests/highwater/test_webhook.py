"""`--webhook`: a receiver gets the object of --json; no receiver changes the verdict or holds the job up."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from highwater.cli.main import run_command_line
from highwater.cli.webhook import Webhook
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode


@contextmanager
def receiving(status: int = 204, *, wait: Callable[[], object] = lambda: None) -> Iterator[tuple[str, list[bytes]]]:
    """A receiver on this machine that answers with a status: its address, and the bodies that it got."""
    bodies: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            wait()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=secret", bodies
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_red_campaign_is_told_to_the_receiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["campaign", "--seeds", "21..21", "--protocol", "v3", "--faults", "crash", "--seconds", "5", "--goals", "none"]
    with receiving() as (address, bodies):
        code = run_command_line([*command, "--store", str(tmp_path), "--webhook", address, "--webhook-when", "always", "--json"])

    assert [json.loads(body) for body in bodies] == [json.loads(capsys.readouterr().out)]
    assert json.loads(bodies[0])["exit"] == code


@pytest.mark.slow
def test_chaos_tells_its_outcome(tmp_path: Path) -> None:
    command = ["chaos", "--parts", "seeds", "--seeds", "1", "--first", "1", "--jobs", "1", "--store", str(tmp_path)]
    with receiving() as (address, bodies):
        code = run_command_line([*command, "--webhook", address, "--webhook-when", "always"])

    assert [json.loads(body)["exit"] for body in bodies] == [code]


@pytest.mark.parametrize(("when", "code", "requests_expected"), [("red", 0, 0), ("red", 10, 1), ("always", 0, 1)])
def test_receiver_is_told_when_it_was_asked_for(when: str, code: int, requests_expected: int) -> None:
    with receiving() as (address, bodies):
        Webhook(webhook=address, webhook_when="always" if when == "always" else "red").tell({"exit": code}, ExitCode(code))

    assert bodies == [b'{"exit":%d}' % code] * requests_expected


@pytest.mark.parametrize(("status", "words"), [(500, "answered 500 Internal Server Error"), (302, "answered 302 Found")])
def test_receiver_that_refuses_is_a_line(status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving(status) as (address, bodies):
        Webhook(webhook=address).tell({}, ExitCode.INVALID)

    err = capsys.readouterr().err
    assert (words in err, err.count("\n"), len(bodies), "secret" in err) == (True, 1, 1, False)


def test_receiver_that_does_not_answer_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    over = Event()
    with receiving(wait=over.wait) as (address, _):
        Webhook(webhook=address).tell({}, ExitCode.INVALID, patience_s=0.2)
        over.set()

    assert capsys.readouterr().err.endswith("was not told: timed out\n")


def test_receiver_that_is_not_there_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with receiving() as (address, _):
        pass

    Webhook(webhook=address).tell({}, ExitCode.INVALID)

    assert "Connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address",
    ["", "example.org", "ftp://example.org", "http://", "http://host:99999/", "http://[::1/", "http://a b/", "http://ä/"],
)
def test_address_that_nothing_can_be_sent_to_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--webhook must be an address such as https://host/path, not "):
        Webhook(webhook=address).check()
