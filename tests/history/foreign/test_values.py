"""Values that Clojure tells apart are different for every judge of an EDN history; JSON has one kind of number and of text.

Judged as `highwater check` does it: a client writes one value, and another client observes another one.
"""

from itertools import combinations
from pathlib import Path

import pytest

from checkers.engine.verdict import Validity
from highwater.foreign.files import ModelChoice, judge_file
from history.foreign import edn

# One row for each value of Clojure, with all spellings that are `=`.
_EQUAL = (
    ("1", "1N", "+1", "0x1", "2/2"),
    ("1.0", "1.00", "10e-1"),
    ("1.0M", "1.00M", "1M"),
    ("1/2", "2/4"),
    ("0.5",),
    ("0.0", "-0.0"),
    ("0", "-0"),
    (":a",),
    ('"a"', '"\\u0061"', '"\\141"'),
    ("a",),
    ("\\a", "\\u0061", "\\o141"),
    ("true",),
    (":true",),
    ('"true"',),
    ("nil",),
    (":nil",),
    ("[1 2]", "(1 2)", "[1, 2N]"),
    ("#{1 2}", "#{2 1}"),
    ("{1 2}",),
    ("[[1 2]]",),
    ("{:a 1, :b 2}", "{:b 2, :a 1}"),
    ('#inst "2020-01-01"',),
    ('#uuid "2020-01-01"',),
    ('"2020-01-01"',),
)
_PAIRS = (("1", "1.0"), (":a", '"a"'), ("1", "true"), ("[[1 2]]", "{1 2}"), ("1.0", "1.0M"), ("1/2", "0.5"), ("\\a", '"a"'))


def test_spellings_of_one_edn_value_are_equal() -> None:
    for spellings in _EQUAL:
        assert len({edn.value(text) for text in spellings}) == 1, spellings


def test_different_edn_values_are_not_equal() -> None:
    for first_value, second_value in combinations([edn.value(spellings[0]) for spellings in _EQUAL], 2):
        assert first_value != second_value
        assert second_value != first_value
        assert (first_value,) != (second_value,)
        assert len({first_value, second_value, frozenset([first_value]), frozenset([second_value])}) == 4


def _history(*calls: tuple[str, str, str]) -> str:
    lines = []
    for f, argument, answer in calls:
        lines += [
            f"{{:process 0, :type {kind}, :f {f}, :value {value}}}" for kind, value in ((":invoke", argument), (":ok", answer))
        ]
    return "\n".join(lines) + "\n"


# For each model a history in which WRITTEN is written and SEEN is observed.
_HISTORIES = {
    "register": _history((":write", "WRITTEN", "WRITTEN"), (":read", "nil", "SEEN")),
    "cas-register": _history((":write", "WRITTEN", "WRITTEN"), (":cas", "[SEEN 7]", "[SEEN 7]")),
    "multi-register": _history((":txn", "[[:w 0 WRITTEN]]", "[[:w 0 WRITTEN]]"), (":txn", "[[:r 0 nil]]", "[[:r 0 SEEN]]")),
    "set": _history((":add", "WRITTEN", "WRITTEN"), (":read", "nil", "#{SEEN}")),
    "fifo-queue": _history((":enqueue", "WRITTEN", "WRITTEN"), (":dequeue", "nil", "SEEN")),
    "unordered-queue": _history((":enqueue", "WRITTEN", "WRITTEN"), (":dequeue", "nil", "SEEN")),
    "partition-log": _history((":append", "WRITTEN", "0"), (":read", "0", "SEEN")),
    "versioned-node": _history((":create", "WRITTEN", ":ok"), (":read", "nil", "[SEEN 0]")),
    "kafka": _history(
        (":send", "[[:send 0 WRITTEN]]", "[[:send 0 [0 WRITTEN]]]"), (":poll", "[[:poll]]", "[[:poll {0 [[0 SEEN]]}]]")
    ),
}


@pytest.mark.parametrize("model", sorted(_HISTORIES))
@pytest.mark.parametrize(("written", "seen"), _PAIRS)
def test_other_kind_of_value_than_written_is_invalid(model: str, written: str, seen: str, tmp_path: Path) -> None:
    """Knossos and Elle refute such a history; a judge for which 1 equals 1.0 finds nothing."""
    verdicts = []
    for observed in (written, seen):
        path = tmp_path / "history.edn"
        path.write_text(_HISTORIES[model].replace("WRITTEN", written).replace("SEEN", observed))
        verdicts.append(judge_file(path, ModelChoice(model=model)).validity)

    assert verdicts == [Validity.VALID, Validity.INVALID]


@pytest.mark.parametrize(("model", "write"), [("list-append", "append"), ("rw-register", "w")])
def test_transactions_write_different_kinds_of_value_once(model: str, write: str, tmp_path: Path) -> None:
    """If `:a` and "a" were equal, the key would have one value twice, and could not be judged."""
    path = tmp_path / "history.edn"
    calls = [(":txn", f"[[:{write} 0 {value}]]", f"[[:{write} 0 {value}]]") for value in ("1", "1.0", ":a", '"a"', "a", "true")]
    calls.append((":txn", "[[:r 1 nil]]", "[[:r 1 nil]]"))
    path.write_text(_history(*calls))

    assert judge_file(path, ModelChoice(model=model)).validity is Validity.VALID


def test_list_read_with_another_kind_of_value_is_incompatible(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        _history(
            (":txn", "[[:append 0 1]]", "[[:append 0 1]]"),
            (":txn", "[[:append 0 2]]", "[[:append 0 2]]"),
            (":txn", "[[:r 0 nil]]", "[[:r 0 [1 2]]]"),
            (":txn", "[[:r 0 nil]]", "[[:r 0 [1.0 2]]]"),
        )
    )

    assert "incompatible-order" in {anomaly.kind for anomaly in judge_file(path, ModelChoice(model="list-append")).anomalies}


def test_json_numbers_are_equal_whatever_their_spelling(tmp_path: Path) -> None:
    """JSON has one kind of number. Programs write 1 as 1.0 and 1.0 as 1, and mean no other value."""
    path = tmp_path / "history.json"
    spellings = (
        ("1", "1.0", Validity.VALID),
        ("1.5", "15e-1", Validity.VALID),
        ("12345678901234567890", "12345678901234567890.0", Validity.VALID),
        ("12345678901234567890", "12345678901234567168.0", Validity.INVALID),  # the nearest double
        ("1e300", "10e299", Validity.VALID),
    )
    for written, seen, verdict in spellings:
        rows = (("invoke", "write", written), ("ok", "write", written), ("invoke", "read", "null"), ("ok", "read", seen))
        path.write_text("".join(f'{{"process": 0, "type": "{k}", "f": "{f}", "value": {v}}}\n' for k, f, v in rows))

        assert judge_file(path, ModelChoice(model="register")).validity is verdict, (written, seen)


def test_json_boolean_is_no_string_and_no_number(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    verdicts = []
    for seen in ("true", '"true"', "1"):
        rows = (("invoke", "write", "true"), ("ok", "write", "true"), ("invoke", "read", "null"), ("ok", "read", seen))
        path.write_text("".join(f'{{"process": 0, "type": "{k}", "f": "{f}", "value": {v}}}\n' for k, f, v in rows))
        verdicts.append(judge_file(path, ModelChoice(model="register")).validity)

    assert verdicts == [Validity.VALID, Validity.INVALID, Validity.INVALID]


@pytest.mark.parametrize("initial", ['"x"', "1.5", "[1.5]"])
def test_initial_value_given_as_edn_fits_json_and_edn(initial: str, tmp_path: Path) -> None:
    """The option is EDN for every form of history."""
    (tmp_path / "a.edn").write_text(_history((":read", "nil", initial)))
    read = '{"process": 0, "type": "%s", "f": "read", "value": %s}\n'
    (tmp_path / "a.json").write_text(read % ("invoke", "null") + read % ("ok", initial))

    for name in ("a.edn", "a.json"):
        choice = ModelChoice(model="register", initial=initial)
        assert judge_file(tmp_path / name, choice).validity is Validity.VALID, name


def test_map_of_strings_takes_strings_of_both_forms(tmp_path: Path) -> None:
    (tmp_path / "a.edn").write_text(_history((":put", '"a"', '"a"'), (":append", '"b"', '"b"'), (":get", "nil", '"ab"')))
    step = '{"process": 0, "type": "%s", "f": "%s", "value": "%s"}\n'
    calls = (("put", "a"), ("append", "b"), ("get", "ab"))
    (tmp_path / "a.json").write_text("".join(step % (kind, *call) for call in calls for kind in ("invoke", "ok")))

    for name in ("a.edn", "a.json"):
        assert judge_file(tmp_path / name, ModelChoice(model="kv")).validity is Validity.VALID, name
