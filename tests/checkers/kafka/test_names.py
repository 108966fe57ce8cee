"""The table of Jepsen's names says what is: every kind that it names is one of a checker, every anomaly has its row."""

import re

from checkers.judges import JUDGES
from checkers.kafka.names import BESIDE, TWENTY
from checkers.registry import ALL
from tests.checkers.corpus import QUEUES


def test_there_are_twenty() -> None:
    assert len(TWENTY) == 20


def test_kinds_of_our_checkers_exist() -> None:
    """As in "checker: kind, kind"; what stands behind a kind is said in words."""
    kinds = {checker.name: {*checker.kinds, "UNKNOWN", "not"} for checker in ALL}
    named = [(row.name, part.strip().partition(": ")) for row in (*TWENTY, *BESIDE) for part in row.ours.split(";")]

    for name, (checker, colon, said) in named:
        if colon and checker in kinds:
            assert re.split(r"[ ,]", said)[0] in kinds[checker], name
        elif colon:
            assert checker == "impossible", name


def test_every_kind_of_the_judge_is_told_of() -> None:
    judge = next(judge for judge in JUDGES if judge.name == "kafka")
    told = {name for row in (*TWENTY, *BESIDE) for name in row.name.split(", ")}

    assert set(judge.kinds) - told == set()


def test_what_is_told_to_be_noted_or_invalid_is_so_in_a_story() -> None:
    """Each name has its history, of the kind that the table promises."""
    kinds = {kind for story in QUEUES.values() for kind in story.kinds}
    notes = {note for story in QUEUES.values() for note in story.notes}

    for row in (*TWENTY, BESIDE[0]):
        for name in row.name.split(", "):
            if name.endswith("-process"):
                continue  # the order of a process is that of time
            assert not row.theirs.startswith("INVALID") or name in kinds, name
            assert "noted" not in row.theirs or name in notes or name == "nonmonotonic-poll" or name == "G1c-realtime", name
