"""The table of Jepsen's names: every kind that it names belongs to a checker, every anomaly has its row."""

import re

from checkers.foreign import JUDGES
from checkers.kafka.names import BESIDE, TWENTY
from checkers.registry import ALL
from tests.checkers.corpus import QUEUES


def test_table_of_kafka_anomalies_has_twenty_rows() -> None:
    assert len(TWENTY) == 20


def test_kafka_anomaly_table_names_existing_anomaly_kinds() -> None:
    """Parse "checker: kind, kind"; text after a kind is a remark."""
    kinds = {checker.name: {*checker.kinds, "UNKNOWN", "not"} for checker in ALL}
    named = [(row.name, part.strip().partition(": ")) for row in (*TWENTY, *BESIDE) for part in row.ours.split(";")]

    for name, (checker, colon, message) in named:
        if colon and checker in kinds:
            assert re.split(r"[ ,]", message)[0] in kinds[checker], name
        elif colon:
            assert checker == "impossible", name


def test_table_of_kafka_anomalies_names_every_judge_kind() -> None:
    judge = next(judge for judge in JUDGES if judge.name == "kafka")
    names_in_table = {name for row in (*TWENTY, *BESIDE) for name in row.name.split(", ")}

    assert set(judge.kinds) - names_in_table == set()


def test_each_kafka_anomaly_has_an_example_history() -> None:
    """Each name has a history with the verdict that the table states."""
    kinds = {kind for story in QUEUES.values() for kind in story.kinds}
    notes = {note for story in QUEUES.values() for note in story.notes}

    for row in (*TWENTY, BESIDE[0]):
        for name in row.name.split(", "):
            if name.endswith("-process"):
                continue  # the order of a process is that of time
            assert not row.theirs.startswith("INVALID") or name in kinds, name
            assert "noted" not in row.theirs or name in notes or name == "nonmonotonic-poll" or name == "G1c-realtime", name
