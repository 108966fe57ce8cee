"""Windows as YAML and back, and errors that name the line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.seed import Rng
from nemesis.faults import Crash, Packets
from nemesis.generate import generate
from nemesis.profiles import Profile
from nemesis.schedule import Shape, Window
from nemesis.targets import Everyone, Random
from nemesis.text import TextError, windows_from_yaml, windows_to_yaml
from tests.nemesis.strategies import anything, profiles, seeds, shapes


@given(st.lists(anything(Window), max_size=3).map(tuple))
def test_fault_windows_are_unchanged_after_yaml_round_trip(windows: tuple[Window, ...]) -> None:
    assert windows_from_yaml(windows_to_yaml(windows)) == windows


@given(seeds, profiles(), shapes())
def test_generated_fault_windows_take_one_yaml_line_each(seed: int, profile: Profile, shape: Shape) -> None:
    windows = generate(Rng(seed), profile, shape)
    text = windows_to_yaml(windows)

    assert windows_from_yaml(text) == windows
    assert text.count("\n") == max(1, len(windows))


def test_fault_window_yaml_leaves_out_defaults() -> None:
    windows = (
        Window(id="f1", kind="crash-random", at_ms=1000, until_ms=5000, fault=Crash(), target=Random()),
        Window(id="f2", kind="packets", at_ms=2000, until_ms=3000, fault=Packets(drop_per_mille=5), target=Everyone()),
    )

    assert windows_to_yaml(windows) == (
        "- {id: f1, kind: crash-random, at_ms: 1000, until_ms: 5000, fault: {fault: crash}, target: {target: random}}\n"
        "- {id: f2, kind: packets, at_ms: 2000, until_ms: 3000, fault: {fault: packets, drop_per_mille: 5}}\n"
    )


GOOD = "- {id: f1, kind: k, at_ms: 0, until_ms: 9, fault: {fault: pause}}\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD + "- {id: f2, kind: k, at_ms: x, until_ms: 9, fault: {fault: pause}}", 2, "[1].at_ms: expected `int`, got `str`"),
        (
            GOOD + "- id: f2\n  kind: k\n  at_ms: 0\n  until_ms: 1\n  fault: {fault: puase}",
            6,
            "unknown fault 'puase'; did you mean 'pause'?",
        ),
        (GOOD + "- id: f2\n  kind: k\n  colour: red", 4, "unknown key 'colour' in [1]"),
        (GOOD + "- id: f2\n  kid: k", 3, "unknown key 'kid' in [1]; did you mean 'kind'?"),
        (
            GOOD + "- {id: f2, kind: k, at_ms: 0, until_ms: 1, fault: {fault: slow, extra_sm: 5}}",
            2,
            "unknown key 'extra_sm' in [1].fault; did you mean 'extra_ms'?",
        ),
        (GOOD + "- id: f2\n  kind: k\n  at_ms: 0", 2, "missing key `until_ms`"),
        (GOOD + GOOD.replace("pause}", "pause}, target: {target: boss}"), 2, "unknown target 'boss'; known: named, leader-of"),
        (GOOD + "- id: f2\n  id: f3", 3, "the key id occurs twice"),
        (GOOD + "- {id: f2", 2, "malformed YAML"),
        (GOOD + "- &a {id: f2}\n- *a", 3, "an alias"),
        (GOOD + "- {at_ms: 99999999999999999999}", 2, "does not fit into 64 bits"),
        (GOOD + "- {at_ms: !!python/object:os.system x}", 2, "malformed value"),
        (GOOD + "- {[1, 2]: x}", 2, "a key must be a word"),
        ("a: 1", 1, "expected a list, got a mapping"),
        ("", 1, "empty"),
        ("\x00", 1, "malformed YAML"),
        ("[" * 5000 + "]" * 5000, 1, "nested too deeply"),
        ("- 1\n- " + "{fault: " * 100 + "1" + "}" * 100, 2, "nested too deeply"),
    ],
)
def test_schedule_text_error_is_one_line_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(TextError) as raised:
        windows_from_yaml(text, "plan.yaml")

    message = str(raised.value)
    assert message.startswith(f"plan.yaml:{line}: ")
    assert words in message
    assert "\n" not in message


@given(st.text(max_size=60))
def test_any_schedule_text_is_parsed_or_refused(text: str) -> None:
    try:
        windows = windows_from_yaml(text)
    except TextError as error:
        assert str(error).startswith("schedule:")  # noqa: PT017 - either outcome is right
    else:
        assert isinstance(windows, tuple)
