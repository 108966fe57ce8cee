"""What does not fit is refused with its line; never read as something else."""

from pathlib import Path

import pytest

from history.errors import HistoryError
from history.foreign.read import calls

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
    "a JSON object that is cut": ('{"process": 0, "type": "inv', "line 1: cut, or no JSON"),
    "a line of a log that is cut": ("INFO  jepsen.util - 1\t:inv", "line 1: cut, or no step of an etcd log"),
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


def test_forms_of_one_history_are_one(tmp_path: Path) -> None:
    """EDN in a vector, EDN in lines, JSON in an array and JSON in lines say the same."""
    json_lines = ['{"process":0,"type":"invoke","f":"write","value":1}', '{"process":0,"type":"ok","f":"write","value":1}']
    texts = [f"; a comment\n[{_INVOKE}\n{_OK}]", f"{_INVOKE}\n{_OK}", f"[{','.join(json_lines)}]", "\n".join(json_lines)]
    found = []
    for text in texts:
        (tmp_path / "history").write_text(text)
        found.append([(c.f, c.argument, c.result, c.start, c.end) for c in calls(tmp_path / "history").calls])

    assert found == [[("write", 1, 1, 0, 1)]] * 4
