"""Each scenario shows what the cluster does now; `tests.reference.script` defines the language.

`python -m tests.reference.test_scenarios --rewrite` regenerates their output: read the difference before committing it.
"""

import sys
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.reference.script import ScriptError, play

SCENARIOS = {path.stem: path for path in sorted((Path(__file__).parent / "scenarios").glob("*.txt"))}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_shows_what_happens_now(name: str) -> None:
    """A rule changes only on purpose: the difference shows the step of the document that changed."""
    difference = _difference(name, SCENARIOS[name].read_text(encoding="utf-8"))

    assert not difference, "\n".join(difference)


def _difference(name: str, script: str) -> list[str]:
    played = play(f"{name}.txt", script).splitlines()
    return list(unified_diff(script.splitlines(), played, f"{name}.txt", "what happens now", lineterm=""))


def test_scenario_with_a_changed_line_is_reported() -> None:
    script = "cluster brokers=1\n----\nzk  replicas=1 leader=2 leader_epoch=0 isr=1 controller_epoch=1 zk_version=0\n"

    changed = [line for line in _difference("changed", script) if line.startswith(("-zk", "+zk"))]

    assert changed == [
        "-zk  replicas=1 leader=2 leader_epoch=0 isr=1 controller_epoch=1 zk_version=0",
        "+zk  replicas=1 leader=1 leader_epoch=0 isr=1 controller_epoch=1 zk_version=0",
    ]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("# a comment\n\ncluster brokers=1\n----\n\nelect 1\n----\n", "bad.txt:6: unknown command elect; commands are cluster, "),
        ("state\n----\n", "bad.txt:1: state: a script begins with the command cluster"),
        ("cluster brokers=1\ncrash 2\n----\n", "bad.txt:2: crash 2: broker must be one of 1, not 2"),
        ("cluster brokers=1\ncrash\n----\n", "bad.txt:2: crash: "),
        ("cluster brokers=1 disks=3\n----\n", "bad.txt:1: cluster brokers=1 disks=3: got an unexpected keyword argument 'disks'"),
        (
            "cluster brokers=1 variant=best\n----\n",
            "bad.txt:1: cluster brokers=1 variant=best: variant must be one of acks0-silent, ",
        ),
        ("cluster brokers=1\nstart 1\n----\n", "bad.txt:2: start 1: broker 1 must not be running"),
        ("cluster brokers=1\nproduce 1 t-0 a acks=2\n----\n", "bad.txt:2: produce 1 t-0 a acks=2: acks must be one of acks=0, "),
        ("cluster brokers=1\nhold Fetches 1->1\n----\n", "bad.txt:2: hold Fetches 1->1: kind of message must be one of *, "),
        ("cluster brokers=1\njoin 1 1\n----\n", "bad.txt:2: join 1 1: "),
        ("cluster brokers=1\nswap-dir 1 1\n----\n", "bad.txt:2: swap-dir 1 1: log directory must be one of 0, not 1"),
        ("cluster brokers=1\nlet-write\n----\n", "bad.txt:2: let-write: no write is on its way"),
        ("cluster brokers=1\ntimer 1 noon\n----\n", "bad.txt:2: timer 1 noon: timer must be one of "),
        ("cluster brokers=1\nshow fetches\n----\n", "bad.txt:2: show fetches: kind must be one of "),
        ("cluster brokers=1\ndrop Fetch 1->2\n----\n", "bad.txt:2: drop Fetch 1->2: no message in flight matches"),
        ("----\n", "bad.txt:1: there is no command above ----"),
        ("cluster brokers=1\n", "bad.txt:1: a line ---- must follow the last command"),
    ],
)
def test_bad_command_is_refused_with_file_and_line(script: str, error: str) -> None:
    with pytest.raises(ScriptError) as error_info:
        play("bad.txt", script)

    assert str(error_info.value).startswith(error)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    for path in SCENARIOS.values():
        path.write_text(play(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
