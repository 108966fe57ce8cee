"""Bad foreign histories are refused with their line and never misread."""

import os
from pathlib import Path

import pytest

from history.errors import HistoryError
from history.foreign import edn
from history.foreign.read import calls, history_of, steps
from history.foreign.step import TRUE, Atom, Pairs
from history.foreign.text import DEPTH_MAX

_INVOKE = "{:process 0, :type :invoke, :f :write, :value 1}"
_OK = "{:process 0, :type :ok, :f :write, :value 1}"

BAD = {
    "two open calls of a process": (
        f"{_INVOKE}\n{_INVOKE}\n", "line 2: process 0 invokes write while its call"),
    "a completion without a call": (
        f"{_OK}\n", "line 1: process 0 completes write, but it has no call open"),
    "two completions": (
        f"{_INVOKE}\n{_OK}\n{_OK}\n", "line 3: process 0 completes write, but it has no call open"),
    "another function": (
        f"{_INVOKE}\n{_OK.replace('write', 'read')}\n", "line 2: process 0 completes read, but its call of line 1 is write"),
    **{
        f"{told} as the answer to {asked}": (
            f"{{:process 0, :type :invoke, :value {asked}}}\n{{:process 0, :type :ok, :value {told}}}",
            f"line 2: process 0 answers {why} of its call of line 1",
        )
        for asked, told, why in (
            ("[[:append 1 1]]", "[[:append 1 2]]", "['append' 1 2] instead of ['append' 1 1]"),
            ("[[:append 1 1]]", "[[:append 1 1] [:r 1 [1]]]", "2 micro-operations instead of the 1"),
            ("[[:append 1 1]]", "[]", "0 micro-operations instead of the 1"),
            ("[]", "[[:r 1 nil]]", "1 micro-operations instead of the 0"),
            ("#{1}", "[[:r 1 nil]]", "a transaction instead of the value"),
            ("7", "[[:r 1 nil]]", "a transaction instead of the value"),
            ("[[:r 1 nil]]", "[[:r 2 nil]]", "['r' 2 nil] instead of ['r' 1 nil]"),
            ("[[:r 1 nil]]", "[[:w 1 nil]]", "['w' 1 nil] instead of ['r' 1 nil]"),
            ("[[:r 1 nil] [:w 2 1]]", "[[:w 2 1] [:r 1 nil]]", "['w' 2 1] instead of ['r' 1 nil]"),
            ("[[:send 1 5]]", "[[:send 1 [0 6]]]", "['send' 1 [0 6]] instead of ['send' 1 5]"),
            ("[[:poll]]", "[[:send 1 5]]", "['send' 1 5] instead of ['poll']"),
        )
    },
    "cut in a map": (
        f"{_INVOKE}\n{_OK[:20]}", "line 2: the file is cut inside"),
    "cut in a string": (f'{_INVOKE}\n{{:process 0, :type "o', "line 2: the file is cut inside"),
    "cut before the bracket": (
        f"[{_INVOKE}\n{_OK}\n", "no ] at its end"),
    "an unknown type": (_INVOKE.replace(":invoke", ":done"), "line 1: :type must be one of"),
    "a process of a wrong type": (_INVOKE.replace("0", "1.5"), "line 1: :process must be a number"),
    "a client that has a name": (_INVOKE.replace("0", ":client"), "line 1: :process must be a number or :nemesis, not 'client'"),
    "a client whose number is text": (
        '{"process": "0", "type": "invoke", "f": "read", "value": null}', "line 1: :process must be a number or :nemesis, not '0'"
    ),
    "indices out of order": (
        f"{_INVOKE.replace('{', '{:index 5 ')}\n{_OK.replace('{', '{:index 4 ')}",
        "line 2: index 4 after 5: the steps are out of order; sort them, or leave the indices out"
    ),
    "clients without numbers": (
        f"{_INVOKE}\n{_INVOKE}".replace(":process 0, ", ""),
        "while its call of line 1 is open: steps without :process are taken for one client's, so give each client a number",
    ),
    "times out of order": (
        f"{_INVOKE.replace('{', '{:time 9 ')}\n{_OK.replace('{', '{:time 4 ')}", "line 2: process 0 completes write before"
    ),
    "times that go back": (
        f"{_INVOKE.replace('{', '{:time 9000000000 ')}\n{_OK}\n{_INVOKE.replace('{', '{:time 4 ')}",
        "line 3: time 4 after 9000000000",
    ),
    "a JSON array that is cut": ('[{"process": 0, "type": "invoke", "f": "read", "value": null}', "no ] at its end"),
    **{
        f"commas of a JSON array: {text}": (f"[\n{text}]", "line 2: the steps of an array must be separated by one comma")
        for step in ('{"process": 0, "type": "invoke", "f": "read"}',)
        for text in (f"{step} {step}", f"{step},", f"{step},,{step}")
    },
    "a JSON object with one key twice": ('{"process": 0, "process": 1, "type": "invoke", "f": "read"}', "one key twice"),
    "a JSON object that is cut": ('{"process": 0, "type": "inv', "line 1: cut, or not JSON"),
    "a line of a log that is cut": ("INFO  jepsen.util - 1\t:inv", "line 1: cut, or not a step of a Jepsen test"),
    "half a number at the end": ("INFO  jepsen.util - 1\t:invoke\t:write\t12", "line 1: cut, or not a step of a Jepsen test"),
    "a log of another program": ("INFO  jepsen.core - started\n", "the file has no invocation or completion of a client"),
    "metadata": (_INVOKE.replace("1}", "^{:a 1} [1]}"), "line 1: '^' is not EDN"),
    "deeply nested EDN": (f"{_INVOKE}\n{'[' * (DEPTH_MAX + 1)}", "line 2: forms are nested deeper than 100"),
    "deeply nested JSON": (
        f'{{"process": 0, "type": "ok", "value": {"[" * 102}{"]" * 102}}}', "line 1: values are nested deeper than 100"
    ),
    "JSON nested too deeply for its parser": (f'{{"value": {"[" * 100_000}', "line 1: values are nested deeper than 100"),
    "a NaN in JSON": ('{"process": 0, "type": "ok", "value": NaN}', "line 1: cut, or not JSON: NaN is not a JSON number"),
    **{
        f"a form that Clojure refuses: {form}": (f"{_INVOKE}\n{_OK.replace('1}', form + '}')}", f"line 2: {why}")
        for form, why in (
            ("017", "'017' is not a number"),
            ("-08", "'-08' is not a number"),
            ("-5x", "'-5x' is not a number"),
            ("+1/0", "'+1/0' is not a number"),
            ("##", "'##' is not EDN"),
            ("##Int", "'##Int' is not EDN"),
            ("::a", "'::a' is not EDN"),
            ("#{1 0x1}", "a set has one value twice"),
            ('"\\x"', "a string has \\x, which is no escape of EDN"),
            ('"\\u12"', "a string has \\u, which is no escape of EDN"),
            ("\\newlines", "there is no character \\newlines"),
        )
    },
    "a discard before the end of the file": (f"{_INVOKE}\n{_OK}\n#_\n", "#_ (leave out the next form) without a form"),
    "a discard before the end of the vector": (f"[{_INVOKE}\n#_]", "line 2: #_ (leave out the next form) without a form"),
    "steps that are all discarded": (f"#_[{_INVOKE}]", "the file has no invocation or completion of a client"),
    **{
        f"a number of JSON beyond all doubles: {number}": (
            f'{{"process": 0, "type": "ok", "value": {number}}}', f"line 1: cut, or not JSON: {number} is too large a number"
        )
        for number in ("1e999", "-1e999")
    },
    "an empty vector": ("[]", "the file has no invocation or completion of a client"),
    "an empty file": ("", "the file is empty"),
}  # fmt: skip


def test_answer_may_fill_in_reads_polls_and_offsets() -> None:
    argument = "[[:r 1 nil] [:append 2 3] [:send 1 5] [:send 1 6] [:poll]]"
    completed_value = "[[:r 1 [4]] [:append 2 3] [:send 1 [0 5]] [:send 1 6] [:poll {1 [[0 5]]}]]"
    history = history_of(f"{{:process 0, :type :invoke, :value {argument}}} {{:process 0, :type :ok, :value {completed_value}}}")

    assert len(history.calls) == 1


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_history_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    text, reason = BAD[name]
    path = tmp_path / "history"
    path.write_text(text)

    with pytest.raises(HistoryError) as refusal:
        calls(path)

    assert reason in str(refusal.value)


def test_history_from_a_pipe_is_refused(tmp_path: Path) -> None:
    """Detecting the form consumes the first bytes of a pipe. The rest would be judged as if it were the whole history."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(HistoryError, match="a pipe or a device"):
        next(steps(pipe))


@pytest.mark.parametrize(
    "text", [_INVOKE, '{"process": 0, "type": "invoke", "f": "write", "value": 1}', "INFO  jepsen.util - 0 :invoke :write 1"]
)
def test_byte_order_mark_is_skipped(text: str, tmp_path: Path) -> None:
    (tmp_path / "history").write_text(f"{text}\r\n", encoding="utf-8-sig")

    assert [(call.f, call.argument) for call in calls(tmp_path / "history").calls] == [("write", 1)]


@pytest.mark.parametrize("outer", ["{}", "[{}]", "({})"])
@pytest.mark.parametrize(
    "discarded", ["#_{:a 1}", "#_ 7", "#_[{:a 1} {:b 2}]", "#_(1)", "#_#_{:a 1} {:b 2}", "#_ #_ #_ 1 [2] {:c 3}", "#_ #a [1]"]
)
def test_discarded_forms_between_steps_are_left_out(discarded: str, outer: str) -> None:
    """A step that is left out only in part, or in the place of another one, would be judged as if it had happened."""
    for text in (f"{discarded} {_INVOKE} {_OK}", f"{_INVOKE} {discarded} {_OK}", f"{_INVOKE}\n{_OK} {discarded}\n"):
        assert history_of(outer.format(text)).steps == 2

    assert history_of(f"{discarded} [{_INVOKE} {_OK}]").steps == 2


def test_comment_ends_with_a_carriage_return() -> None:
    """In a file with line ends of old Macs, everything behind the first comment would be left out."""
    assert history_of(f"; a comment\r{_INVOKE} ; another\r{_OK}\r").steps == 2


def test_clojure_syntax_in_unjudged_fields_is_read() -> None:
    """The value of a nemesis step may be a ratio, and an error may hold an object with its address in hexadecimal."""
    strange = '{:process :nemesis, :type :info, :f :skew, :value 3/2, :error #object[java.lang.Object 0x1f "x"]}'

    assert history_of(f"{strange}\n{_INVOKE}\n{_OK}").steps == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (":a", "a"),
        ("6/4", Atom("ratio", "3/2")),
        ("-4/2", -2),
        ("0x1F", 31),
        ("1N", 1),
        ("-0.0", Atom("float", "0.0")),
        ("1e2", Atom("float", "100.0")),
        ("##-Inf", Atom("float", "##-Inf")),
        ("##NaN", Atom("symbol", "##NaN")),
        ("1.50M", Atom("decimal", "1.5")),
        ("100M", Atom("decimal", "1E+2")),
        ("0.00M", Atom("decimal", "0")),
        ("true", TRUE),
        ("a/b", Atom("symbol", "a/b")),
        ("\\u0041", Atom("character", "A")),
        ("\\newline", Atom("character", "\n")),
        ('#inst "2020"', Atom("#inst", '"2020"')),
        ("#a #_ :b 1", Atom("#a", "1")),
        ("#_ #a :b 1", 1),
        ("#ordered/set (1 2)", (1, 2)),
        ("{:b 1, :a 2}", Pairs((("a", 2), ("b", 1)))),
        ('"\\ud83d\\ude00"', Atom("string", "\U0001f600")),
    ],
)
def test_edn_value_given_as_an_option_is_read(text: str, value: object) -> None:
    assert edn.value(text) == value


@pytest.mark.parametrize(
    "text", ["", ":a :b", "; ", "#_", "#a", "1e99999999999999999999M", '"x', "}", "1} {:value 2", "1/0", "'x", "\udcff"]
)
def test_text_that_is_not_one_edn_value_is_refused(text: str) -> None:
    with pytest.raises(HistoryError, match="is not one EDN value"):
        edn.value(text)


def test_edn_and_json_form_of_a_history_give_equal_calls(tmp_path: Path) -> None:
    """The forms are: EDN in a vector, EDN in lines, JSON in an array and JSON in lines."""
    json_lines = ['{"process":0,"type":"invoke","f":"write","value":1}', '{"process":0,"type":"ok","f":"write","value":1}']
    texts = [f"; a comment\n[{_INVOKE}\n{_OK}]", f"{_INVOKE}\n{_OK}", f"[{','.join(json_lines)}]", "\n".join(json_lines)]
    found = []
    for text in texts:
        (tmp_path / "history").write_text(text)
        found.append([(c.f, c.argument, c.result, c.start, c.end) for c in calls(tmp_path / "history").calls])

    assert found == [[("write", 1, 1, 0, 1)]] * 4
