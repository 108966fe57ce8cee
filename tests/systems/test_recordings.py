"""The programs of docs/examples/record: clients of three libraries record what they see while a node is killed."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.porcupine.judging import go
from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import release_named
from highwater.cli.main import run_command_line
from tests.systems.conftest import BUILD_S, EXAMPLES, UP_S, free_ports, need

RECORD = EXAMPLES / "record"
PROGRAMS = ("record.py", "transactions.py", "Record.java", "record.go")
RECORD_S, ANSWERS_S, ENDS_S = 25, 60, 240
KILLED, DOWN_S = "3", 4

pytestmark = [pytest.mark.slow, pytest.mark.systems]


def command_of(program: str, folder: Path) -> list[str]:
    """How a program of docs/examples/record is run. Skips the test if its toolchain is not here."""
    path = RECORD / program
    if program.endswith(".java"):
        return ["java", "-cp", f"{jars.folder_of(release_named('4.1.0'))}/*", str(path)]
    if program.endswith(".go"):
        builder = go()
        if builder is None:
            pytest.skip("there is no Go here, which builds record.go")
        subprocess.run([builder, "build", "-o", folder / "record", "."], cwd=RECORD, check=True, timeout=BUILD_S)
        return [str(folder / "record")]
    return [sys.executable, str(path)]


def start_recording(command: list[str], brokers: str, topic: str, to: Path) -> subprocess.Popen[bytes]:
    """Start a recording; it ends by itself."""
    with to.open("wb") as out:
        return subprocess.Popen([*command, brokers, topic, str(RECORD_S)], stdout=out, stderr=subprocess.DEVNULL)


def make_topics(brokers: str, *names: str, replicas: int) -> None:
    """Make topics of two partitions, when the brokers serve."""
    config = {"min.insync.replicas": str((replicas + 1) // 2)}
    new = [NewTopic(name, 2, replicas, config=config) for name in names]
    deadline = time.monotonic() + UP_S
    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
    while len(admin.list_topics(timeout=UP_S).brokers) < replicas:
        assert time.monotonic() < deadline, "not all nodes serve"
        time.sleep(0.5)
    for made in admin.create_topics(new).values():
        made.result(ANSWERS_S)


def completions(history: Path) -> Counter[tuple[str, str]]:
    """How many calls of each kind ended how."""
    lines = [json.loads(line) for line in history.read_text().splitlines()[1:]]
    return Counter((line["f"], line["type"]) for line in lines if line["type"] != "invoke")


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Three nodes of Kafka; their addresses."""
    need("4.1.0")
    base = free_ports(14)
    for name, value in (("DATA", tmp_path / "cluster"), ("BASE", base), ("JARS", jars.folder_of(release_named("4.1.0")))):
        monkeypatch.setenv(name, str(value))
    subprocess.run([EXAMPLES / "cluster.sh", "up"], check=True, timeout=UP_S)
    try:
        yield ",".join(f"127.0.0.1:{base + node}" for node in (1, 2, 3))
    finally:
        subprocess.run([EXAMPLES / "cluster.sh", "down"], check=True, timeout=UP_S)


def test_recordings_of_three_libraries_are_valid_after_a_kill(
    brokers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All record at the same time, each on a topic of its own; a node dies without a word and comes back."""
    commands = {program: command_of(program, tmp_path) for program in PROGRAMS}
    topics = {program: f"recorded-by-{program}" for program in PROGRAMS}
    make_topics(brokers, *topics.values(), replicas=3)

    recordings = [
        start_recording(commands[program], brokers, topics[program], tmp_path / f"{program}.jsonl") for program in PROGRAMS
    ]
    try:
        time.sleep(RECORD_S / 3)
        subprocess.run([EXAMPLES / "cluster.sh", "kill", KILLED], check=True, timeout=UP_S)
        time.sleep(DOWN_S)
        subprocess.run([EXAMPLES / "cluster.sh", "start", KILLED], check=True, timeout=UP_S)
        exit_codes = [recording.wait(ENDS_S) for recording in recordings]
    finally:
        for recording in recordings:
            recording.kill()

    assert exit_codes == [0] * len(PROGRAMS)
    for program in PROGRAMS:
        history = tmp_path / f"{program}.jsonl"
        assert run_command_line(["check", str(history)]) == 0, program
        assert f"VALID: {history}" in capsys.readouterr().out
        calls = completions(history)
        assert calls["subscribe", "ok"] >= 2, program
        assert calls["send", "ok"] + calls["txn", "ok"] >= 20, program  # on a machine with ten times more work than cores


def test_recording_shows_what_a_broker_loses_at_a_kill(
    kfake_cluster: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kfake_cluster(1, cut="1")
    brokers = f"127.0.0.1:{os.environ['BASE']}"
    make_topics(brokers, "cut", replicas=1)

    recording = start_recording(command_of("record.py", tmp_path), brokers, "cut", tmp_path / "history.jsonl")
    try:
        time.sleep(RECORD_S / 3)
        subprocess.run([EXAMPLES / "kfake" / "kfake.sh", "kill", "0"], check=True, timeout=UP_S)
        subprocess.run([EXAMPLES / "kfake" / "kfake.sh", "start", "0"], check=True, timeout=UP_S)
        assert recording.wait(ENDS_S) == 0
    finally:
        recording.kill()

    assert run_command_line(["check", str(tmp_path / "history.jsonl")]) == 10
    assert "lost-write" in (out := capsys.readouterr().out) or "inconsistent-offsets" in out
