"""`highwater store`: runs from folders of campaigns and of stored runs become a dataset; bad input is one line."""

import json
from contextlib import ExitStack
from pathlib import Path

import msgspec
import polars as pl
import pytest

from checkers.engine.verdict import Verdict
from highwater.campaigns.folder import LEDGER, RECORDS, REQUEST, CampaignOrder
from highwater.campaigns.order import Order
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs.provenance import Build
from highwater.runs.records import stored_record
from history import store
from pipeline.blocks import Blocks, block_name
from pipeline.ledger import Ledger, Row
from pipeline.owner import owned
from pipeline.record_file import encode, encode_block
from pipeline.storage import storage_at
from tests.pipeline.campaigns import summary_of, write_campaign
from tests.pipeline.records import HISTORY, record, verdict
from tests.strategies import MANIFEST


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run_command_line(["store", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def _store_run(folder: Path, seed: int = 1, judged: Verdict | None = None) -> Path:
    """Store a run, with a verdict beside it if one is given."""
    manifest = msgspec.structs.replace(MANIFEST, run_id="sim-v3-0", seed=seed, protocol="v3", outcome="completed")
    directory = folder / f"seed-{seed}" / manifest.run_id
    history = type(HISTORY)(manifest, operations=HISTORY.operations, events=HISTORY.events)
    store.save(directory, history)
    if judged is not None:
        store.write_file(directory / store.VERDICT, msgspec.json.encode(judged))
    return directory


def _campaign(folder: Path, seeds: tuple[int, ...]) -> Path:
    """Write the folder of a campaign with these finished seeds."""
    order = Order(first=1, last=9, protocols=("v3",))
    build = Build(commit=HISTORY.manifest.commit, dirty=False, versions={})  # that of the records
    store.write_file(folder / REQUEST, msgspec.json.encode(CampaignOrder(order=order, build=build)))
    for seed in seeds:
        key = f"v3.default.{seed}"
        store.write_file(folder / RECORDS / f"{key}.parquet", encode(record(seed)))
        result = msgspec.Raw(msgspec.json.encode(summary_of(record(seed))))
        _ledger(folder).commit(Row(key=key, state="done", attempt=1, seconds=1.0, result=result))
    return folder


def _ledger(folder: Path) -> Ledger:
    return Ledger(storage_at(folder / LEDGER))


def _runs(dataset: Path) -> pl.DataFrame:
    return pl.read_parquet(f"{dataset}/runs/**/*.parquet", hive_partitioning=True).sort("seed")


def test_campaign_is_taken_in_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _campaign(tmp_path / "v3-1-9", (1, 2, 3))
    dataset = tmp_path / "dataset"

    assert _run(capsys, "ingest", source, "--dataset", dataset)[:2] == (
        ExitCode.VALID,
        "3 runs taken in, 1 parts written; 0 runs were there already, 0 refused\n",
    )
    code, out, _ = _run(capsys, "ingest", source, "--dataset", dataset, "--json")
    assert (code, json.loads(out)) == (ExitCode.VALID, {"new": 0, "present": 3, "parts": 0, "refused": [], "unfinished": 6})
    assert _runs(dataset)["campaign"].unique().to_list() == ["v3-1-9"]
    assert _run(capsys, "verify", dataset)[:2] == (ExitCode.VALID, "whole\n")


def test_record_without_a_row_of_the_ledger_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its worker was killed before the run was finished; it will be done again."""
    source = _campaign(tmp_path / "campaign", (1, 2))
    _ledger(source).forget({"v3.default.2"})
    _run(capsys, "ingest", source, "--dataset", tmp_path / "dataset")

    assert _runs(tmp_path / "dataset")["seed"].to_list() == [1]


def test_run_that_met_its_deadline_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _campaign(tmp_path / "campaign", (1,))
    _ledger(source).commit(Row(key="v3.default.7", state="late", attempt=4, seconds=60.0, words="not ready after 60.0 s"))
    _run(capsys, "ingest", source, "--dataset", tmp_path / "dataset")
    row = _runs(tmp_path / "dataset").row(1, named=True)

    assert (row["seed"], row["verdict"], row["signature"], row["outcome"]) == (7, "UNKNOWN", "harness-fault", "harness-fault")
    assert row["failure"] == "seed-7: not ready after 60.0 s"
    assert row["run"].startswith("seed-7/sim-v3-")


def test_blocks_of_a_campaign_are_taken_in_as_its_rows_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark stores the rows and the records of a block together; one run of it met its deadline and has no record."""
    late_row = Row(key="v3.default.3", state="late", attempt=1, seconds=60.0, words="not ready after 60.0 s")
    single = _campaign(tmp_path / "single", (1, 2, 4))
    _ledger(single).commit(late_row)
    together = _campaign(tmp_path / "together", (1, 2, 4))
    rows = {row.key: row for row in (*_ledger(together).rows(), late_row)}
    _ledger(together).forget({"v3.default.1", "v3.default.2"})
    for number, seed in enumerate((1, 2, 3)):  # nine runs: a block for each
        Blocks(storage_at(together / LEDGER)).write(number, [rows[key := f"v3.default.{seed}"]])
        if seed != 3:
            (together / RECORDS / f"{key}.parquet").unlink()
            data = encode_block([record(seed)], [key])
            store.write_file(together / RECORDS / f"{block_name(number)}.parquet", data)

    for place in (single, together):
        code, out, _ = _run(capsys, "ingest", place, "--campaign", "x", "--dataset", tmp_path / f"{place.name}-dataset")
        assert (code, out.partition(" ")[0]) == (ExitCode.VALID, "4")
    rows_by_run, rows_in_blocks = (_runs(tmp_path / f"{place.name}-dataset") for place in (single, together))
    assert rows_by_run.equals(rows_in_blocks)


def test_damaged_record_is_refused_and_the_others_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _campaign(tmp_path / "campaign", (1, 2, 3, 4))
    store.write_file(source / RECORDS / "v3.default.2.parquet", b"PAR1")
    (source / RECORDS / "v3.default.3.parquet").unlink()
    store.write_file(source / RECORDS / "v3.default.4.parquet", encode(record(8)))
    code, out, err = _run(capsys, "ingest", source, "--dataset", tmp_path / "dataset")

    assert (code, out) == (ExitCode.USAGE, "1 runs taken in, 1 parts written; 0 runs were there already, 3 refused\n")
    *refusals, unfinished = err.splitlines()
    assert "5 of 9 runs of the campaign are not finished" in unfinished
    assert [line.partition(".parquet: ")[2].partition(":")[0] for line in refusals] == [
        "not a complete record",
        "missing, though the ledger has the run's result",
        "seed is 8, the row of its run says 4",
    ]


@pytest.mark.slow
def test_running_campaign_is_followed_until_all_runs_are_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block is finished while another one writes; a lost run is taken in when it was done again, not before."""
    campaign, dataset, aside = tmp_path / "campaign", tmp_path / "dataset", tmp_path / "aside"
    write_campaign(campaign, Order(first=0, last=14, protocols=("safe", "v3")))  # 30 runs, a block each
    blocks = Blocks(storage_at(campaign / LEDGER))
    whole = blocks.rows(5)
    blocks.write(5, [Row(key=whole[0].key, state="lost", attempt=4, seconds=1.0, words="disk full"), *whole[1:]])
    (campaign / LEDGER / "blocks" / f"{block_name(6)}.rows").rename(aside)
    counts_seen: list[int] = []
    owner = ExitStack()

    def next_look(seconds: float) -> None:
        counts_seen.append(_runs(dataset).height)
        if len(counts_seen) == 1:
            aside.rename(campaign / LEDGER / "blocks" / f"{block_name(6)}.rows")
            owner.enter_context(owned(storage_at(dataset)))
        if len(counts_seen) == 2:
            owner.close()
        if len(counts_seen) == 4:
            blocks.write(5, whole)

    monkeypatch.setattr("highwater.cli.store.sleep", next_look)
    code, out, err = _run(capsys, "ingest", campaign, "--dataset", dataset, "--follow", "0.5")

    assert (code, err, counts_seen) == (ExitCode.VALID, "", [28, 28, 29, 29])
    assert out.splitlines() == [f"{count} of 30 runs are in the dataset, 0 refused" for count in (28, 29, 30)]
    assert _runs(dataset)["outcome"].unique().to_list() == ["completed"]
    assert _run(capsys, "verify", dataset)[:2] == (ExitCode.VALID, "whole\n")


def test_following_needs_one_campaign_and_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("ingest", tmp_path, "--dataset", tmp_path / "dataset", "--follow", "1")
    for more in ((tmp_path,), ("--spark", "local[2]"), ("--evidence",)):
        code, _, err = _run(capsys, *command, *more)
        assert (code, len(err.splitlines())) == (ExitCode.USAGE, 1)
    code, _, err = _run(capsys, *command)
    assert (code, "not the request of a campaign" in err) == (ExitCode.USAGE, True)


def test_stored_runs_are_not_taken_in_on_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before Spark starts."""
    _store_run(tmp_path / "runs")
    code, _, err = _run(capsys, "ingest", tmp_path / "runs", "--dataset", tmp_path / "dataset", "--spark", "local[2]")

    assert (code, err) == (ExitCode.USAGE, "highwater: runs: stored runs are taken in by this process; remove --spark\n")


def test_stored_runs_are_taken_in_with_their_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a verdict is judged."""
    _store_run(tmp_path / "store", 1, verdict(invalid=True))
    _store_run(tmp_path / "store", 2)
    _run(capsys, "ingest", tmp_path / "store", "--dataset", tmp_path / "dataset", "--campaign", "x", "--evidence")
    runs = _runs(tmp_path / "dataset")

    assert runs["signature"].to_list()[0] == "truncated-committed/log-matching/truncate:hw"
    assert runs["run"].to_list() == ["seed-1/sim-v3-0", "seed-2/sim-v3-0"]
    assert [name.name for name in (tmp_path / "dataset" / "events").iterdir()] == ["campaign=x"]


def test_verdict_of_unknown_checkers_says_so(tmp_path: Path) -> None:
    stored, judged = _store_run(tmp_path, 1, verdict()), _store_run(tmp_path, 2)

    assert stored_record(stored, evidence=False).tables["verdicts"]["checkers"].to_pylist() == [""]
    assert len(stored_record(judged, evidence=False).tables["verdicts"]["checkers"][0].as_py()) == 64


def test_record_of_a_stored_run_has_the_options_that_repeat_it(tmp_path: Path) -> None:
    directory = _store_run(tmp_path, 1, verdict())
    repeat = "highwater run --seed 1 --faults clocks,network"
    summary = {
        "seed": 1,
        "protocol": "v3",
        "verdict": "VALID",
        "live": True,
        "plan": "seed-1",
        "plan_digest": "",
        "backend": "sim",
    }
    store.write_file(directory / "summary.json", json.dumps({**summary, "outcome": "completed", "repeat": repeat}))
    row = stored_record(directory, evidence=False).tables["runs"].to_pylist()[0]

    assert (row["mix"], row["workload"], row["repeat"]) == ("clocks,network", "mixed", repeat)


@pytest.mark.parametrize("file", [store.VERDICT, "summary.json", store.OPERATIONS])
def test_damaged_stored_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    directory = _store_run(tmp_path / "store", 1, verdict())
    store.write_file(directory / file, "{")
    code, _, err = _run(capsys, "ingest", tmp_path / "store", "--dataset", tmp_path / "dataset")

    assert code == ExitCode.USAGE
    assert len(err.splitlines()) == 1
    assert file in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "nothing", "--dataset", "dataset"),
        ("ingest", ".", "--dataset", "dataset"),
        ("ingest", ".", "--dataset", "ftp://host/x"),
        ("compact", "nothing"),
        ("verify", "nothing"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = _run(capsys, *arguments)

    assert (code, out, len(err.splitlines())) == (ExitCode.USAGE, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_compaction_joins_small_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2, 3):
        source = _campaign(tmp_path / "campaign", (seed,))
        _run(capsys, "ingest", source, "--dataset", tmp_path / "dataset")

    assert _run(capsys, "compact", tmp_path / "dataset")[:2] == (ExitCode.VALID, "3 parts before, 1 now\n")
    assert _runs(tmp_path / "dataset")["seed"].to_list() == [1, 2, 3]


def test_damaged_dataset_exits_with_13(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _campaign(tmp_path / "campaign", (1,))
    _run(capsys, "ingest", source, "--dataset", tmp_path / "dataset")
    next((tmp_path / "dataset" / "calls").rglob("*.parquet")).write_bytes(b"PAR1")
    code, out, _ = _run(capsys, "verify", tmp_path / "dataset")

    assert code == ExitCode.LABORATORY_FAILED
    assert out.splitlines()[0].endswith("not the file that its manifest names (SHA-256)")
    assert out.splitlines()[-1] == "1 damages"
    assert json.loads(_run(capsys, "verify", tmp_path / "dataset", "--json")[1])["damages"][0]["name"].startswith("calls/")
