"""A history in parts has the verdict of the whole history, however it is cut."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from checkers.control import incarnations
from checkers.engine.checker import Checker, Split, narrow
from checkers.engine.facts import facts_of
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.parts import judge_part
from checkers.engine.ranges import JudgedRange, judge_range
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Verdict
from checkers.judge import judge, verdict_of_pieces
from checkers.registry import ALL
from checkers.validity import assumptions, vacuity
from history import parquet, store
from history.errors import HistoryError
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from history.parts import INDEX_MAX
from history.seed import Rng
from proof.manifests import manifest, promise
from tests.checkers.corpus import RUNS
from tests.checkers.corpus import history as stored
from tests.checkers.story import HistoryBuilder
from tests.checkers.toy import Toy
from tests.pipeline.runs import random_run

seeds = st.integers(0, 2**32)
OF_THE_RUN = tuple(checker for checker in ALL if checker.group_by == WHOLE_RUN)


def in_parts(folder: Path, history: History, *, part_rows: int, bounds: Sequence[int], screened_min: int = 0) -> Verdict:
    """Store a history in parts and judge it in ranges that begin at 0 and at the bounds."""
    store.save(folder, history, split_rows=-1, part_rows=part_rows)
    stored_run = store.load_run(folder)
    parts = [
        judge_part(
            stored_run.part(number), stored_run.part(0), part, facts_of(stored_run.manifest), ALL, screened_min=screened_min
        )
        for number, part in enumerate(stored_run.manifest.parts)
        if number
    ]
    return verdict_of_pieces(parts, ranges_of(stored_run, bounds), stored_run)


def ranges_of(history: History, bounds: Sequence[int], checkers: Sequence[Checker] = ALL) -> list[JudgedRange]:
    """The ranges of a history that begin at 0 and at these bounds, judged."""
    starts = sorted({0, *bounds})
    lasts = [start - 1 for start in starts[1:]] + [INDEX_MAX]
    facts = facts_of(history.manifest)
    return [judge_range(history, first, last, facts, checkers) for first, last in zip(starts, lasts, strict=True)]


def crossed(history: History, rng: Rng) -> History:
    """The same rows by two processes whose calls go to all partitions, so that calls pair across parts."""
    return History(
        history.manifest,
        operations=[replace(op, process=rng.below(2) if rng.ratio(1, 8) else op.process % 2) for op in history.operations],
        events=history.events,
    )


def assert_cuts_change_nothing(folder: Path, history: History, rng: Rng) -> Verdict:
    """Cut by partition and by packs of partitions; the ranges are single rows, or drawn."""
    whole = judge(history)
    last = max([op.index for op in history.operations] + [event.index for event in history.events], default=0)
    drawn = [rng.below(last + 1) for _ in range(rng.between(0, 4))]
    assert in_parts(folder / "fine", history, part_rows=1, bounds=range(min(last, 40))) == whole
    assert in_parts(folder / "coarse", history, part_rows=rng.between(1, 60), bounds=drawn, screened_min=1 << 60) == whole
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RUNS))
def test_parts_keep_the_verdicts_of_the_corpus(name: str, tmp_path: Path) -> None:
    assert_cuts_change_nothing(tmp_path, stored(name), Rng(1))


# Each example is judged once for every place where it may be cut, so a third of the examples is enough.
_FEWER = settings(max_examples=settings().max_examples // 3)


@pytest.mark.slow
@_FEWER
@given(seed=seeds)
def test_parts_keep_the_verdicts_of_random_runs(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = Rng(seed)
    history = random_run(rng)
    assert_cuts_change_nothing(tmp_path_factory.mktemp("parts"), crossed(history, rng) if rng.ratio(1, 2) else history, rng)


@pytest.mark.slow
@_FEWER
@given(seed=seeds, partitions=st.integers(1, 4))
def test_parts_keep_the_verdicts_of_toy_logs(seed: int, partitions: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    history = Toy(Rng(seed), partitions=partitions, m=1).run(120, breaks=8)
    assert_cuts_change_nothing(tmp_path_factory.mktemp("parts"), history, Rng(seed))


_WORDS = {"f": ["produce", "poll", "latest", "commit"], "type": [*OpType], "value": [None, "a"], "acks": [None, -1, 1]}


@st.composite
def turns(draw: st.DrawFn) -> History:
    """Rows of three processes on three partitions and on none, in any order of calls and completions."""
    rows = []
    for index in range(draw(st.integers(1, 16))):
        drawn = {name: draw(st.sampled_from(words)) for name, words in _WORDS.items()}
        place = draw(st.sampled_from([0, 1, 2, None]))
        where = {"topic": None if place is None else "orders", "partition": place}
        process, offset = draw(st.integers(0, 2)), draw(st.sampled_from([None, 0, 1, -7]))
        time_ns = draw(st.sampled_from([index, index, index, 0]))
        row = {"index": index, "slot": 0, "process": process, "offset": offset, "time_ns": time_ns, **where, **drawn}
        rows.append(msgspec.convert(row, Operation))
    return History(manifest(promise(), partitions=3), operations=rows)


@pytest.mark.slow
@given(history=turns(), bounds=st.lists(st.integers(1, 15), max_size=5))
def test_ranges_keep_the_findings_of_any_calls(
    history: History, bounds: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    store.save(folder, history, split_rows=-1, part_rows=1)
    stored_run = store.load_run(folder)

    assert verdict_of_pieces((), ranges_of(stored_run, bounds, OF_THE_RUN), stored_run, OF_THE_RUN) == judge(history, OF_THE_RUN)


@st.composite
def spoken(draw: st.DrawFn) -> History:
    """Two nodes that start lives and note rows under any of them."""
    kinds = st.sampled_from([EventKind.NODE_STARTED, *[EventKind.APPEND] * 3, *[EventKind.HW] * 3])
    rows = draw(st.lists(st.tuples(kinds, st.sampled_from(["b1", "b2"]), st.integers(1, 3) | st.none()), max_size=40))
    events = [
        ClusterEvent(index=index, time_ns=index, kind=kind, node=node, life=life, topic="orders", partition=index % 2)
        for index, (kind, node, life) in enumerate(rows)
    ]
    return History(manifest(promise(), partitions=2), events=events)


@pytest.mark.slow
@given(history=spoken(), bounds=st.lists(st.integers(1, 40), max_size=5))
def test_ranges_keep_the_findings_of_any_lives(
    history: History, bounds: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A range keeps the first rows of each life and counts the others."""
    folder = tmp_path_factory.mktemp("parts")
    store.save(folder, history, split_rows=-1, part_rows=1)
    stored_run = store.load_run(folder)
    checkers = (incarnations.CHECKER,)

    assert verdict_of_pieces((), ranges_of(stored_run, bounds, checkers), stored_run, checkers) == judge(history, checkers)


def test_states_of_a_range_do_not_grow_with_its_rows() -> None:
    sizes = [[len(state) for state in _states(count).values()] for count in (100, 4000)]

    assert all(large < small + 200 for small, large in zip(*sizes, strict=True)), sizes


def _states(count: int) -> dict[str, bytes]:
    """The states after `count` produces by one process, each noted by a broker."""
    builder = HistoryBuilder()
    for number in range(count):
        builder.produce(1, f"v{number}", number)
        builder.event(EventKind.APPEND, node="b1", life=1, offset=number, leader_epoch=0, value=f"v{number}", detail="leader")
    history, facts = builder.history(), facts_of(builder.manifest)
    found = {}
    for checker in OF_THE_RUN:
        assert checker.split is not None
        rows = narrow(checker, Operations(history.operations_frame), Events(history.events_frame))
        found[checker.name] = checker.split.partial(*rows, facts)
    return found


def _alternating() -> History:
    """One process calls two partitions in turn; its acks are in the invocations alone."""
    builder = HistoryBuilder(partitions=2)
    for number in range(6):
        builder.on_partition(number % 2).invoke_produce(1, f"v{number}")
        builder.produce_ok(1, f"v{number}", number // 2)
    completions = [replace(op, acks=None) if op.type is not OpType.INVOKE else op for op in builder.operations]
    return History(builder.manifest, operations=completions)


def _forgetful(split: Split) -> Split:
    """A split that merges without the state of the ranges before: it asks each range alone and joins the answers."""

    def merge(states, facts, cuts):  # type: ignore[no-untyped-def]  # the types are those of Split.merge
        findings = [split.merge([state], facts, cuts) for state in states]
        counts = {name: sum(one.counts.get(name, 0) for one in findings) for name in findings[0].counts}
        return replace(findings[0], unchecked=tuple({reason for one in findings for reason in one.unchecked}), counts=counts)

    return replace(split, merge=merge)


@pytest.mark.parametrize("checker", [assumptions.CHECKER, vacuity.CHECKER], ids=lambda checker: str(checker.name))
def test_merge_without_carried_state_is_caught(checker: Checker, tmp_path: Path) -> None:
    """Otherwise the tests of this module would not see a merge that forgets open calls or acks."""
    history = _alternating()
    store.save(tmp_path, history, split_rows=-1, part_rows=1)
    stored_run = store.load_run(tmp_path)
    assert checker.split is not None
    forgetful = replace(checker, split=_forgetful(checker.split))
    whole, bounds = judge(history, (checker,)), range(13)

    assert verdict_of_pieces((), ranges_of(stored_run, bounds, (checker,)), stored_run, (checker,)) == whole
    assert verdict_of_pieces((), ranges_of(stored_run, bounds, (forgetful,)), stored_run, (forgetful,)) != whole


def test_checker_of_the_run_declares_how_it_splits() -> None:
    assert [checker.name for checker in ALL if (checker.split is not None) != (checker.group_by == WHOLE_RUN)] == []


def test_large_history_is_judged_part_by_part(tmp_path: Path) -> None:
    """`judge` finds the parts by itself and never reads the whole tables."""
    history = stored("bad/lost-write") if "bad/lost-write" in RUNS else stored(sorted(RUNS)[0])
    store.save(tmp_path, history, split_rows=-1)
    stored_run = store.load(tmp_path)

    assert judge(stored_run) == judge(history)
    assert not {"operations_table", "events_table"} & vars(stored_run).keys()


def _rewritten(folder: Path, **changes: object) -> None:
    """Write the manifest with these changes."""
    manifest_found = store.load_manifest(folder)
    store.write_file(folder / store.MANIFEST, store.encode_manifest(replace(manifest_found, **changes)))


def _damage_part(folder: Path) -> None:
    """Flip a bit in the first part of the operations."""
    path = folder / "operations" / "part-00001.parquet"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


def _exchange_parts(folder: Path) -> None:
    """Exchange the files of the first two parts of the operations."""
    first_path, second_path = (folder / "operations" / f"part-0000{number}.parquet" for number in (1, 2))
    data = first_path.read_bytes()
    first_path.write_bytes(second_path.read_bytes())
    second_path.write_bytes(data)


def _cut_off(folder: Path) -> None:
    path = folder / "operations" / "part-00001.parquet"
    path.write_bytes(parquet.encode(parquet.read(path, "operations").slice(0, 2)))


def _missing(folder: Path) -> None:
    (folder / "events" / "part-00002.parquet").unlink()


def _outside(folder: Path) -> None:
    _rewritten(folder, parts=tuple(replace(part, name=f"../{part.name}") for part in store.load_manifest(folder).parts))


def _twice(folder: Path) -> None:
    parts = store.load_manifest(folder).parts
    _rewritten(folder, parts=(*parts, replace(parts[1], name="part-00009")))


@pytest.mark.parametrize(
    ("harm", "words", "proven"),
    [
        (_damage_part, "not the file of the manifest, whose SHA-256 is", True),
        (_exchange_parts, "not the file of the manifest, whose SHA-256 is", True),
        (_damage_part, "not a complete Parquet file", False),
        (_exchange_parts, "part-00001: the part holds other partitions than the manifest says", False),
        (_cut_off, "it says 6 rows of operations, they hold 2", True),
        (_missing, r"part-00002\.parquet: no such file", True),
        (_outside, r"name of a part '\.\./part-00000'", True),
        (_twice, "a part or a partition is listed twice", True),
    ],
)
def test_history_with_a_wrong_part_is_refused(harm: Callable[[Path], None], words: str, proven: bool, tmp_path: Path) -> None:
    """`proven`: the manifest has the SHA-256 of each file. Both partitions have the same number of rows."""
    store.save(tmp_path, _alternating(), split_rows=-1, part_rows=1)
    if not proven:
        _rewritten(tmp_path, files={})
    harm(tmp_path)

    with pytest.raises(HistoryError, match=words):
        judge(store.load_run(tmp_path))


def test_footer_with_false_bounds_is_refused(tmp_path: Path) -> None:
    """Ranges would leave out rows: whoever merges them counts."""
    store.save(tmp_path, _alternating(), split_rows=-1, part_rows=1)
    history = store.load_run(tmp_path)

    with pytest.raises(HistoryError, match="the footers of the parts do not fit their rows"):
        verdict_of_pieces(
            (),
            [judge_range(history, first=0, last=5, facts=facts_of(history.manifest), checkers=OF_THE_RUN)],
            history,
            OF_THE_RUN,
        )
