"""Operations of sessions in words: records by their ranges, whatever cannot be read clipped."""

import json

import pytest

from reports.session_words import session_words


@pytest.mark.parametrize(
    ("f", "value", "words"),
    [
        ("process", {"group": "g"}, "group g"),
        (
            "process",
            {
                "group": "g",
                "records": {"t-1": [[7, "a"], [9, "b"]], "t-0": [[3, "c"]]},
                "results": {"out-0": [[None, "t-1@7=a"], [4, "t-1@9=b"], [5, "t-0@3=c"]]},
                "positions": {"t-1": 10, "t-0": 4},
                "revoked": ["t-2"],
            },
            "group g; revoked t-2; polled c of t-0 at 3, 2 records of t-1 at 7 to 9; sent 3 records of out-0 at 4 to 5; "
            "positions t-0 4, t-1 10",
        ),
        ("read-committed", {"records": {}, "end": True}, "polled nothing; to the end"),
        ("txn-send", {"id": "a", "sends": {"t-0": [[None, "x"]]}}, "transactional id a; sent x of t-0"),
        ("share-poll", {"group": "g", "records": {"t-0": [[7, "x", 2]]}}, "group g; polled x of t-0 at 7"),
        (
            "share-acknowledge",
            {"group": "g", "acknowledged": {"t-0": [[7, "accept"], [8, "accept"]], "t-1": [[1, "reject"]]}, "confirmed": ["t-0"]},
            "group g; accept 2 of t-0; reject 1 of t-1, not confirmed",
        ),
        ("group-poll", {"group": "g", "assigned": ["t-0", "t-1"], "records": {}}, "group g; assigned t-0, t-1; polled nothing"),
        ("group-abandon", {"group": "g", "commits": "next-poll"}, "group g; commits automatically after next-poll"),
        ("group-positions", {"group": "g", "committed": {"t-1": None, "t-0": 4}}, "group g; committed t-0 4, t-1 None"),
        ("txn", [["send", "t-0", "a"], ["poll"]], "send a to t-0; poll"),
        (
            "txn",
            [["send", "t-0", [4, "a"]], ["poll", {"t-0": [[3, "b"]]}, "end"]],
            "send a to t-0 at 4; polled b of t-0 at 3 to the end",
        ),
    ],
)
def test_value_is_told_in_words(f: str, value: object, words: str) -> None:
    assert session_words(f, json.dumps(value)) == words


@pytest.mark.parametrize("value", ["no JSON", '{"records": 3}', '[["send"]]', "7"])
def test_value_of_another_form_is_shown_as_it_is(value: str) -> None:
    assert session_words("txn" if value.startswith("[") else "process", value) == value


def test_long_value_of_another_form_is_clipped() -> None:
    assert len(session_words("txn", "x" * 1000)) < 200
