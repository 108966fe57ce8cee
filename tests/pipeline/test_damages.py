"""Drawn damages end in a refusal that names the file, or in work that is done again: never in another verdict or count."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from history import parquet
from history.seed import Rng
from pipeline import dataset
from pipeline.dataset import parts_of
from pipeline.storage import storage_at
from pipeline.verification import verify
from tests.pipeline.damages import (
    FILES,
    PLAIN,
    RECORDS,
    ROWS,
    RULINGS,
    VERDICTS,
    Damage,
    doubled_rows,
    five_of_twelve_rows,
    with_value,
)
from tests.pipeline.datasets import Made, write_dataset

pytestmark = pytest.mark.slow

RUNS = 4
CAMPAIGN = (
    "campaign",
    "--seeds",
    f"0..{RUNS - 1}",
    "--protocol",
    "v3",
    "--seconds",
    "2",
    "--jobs",
    "1",
    "--shrink",
    "0",
    "--keep-all",
)
ON_SPARK = ("--spark", "local[2]")
# `after` is worse than `before`: who takes damaged verdicts for good ones would say that nothing is.
MADE = (Made(campaign="before", seeds=range(30)), Made(campaign="after", seeds=range(30), chance="second", invalid=500))
Told = tuple[int, dict[str, Any], str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a campaign, whose runs are judged, and a dataset of other campaigns. Nothing of it is changed."""
    place = tmp_path_factory.mktemp("whole")
    assert run_command_line([*CAMPAIGN, "--store", str(place / "store")]) == ExitCode.INVALID
    assert run_command_line(["judge", str(place / "store"), "--jobs", "1"]) == ExitCode.INVALID
    write_dataset(place / "dataset", MADE)
    return place


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """The lines of the table of damages: what was hurt, who was asked, how it ended. Printed at the end (`-rP` shows it)."""
    lines: list[str] = []
    yield lines
    print("\n".join(sorted(lines)))  # noqa: T201


class Place:
    """A copy of the whole files, and a way to ask about it."""

    def __init__(self, whole: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        copytree(whole, folder, dirs_exist_ok=True)
        self._capsys = capsys
        self.folder, self.store, self.dataset = folder, folder / "store", folder / "dataset"

    def files(self, *patterns: str) -> list[Path]:
        return sorted(path for pattern in patterns for path in self.folder.glob(pattern))

    def ask(self, *arguments: str) -> Told:
        """The exit code of a command, what it printed as JSON, and its errors."""
        self._capsys.readouterr()
        code = run_command_line([*arguments, "--json"])
        captured = self._capsys.readouterr()
        return code, json.loads(captured.out or "{}"), captured.err

    def resume(self, *options: str) -> Told:
        # On Spark there is no process to choose the number of.
        return self.ask(*CAMPAIGN, "--store", str(self.store), "--resume", *options)

    def ingest(self, dataset: Path) -> Told:
        (campaign,) = self.store.glob("campaigns/*")
        return self.ask("store", "ingest", str(campaign), "--dataset", str(dataset), "--campaign", "one")

    def judge(self, *options: str) -> Told:
        return self.ask("judge", str(self.store), "--jobs", "1", *options)


@pytest.fixture
def place(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(whole, tmp_path, capsys)


def _hurt(name: str, damage: Damage, files: Sequence[Path]) -> Path:
    """Damage one of the files by draws of the damage's name; at least one byte is another afterwards."""
    before = {path: path.read_bytes() for path in files}
    hurt = damage(Rng(int(sha256(name.encode()).hexdigest()[:8], 16)), files)
    assert {path: path.read_bytes() for path in files if path.exists()} != before
    return hurt


def _verdicts(runs: Sequence[dict[str, Any]], *names: str) -> list[tuple[object, ...]]:
    return sorted(tuple(str(run[name]) for name in names) for run in runs)


def _of_campaign(told: Told) -> list[tuple[object, ...]]:
    assert told[1], told[2]
    return _verdicts(told[1]["runs"], "plan", "seed", "verdict", "live", "digest", "acked", "anomalies")


def _is_one_refusal(command_result: Told, file: Path) -> None:
    code, _, words = command_result
    assert code == ExitCode.USAGE, (code, words)
    assert re.match(r"highwater: \S", words), words
    assert words.count("\n") == 1, words
    assert file.name in words, words


@pytest.fixture(params=[(), pytest.param(ON_SPARK, marks=pytest.mark.spark)], ids=["here", "spark"])
def on(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options with which a command is performed in this process, or on Spark."""
    if request.param:
        request.getfixturevalue("spark")
    options: tuple[str, ...] = request.param
    return options


# --- campaigns ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_damaged_row_of_a_campaign_is_done_again(name: str, on: tuple[str, ...], place: Place, table: list[str]) -> None:
    wanted = _of_campaign(place.resume())
    hurt = _hurt(name, ROWS[name], place.files("store/campaigns/*/ledger/*.json"))

    ingested = place.ingest(place.folder / "taken")
    resumed = place.resume(*on)
    second_result = place.ingest(place.folder / "taken")

    _check_counts(ingested, hurt, missing=name == "removed")
    assert _of_campaign(resumed) == wanted
    assert name == "removed" or hurt.stem in resumed[2]  # the row, or its record, which says something else
    assert (second_result[0], second_result[1]["new"] + second_result[1]["present"], second_result[1]["refused"]) == (0, RUNS, [])
    assert verify(storage_at(place.folder / "taken")) == []
    table.append(f"row of a campaign   {name:32} ingest {ingested[0]}, --resume {'on Spark' if on else 'here'} did it again")


def _check_counts(command_result: Told, hurt: Path, *, missing: bool) -> None:
    """Each run is taken in or refused with its file; one without a row is not finished, and the campaign is told to be so."""
    code, counts, words = command_result
    assert counts["new"] + len(counts["refused"]) + counts["unfinished"] == RUNS
    assert counts["unfinished"] == int(missing)
    assert (f"{counts['unfinished']} of {RUNS} runs" in words) == missing
    if not missing:
        assert code == ExitCode.USAGE
        assert any(hurt.stem in line for line in counts["refused"])


def test_copy_of_a_row_beside_it_is_no_run(place: Place) -> None:
    """As a program that synchronizes folders leaves it."""
    row, *_ = place.files("store/campaigns/*/ledger/*.json")
    row.with_name(f"{row.stem} (1).json").write_bytes(row.read_bytes())

    code, counts, _ = place.ingest(place.folder / "taken")

    assert (code, counts["new"], counts["refused"], counts["unfinished"]) == (ExitCode.VALID, RUNS, [], 0)


@pytest.mark.parametrize("name", RECORDS)
def test_damaged_record_is_refused_and_done_again(name: str, on: tuple[str, ...], place: Place, table: list[str]) -> None:
    wanted = _of_campaign(place.resume())
    hurt = _hurt(name, RECORDS[name], place.files("store/campaigns/*/records/*.parquet"))
    taken = place.folder / "taken"

    first, second = place.ingest(taken), place.ingest(taken)

    lost = 2 if name == "exchanged" else 1
    assert (first[0], first[1]["new"], first[1]["present"], len(first[1]["refused"])) == (2, RUNS - lost, 0, lost)
    assert (second[0], second[1]["new"], second[1]["present"], second[1]["refused"]) == (2, 0, RUNS - lost, first[1]["refused"])
    assert any(hurt.name in line for line in first[1]["refused"])
    assert sum(len(part.runs) for part in parts_of(storage_at(taken))) == RUNS - lost

    resumed, third = place.resume(*on), place.ingest(taken)

    assert _of_campaign(resumed) == wanted
    second_result = [line for line in resumed[2].splitlines() if line.endswith("; done again")]
    assert len(second_result) == lost
    # The ingest compares a record with its row first, and `--resume` looks whether it is a record at all.
    assert all(any(words.partition(": ")[0] in line for line in second_result) for words in first[1]["refused"])
    assert (third[0], third[1]["new"], third[1]["present"], third[1]["refused"]) == (0, lost, RUNS - lost, [])
    done = f"--resume {'on Spark' if on else 'here'} did it again"
    table.append(f"record of a run     {name:32} ingest 2: {first[1]['refused'][0].split(': ', 1)[1][:60]}, {done}")


@pytest.mark.parametrize("name", ["a flipped bit", "cut off", "0 bytes"])
def test_damaged_request_of_a_campaign_is_refused(name: str, place: Place, table: list[str]) -> None:
    hurt = _hurt(f"{name} request", PLAIN[name], place.files("store/campaigns/*/request.json"))

    resumed = place.resume()

    _is_one_refusal(resumed, hurt)
    table.append(f"request.json        {name:32} --resume 2: {resumed[2].split(': ')[-1].strip()[:60]}")


# --- judgements -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULINGS)
def test_damaged_row_of_a_judge_is_judged_again(name: str, on: tuple[str, ...], place: Place, table: list[str]) -> None:
    code, wanted, _ = place.judge("--ledger", str(place.folder / "clean"))
    place.judge()
    _hurt(name, RULINGS[name], place.files("store/judged/*.json"))

    judge_result = place.judge(*on)

    assert (judge_result[0], judge_result[1]["digest"], len(judge_result[1]["runs"])) == (code, wanted["digest"], RUNS)
    assert sum(run["new"] for run in judge_result[1]["runs"]) == (2 if name == "exchanged" else 1)
    assert [run["new"] for run in place.judge()[1]["runs"]] == [False] * RUNS
    table.append(f"row of a judge      {name:32} judge {'on Spark' if on else 'here'} did it again")


@pytest.mark.parametrize("name", FILES)
def test_damaged_table_of_a_run_is_refused_by_the_judge(name: str, place: Place, table: list[str]) -> None:
    wanted = {run["run"]: run["verdict"] for run in place.judge()[1]["runs"]}
    hurt = _hurt(name, FILES[name], place.files("store/seed-*/*/events.parquet"))

    _, counts, _ = place.judge()

    verdicts = {run["run"]: run["verdict"] for run in counts["runs"]}
    changed = {run for run in wanted if wanted[run] != verdicts[run]}
    assert len(verdicts) == RUNS
    assert str(hurt.parent) in changed
    assert {verdicts[run] for run in changed} == {"refused"}
    assert len(changed) == (2 if name == "exchanged" else 1)
    assert all(re.search(f"{hurt.name}|the tables do not", run["words"]) for run in counts["runs"] if run["run"] in changed)
    table.append(f"table of a run      {name:32} judge: refused")


# --- datasets -------------------------------------------------------------------------------------------------------------------

_ASKED: tuple[tuple[str, ...], ...] = (
    ("query", "all"),
    ("query", "--sql", "select verdict, count(*) as runs from runs group by verdict"),
    ("triage",),
    ("diff", "before", "after"),
)
_FILES = {f"{name}, of a table": (damage, ("dataset/*/*/*/*.parquet",)) for name, damage in FILES.items()}
_FILES |= {f"{name}, of runs": (damage, ("dataset/runs/*/*/*.parquet",)) for name, damage in VERDICTS.items()}
_FILES |= {f"{name}, of a manifest": (damage, ("dataset/parts/*.json",)) for name, damage in PLAIN.items()}


def _sealed(change: Callable[[pa.Table], pa.Table]) -> Damage:
    """The damage of a program that writes wrong rows of runs, and a manifest that fits them."""

    def damage(draws: Rng, files: Sequence[Path]) -> Path:
        path = draws.pick(files)
        place = storage_at(path.parents[3])
        (part,) = (part for part in parts_of(place) if part.id == path.stem)
        rows = change(pq.ParquetFile(path).read())
        data = parquet.encode(rows)
        path.write_bytes(data)
        stated = dataset.File(rows=rows.num_rows, sha256=sha256(data).hexdigest())
        part = replace(part, files={**part.files, "runs": stated})
        place.write(f"parts/{part.id}.json", msgspec.json.encode(replace(part, seal=dataset._seal(part))))
        return path

    return damage


def _perhaps(rows: pa.Table) -> pa.Table:
    """The verdicts are a word that is none, and the schema is as it was."""
    return with_value(rows, "verdict", "PERHAPS").cast(rows.schema)


_SEALED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "null verdict": partial(with_value, name="verdict", value=None),
    "unknown word": _perhaps,
    "dropped column": lambda rows: rows.drop_columns(["verdict"]),
    "doubled": doubled_rows,
    "five of twelve rows": five_of_twelve_rows,
    "another seed's": lambda rows: with_value(rows, "run", "seed-99/sim-safe").cast(rows.schema),
}


def _gone(draws: Rng, manifests: Sequence[Path]) -> Path:
    """Nothing stays of a part."""
    manifest = draws.pick(manifests)
    for path in manifest.parents[1].glob(f"*/*/*/{manifest.stem}.parquet"):
        path.unlink()
    manifest.unlink()
    return manifest


_FILES["removed, of a part all files"] = (_gone, ("dataset/parts/*.json",))
_FILES |= {f"{name}, of runs, sealed": (_sealed(change), ("dataset/runs/*/*/*.parquet",)) for name, change in _SEALED.items()}


@pytest.mark.parametrize("name", _FILES)
def test_damaged_dataset_answers_nothing(name: str, on: tuple[str, ...], place: Place, table: list[str]) -> None:
    """The files are compared before Spark starts."""
    damage, patterns = _FILES[name]
    hurt = _hurt(name, damage, place.files(*patterns))

    for query in _ASKED:
        command_result = place.ask(*query, "--dataset", str(place.dataset), *on)
        if query[0] == "query" and query[1] == "--sql" and "/runs/" not in str(hurt) and hurt.suffix == ".parquet":
            assert sum(row["runs"] for row in command_result[1]["answers"][0]["rows"]) == 2 * 30
            continue  # it reads the other tables alone
        if query[0] == "triage" and command_result[0] == 0:
            assert hurt.parts[-4] not in ("runs", "verdicts")
            continue
        _is_one_refusal(command_result, hurt)
    code, told_by_verify, _ = place.ask("store", "verify", str(place.dataset))
    assert code == ExitCode.LABORATORY_FAILED
    assert any(hurt.stem in damage["name"] for damage in told_by_verify["damages"])
    if not on:
        _is_mended_and_taken_in_again(place)
    table.append(f"file of a dataset   {name:32} query, triage, diff 2, verify 13 {'on Spark' if on else 'here'}")


def _is_mended_and_taken_in_again(place: Place) -> None:
    """What `mend` sets aside is not answered for until it is there again."""
    code, mended, _ = place.ask("store", "mend", str(place.dataset))
    assert (code, mended["damages"]) == (ExitCode.VALID, [])
    lost = sum(len(part["runs"]) for part in mended["aside"])
    assert lost > 0
    assert sum(len(part.runs) for part in parts_of(storage_at(place.dataset))) == 2 * 30 - lost
    assert place.ask("diff", "before", "after", "--dataset", str(place.dataset))[0] == ExitCode.USAGE
    assert place.ask("store", "verify", str(place.dataset))[0] == ExitCode.LABORATORY_FAILED
    write_dataset(place.dataset, MADE)
    assert place.ask("store", "verify", str(place.dataset))[0] == ExitCode.VALID
    assert place.ask("diff", "before", "after", "--dataset", str(place.dataset))[0] == ExitCode.INVALID


@pytest.mark.parametrize("name", ["a flipped bit", "cut off", "0 bytes", "removed"])
def test_dataset_with_a_damaged_inventory_answers_nothing(name: str, place: Place, table: list[str]) -> None:
    hurt = _hurt(f"{name} inventory", PLAIN[name], place.files("dataset/inventory.jsonl"))

    for query in _ASKED:
        _is_one_refusal(place.ask(*query, "--dataset", str(place.dataset)), hurt)
    code, told_by_verify, _ = place.ask("store", "verify", str(place.dataset))
    assert (code, [damage["name"] for damage in told_by_verify["damages"]]) == (ExitCode.LABORATORY_FAILED, [hurt.name])
    if name != "removed":
        _is_one_refusal(place.ask("store", "mend", str(place.dataset)), hurt)
        hurt.unlink()
    assert place.ask("store", "mend", str(place.dataset))[0] == ExitCode.VALID
    assert place.ask("diff", "before", "after", "--dataset", str(place.dataset))[0] == ExitCode.INVALID
    table.append(f"inventory           {name:32} query, triage, diff 2, verify 13")


def test_dataset_without_damage_answers(on: tuple[str, ...], place: Place) -> None:
    """Otherwise the refusals above would prove nothing."""
    codes = [place.ask(*query, "--dataset", str(place.dataset), *on)[0] for query in _ASKED]

    assert codes == [0, 0, 0, ExitCode.INVALID]
    assert place.ask("store", "verify", str(place.dataset))[0] == 0


def test_at_least_fifty_damages_are_drawn() -> None:
    assert len(ROWS) + len(RECORDS) + len(RULINGS) + len(FILES) + len(_FILES) >= 50
