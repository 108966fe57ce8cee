"""A giant history holds its planted errors and nothing else, in process and in pieces of work."""

from functools import partial
from pathlib import Path

import pytest

from bench import giant as bench
from checkers.engine.verdict import Validity
from checkers.judge import judge
from history import store
from pipeline import giant
from pipeline.errors import PipelineError
from pipeline.items import Item, Job
from pipeline.ledger import Ledger
from pipeline.storage import storage_at
from pipeline.work import perform


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions of 12,000 rows."""
    monkeypatch.setattr(bench, "PARTITION_ROWS", 12_000)


@pytest.mark.slow
def test_giant_history_without_errors_is_valid(small: None, tmp_path: Path) -> None:
    """It is live as well, so the checkers of liveness had rows to judge."""
    bench.write(tmp_path, 60_000)

    verdict = judge(store.load_run(tmp_path))

    assert (verdict.validity, verdict.live, verdict.unchecked) == (Validity.VALID, True, ())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_planted_errors_are_found_and_nothing_else(seed: int, small: None, tmp_path: Path) -> None:
    errors = bench.write(tmp_path, 60_000, planted=seed)

    verdict = judge(store.load_run(tmp_path))

    assert (len(errors), bench.unexpected(verdict, errors)) == (12, [])


@pytest.mark.slow
def test_pieces_of_a_history_give_the_verdict_of_the_whole(small: None, tmp_path: Path) -> None:
    bench.write(tmp_path / "run", 60_000, planted=1)
    history = store.load_run(tmp_path / "run")
    items = giant.pieces(history, tmp_path / "run", key="giant", range_rows=15_000)

    perform(items, Job(function=giant.judge_piece, ledger=str(tmp_path / "ledger")))

    assert giant.verdict_of(history, items, Ledger(storage_at(tmp_path / "ledger"))) == judge(history)


@pytest.mark.slow
def test_piece_with_a_damaged_file_gives_no_verdict(small: None, tmp_path: Path) -> None:
    bench.write(tmp_path / "run", 24_000)
    history = store.load_run(tmp_path / "run")
    items: list[Item] = giant.pieces(history, tmp_path / "run", key="giant")
    (tmp_path / "run" / "operations" / "part-00001.parquet").write_bytes(b"PAR1")
    verdict = partial(giant.verdict_of, history, items, Ledger(storage_at(tmp_path / "ledger")))

    perform(items, Job(function=giant.judge_piece, ledger=str(tmp_path / "ledger")))

    with pytest.raises(PipelineError, match=r"a piece of the history was not judged \(failed\): .*part-00001\.parquet"):
        verdict()
