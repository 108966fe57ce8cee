"""The drawing primitives: the paths of step lines and boxes, ticks, and zooming."""

import re

from hypothesis import given
from hypothesis import strategies as st

from reports.svg import TimeScale, nice_ticks, runs, seconds, step_path, visible

Points = list[tuple[int, int | None]]


def covered(d: str) -> dict[int, set[int]]:
    """The pixels that a path of M, h and v passes through, by column."""
    pixels: dict[int, set[int]] = {}
    x = y = 0
    for command, first, second in re.findall(r"([Mhv])(-?\d+)(?: (-?\d+))?", d):
        match command:
            case "M":
                x, y = int(first), int(second)
            case "h":
                for step in range(int(first)):
                    pixels.setdefault(x + step, set()).add(y)
                x += int(first)
            case _:
                end = y + int(first)
                pixels.setdefault(x, set()).update(range(min(y, end), max(y, end) + 1))
                y = end
        pixels.setdefault(x, set()).add(y)
    return pixels


ys = st.one_of(st.none(), st.integers(0, 200))
points = st.lists(st.tuples(st.integers(0, 40), ys), max_size=200).map(lambda found: sorted(found, key=lambda p: p[0]))


@given(points)
def test_step_line_passes_through_every_value(found: Points) -> None:
    pixels = covered(step_path(found, 41))

    missing = [(x, y) for x, y in found if y is not None and y not in pixels.get(x, set())]
    assert missing == []


@given(points)
def test_size_of_a_step_line_is_bounded_by_its_columns(found: Points) -> None:
    """A page of a million events must not be larger than one of ten thousand."""
    columns = len({x for x, _ in found})
    assert len(re.findall("[Mhv]", step_path(found, 41))) <= 5 * columns + 1


def test_step_line_has_a_gap_where_there_is_no_value() -> None:
    assert step_path([(0, 5), (10, None), (20, 7)], 30) == "M0 5h10M20 7h10"


def test_dip_within_one_pixel_column_is_drawn() -> None:
    """The picture must show a truncation even if the log is refilled at once."""
    assert step_path([(0, 10), (5, 90), (5, 10)], 9) == "M0 10h5v80v-80h4"


@given(st.integers(-10_000, 10_000), st.integers(1, 10_000), st.integers(2, 12))
def test_axis_ticks_are_few_and_within_the_range(low: int, span: int, most: int) -> None:
    ticks = nice_ticks(low, low + span, most)
    assert len(ticks) <= most
    assert all(low <= tick <= low + span for tick in ticks)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=40))
def test_joined_boxes_cover_the_same_pixel_columns_once(spans: list[tuple[int, int]]) -> None:
    boxes = [(int(x), int(x) + int(w)) for x, w in re.findall(r"M(\d+) 0h(\d+)", runs(spans, 0, 3))]

    drawn = [x for start, end in boxes for x in range(start, end)]
    assert sorted(drawn) == sorted({x for start, end in spans for x in range(start, end)})


def test_zoomed_line_begins_with_the_value_at_its_start() -> None:
    scale = TimeScale(start_ns=100, end_ns=200)
    assert list(visible([(0, 1), (50, 2), (150, 3), (250, 4)], scale)) == [(100, 2), (150, 3)]


def test_zoomed_line_without_a_change_is_flat() -> None:
    assert list(visible([(0, 1)], TimeScale(start_ns=100, end_ns=200))) == [(100, 1)]


def test_seconds_on_an_axis_are_truncated_not_rounded_up() -> None:
    assert [seconds(1_999_999_999), seconds(-1_500_000_000, 1), seconds(2_000_000_000, 0)] == ["1.999", "-1.5", "2"]
