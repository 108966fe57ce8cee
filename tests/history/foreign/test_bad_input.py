"""What does not fit is refused with its line; never read as something else."""

import math
import os
from fractions import Fraction
from pathlib import Path

import pytest

from history.errors import HistoryError
from history.foreign import edn
from history.foreign.read import calls, history_of, steps
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
    "cut in a map": (
        f"{_INVOKE}\n{_OK[:20]}", "line 2: the file is cut inside"),
    "cut in a string": (f'{_INVOKE}\n{{:process 0, :type "o', "line 2: the file is cut inside"),
    "cut before the bracket": (
        f"[{_INVOKE}\n{_OK}\n", "no ] at its end"),
    "a type that is none": (_INVOKE.replace(":invoke", ":done"), "line 1: :type must be one of"),
    "a process of a wrong type": (_INVOKE.replace("0", "1.5"), "line 1: :process must be a number"),
    "a client that has a name": (_INVOKE.replace("0", ":client"), "line 1: :process must be a number or :nemesis, not 'client'"),
    "a client whose number is text": (
        '{"process": "0", "type": "invoke", "f": "read", "value": null}', "line 1: :process must be a number or :nemesis, not '0'"
    ),
    "indices out of order": (
        f"{_INVOKE.replace('{', '{:index 5 ')}\n{_OK.replace('{', '{:index 4 ')}", "line 2: index 4 after 5"
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
        f"commas of a JSON array: {text}": (f"[\n{text}]", "line 2: between the steps of an array stands one comma")
        for step in ('{"process": 0, "type": "invoke", "f": "read"}',)
        for text in (f"{step} {step}", f"{step},", f"{step},,{step}")
    },
    "a JSON object with one key twice": ('{"process": 0, "process": 1, "type": "invoke", "f": "read"}', "one key twice"),
    "a JSON object that is cut": ('{"process": 0, "type": "inv', "line 1: cut, or no JSON"),
    "a line of a log that is cut": ("INFO  jepsen.util - 1\t:inv", "line 1: cut, or no step of an etcd log"),
    "half a number at the end of a log": ("INFO  jepsen.util - 1\t:invoke\t:write\t12", "line 1: cut, or no step of an etcd log"),
    "a log of somebody else": ("INFO  jepsen.core - started\n", "no step in it"),
    "metadata": (_INVOKE.replace("1}", "^{:a 1} [1]}"), "line 1: '^' is no EDN"),
    "EDN that is too deep": (f"{_INVOKE}\n{'[' * (DEPTH_MAX + 1)}", "line 2: more than 100 forms within each other"),
    "JSON that is too deep": (
        f'{{"process": 0, "type": "ok", "value": {"[" * 102}{"]" * 102}}}', "line 1: more than 100 values within each other"
    ),
    "JSON that is too deep for its parser": (f'{{"value": {"[" * 100_000}', "line 1: more than 100 values within each other"),
    "no number of JSON": ('{"process": 0, "type": "ok", "value": NaN}', "line 1: cut, or no JSON: NaN is no number of JSON"),
    "a vector of nothing": ("[]", "no step in it"),
    "nothing": ("", "the file is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_history_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    text, why = BAD[name]
    path = tmp_path / "history"
    path.write_text(text)

    with pytest.raises(HistoryError) as refusal:
        calls(path)

    assert why in str(refusal.value)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Its beginning is gone once its form was looked at: the rest would be judged as if it were all."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(HistoryError, match="no file, but a pipe or a device"):
        next(steps(pipe))


@pytest.mark.parametrize(
    "text", [_INVOKE, '{"process": 0, "type": "invoke", "f": "write", "value": 1}', "INFO  jepsen.util - 0 :invoke :write 1"]
)
def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "history").write_text(f"{text}\r\n", encoding="utf-8-sig")

    assert [(call.f, call.argument) for call in calls(tmp_path / "history").calls] == [("write", 1)]


def test_what_clojure_prints_in_fields_that_nobody_judges_is_read() -> None:
    """A ratio, and an object with its address in hexadecimal, which stand in what a nemesis did and in errors."""
    strange = '{:process :nemesis, :type :info, :f :skew, :value 3/2, :error #object[java.lang.Object 0x1f "x"]}'

    assert history_of(f"{strange}\n{_INVOKE}\n{_OK}").steps == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6/4", Fraction(3, 2)),
        ("-4/2", -2),
        ("0x1F", 31),
        ("##-Inf", -math.inf),
        ("##NaN", "##NaN"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
def test_a_value_of_edn_is_read(text: str, value: object) -> None:
    assert edn.value(text) == value


@pytest.mark.parametrize("text", ["", ":a :b", "; ", "#_", '"x', "}", "1} {:value 2", "1/0", "'x", "\udcff"])
def test_what_is_not_one_edn_value_is_refused(text: str) -> None:
    with pytest.raises(HistoryError, match="is not one EDN value"):
        edn.value(text)


def test_forms_of_one_history_are_one(tmp_path: Path) -> None:
    """EDN in a vector, EDN in lines, JSON in an array and JSON in lines say the same."""
    json_lines = ['{"process":0,"type":"invoke","f":"write","value":1}', '{"process":0,"type":"ok","f":"write","value":1}']
    texts = [f"; a comment\n[{_INVOKE}\n{_OK}]", f"{_INVOKE}\n{_OK}", f"[{','.join(json_lines)}]", "\n".join(json_lines)]
    found = []
    for text in texts:
        (tmp_path / "history").write_text(text)
        found.append([(c.f, c.argument, c.result, c.start, c.end) for c in calls(tmp_path / "history").calls])

    assert found == [[("write", 1, 1, 0, 1)]] * 4
