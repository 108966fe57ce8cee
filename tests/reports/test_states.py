"""States before and after a row: what changed is marked, and nothing else."""

from reports.states import Marked, held_by


def _marks(lines: tuple[Marked, ...]) -> list[list[str]]:
    return [[words for words, changed in line if changed] for line in lines]


def test_changed_words_of_a_line_are_marked_on_both_sides() -> None:
    states_of_process = held_by(
        "b2", ["up", "  orders-0  idle in epoch 0; LEO 9, HW 7"], ["up", "  orders-0  idle in epoch 1; LEO 7, HW 7"]
    )

    assert _marks(states_of_process.before) == [[], ["0", "9"]]
    assert _marks(states_of_process.after) == [[], ["1", "7"]]


def test_neighbouring_changed_words_are_one_mark() -> None:
    states_of_process = held_by("zookeeper", ["leader b1, epoch 0"], ["no leader, epoch 0"])

    assert "".join(words for words, _ in states_of_process.after[0]) == "no leader, epoch 0"
    assert _marks(held_by("b1", ["x old word, y"], ["x new text, y"]).after) == [["new text"]]


def test_time_that_runs_on_is_not_marked() -> None:
    held = held_by("b1", ["  b2 at 7, caught up 3 ms ago"], ["  b2 at 7, caught up 12 ms ago"])

    assert _marks(held.before) == _marks(held.after) == [[]]


def test_line_that_came_or_went_is_marked_as_a_whole() -> None:
    states_of_process = held_by("b2", ["up", "  coming  Fetch from b1, in 0.4 ms"], ["up"])

    assert _marks(states_of_process.before) == [[], ["  coming  Fetch from b1, in 0.4 ms"]]
    assert _marks(states_of_process.after) == [[]]
