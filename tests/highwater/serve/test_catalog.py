"""What `highwater serve` reads of a store, and that it survives whatever happens to it meanwhile."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity, Verdict, more_of_kind
from highwater.campaigns.folder import CampaignOrder
from highwater.campaigns.order import Order
from highwater.runs.provenance import Build
from highwater.serve.catalog import Catalog, Snapshot
from highwater.serve.listing import Query, listing, matrix, query_in, side_by_side
from history import store
from history.manifest import SystemFacts
from pipeline.blocks import Blocks
from pipeline.ledger import Ledger, Row
from pipeline.storage import storage_at
from tests.highwater.serve.stores import LOST, VALID, put
from tests.strategies import MANIFEST


def _snapshot_of(root: Path) -> Snapshot:
    return Catalog(root).refresh()


def _campaign(root: Path, name: str, runs: int) -> Path:
    order = Order(
        first=1, last=runs, protocols=("safe",), mixes=((),), profile="within", seconds=None, workload="mixed", backend="sim",
        system="", keep_all=False, branches=False, generation=0,
    )  # fmt: skip
    folder = root / "campaigns" / name
    campaign_order = CampaignOrder(order=order, build=Build(commit="", dirty=False, versions={}))
    store.write_file(folder / "request.json", msgspec.json.encode(campaign_order))
    return folder


def test_catalog_lists_stored_runs_and_those_of_campaigns(tmp_path: Path) -> None:
    """A campaign keeps the folders of failed runs only; its summaries have all."""
    put(tmp_path, LOST)
    folder = _campaign(tmp_path, "one", 2)
    kept_summary = replace(LOST, store="seed-2/sim-1")
    store.write_file(folder / "runs.jsonl", b"".join(msgspec.json.encode(summary) + b"\n" for summary in (VALID, kept_summary)))
    snapshot = _snapshot_of(tmp_path)

    assert sorted((run.name, run.folder, run.campaign) for run in snapshot.runs) == [
        ("seed-1 on safe", "", "one"),
        ("seed-2 on v3 with crash", "seed-2/sim-1", "one"),
    ]
    (campaign,) = snapshot.campaigns
    assert (campaign.name, campaign.finished, campaign.wanted, campaign.running) == ("one", 2, 2, False)


def test_running_campaign_is_read_from_its_ledger(tmp_path: Path) -> None:
    folder = _campaign(tmp_path, "one", 3)
    ledger = Ledger(storage_at(str(folder / "ledger")))
    catalog = Catalog(tmp_path)
    ledger.commit(Row(key="a", state="done", attempt=1, seconds=1.0, result=msgspec.Raw(msgspec.json.encode(VALID))))
    first = catalog.refresh()
    ledger.commit(Row(key="b", state="done", attempt=1, seconds=1.0, result=msgspec.Raw(msgspec.json.encode(LOST))))
    ledger.commit(Row(key="c", state="late", attempt=1, seconds=1.0, words="deadline"))
    second = catalog.refresh()

    assert [(campaign_row.finished, campaign_row.wanted, campaign_row.running) for campaign_row in first.campaigns] == [
        (1, 3, True)
    ]
    assert [campaign_row.verdicts for campaign_row in second.campaigns] == [(("INVALID", 1), ("VALID", 1))]
    assert second.version > first.version


def test_running_campaign_on_spark_is_read_from_its_blocks(tmp_path: Path) -> None:
    folder = _campaign(tmp_path, "one", 3)
    results = [msgspec.Raw(msgspec.json.encode(summary)) for summary in (VALID, LOST)]
    rows = [Row(key=str(n), state="done", attempt=1, seconds=1.0, result=result) for n, result in enumerate(results)]
    Blocks(storage_at(str(folder / "ledger"))).write(0, rows)

    (campaign_row,) = Catalog(tmp_path).refresh().campaigns

    assert (campaign_row.finished, campaign_row.verdicts) == (2, (("INVALID", 1), ("VALID", 1)))


def test_store_of_a_chaos_job_below_a_store_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "chaos", LOST)
    lines = msgspec.json.encode(replace(LOST, store="seed-2/sim-1")) + b"\n" + msgspec.json.encode(VALID) + b"\n"
    store.write_file(tmp_path / "chaos" / "runs.jsonl", lines)

    assert sorted(run.folder for run in _snapshot_of(tmp_path).runs) == ["", "chaos/seed-2/sim-1"]


def test_run_without_a_summary_is_read_from_its_verdict(tmp_path: Path) -> None:
    folder = put(tmp_path, VALID)
    (folder / "summary.json").unlink()
    verdict = Verdict(
        validity=Validity.UNKNOWN, live=None, anomalies=(), excused=(), cuts=(), unchecked=("too short",), not_live=(), counts={}
    )
    store.write_file(folder / store.VERDICT, msgspec.json.encode(verdict))
    (run,) = _snapshot_of(tmp_path).runs

    assert (run.verdict, run.words, run.protocol) == ("UNKNOWN", ("too short",), MANIFEST.protocol)


def test_anomalies_that_words_count_are_counted(tmp_path: Path) -> None:
    """A checker lists three of a kind and counts the others."""
    first = LOST.anomalies[0]
    put(tmp_path, replace(LOST, anomalies=(first, replace(first, words=f"{first.words}{more_of_kind(4)}"))))
    (run,) = _snapshot_of(tmp_path).runs

    assert run.kinds == (("lost-write", 6),)


def test_campaign_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    """Its rows have the names of the rows before; a pass may miss the moment in which there is none."""
    folder = _campaign(tmp_path, "one", 2)
    ledger = Ledger(storage_at(str(folder / "ledger")))
    catalog, snapshot = Catalog(tmp_path), list[str]()
    for number, run in enumerate((LOST, VALID)):
        ledger.commit(Row(key="s1", state="done", attempt=1, seconds=1.0, result=msgspec.Raw(msgspec.json.encode(run))))
        os.utime(folder / "request.json", ns=(number, number))
        snapshot += [run.verdict for run in catalog.refresh().runs]

    assert snapshot == ["INVALID", "VALID"]


def test_system_without_a_version_has_its_name_alone(tmp_path: Path) -> None:
    folder = put(tmp_path, VALID)
    (folder / "summary.json").unlink()
    store.write_file(folder / store.MANIFEST, store.encode_manifest(replace(MANIFEST, system=SystemFacts(name="toy"))))
    (run,) = _snapshot_of(tmp_path).runs

    assert (run.protocol, run.repeat) == ("toy", f"highwater replay {folder}")


def test_run_that_is_being_written_is_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "seed-9" / "sim-9"
    store.write_file(folder / store.MANIFEST, store.encode_manifest(replace(MANIFEST, outcome="incomplete")))

    assert [(run.verdict, run.words) for run in _snapshot_of(tmp_path).runs] == [("UNKNOWN", ("the run is incomplete",))]


def test_catalog_follows_runs_that_come_change_and_go(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    put(tmp_path, VALID)
    first = catalog.refresh()
    put(tmp_path, replace(VALID, verdict="UNKNOWN"))
    put(tmp_path, LOST)
    second = catalog.refresh()
    shutil.rmtree(tmp_path / "seed-1")
    third = catalog.refresh()

    assert [[(run.folder, run.verdict) for run in this_snapshot.runs] for this_snapshot in (first, second, third)] == [
        [("seed-1/sim-1", "VALID")],
        [("seed-1/sim-1", "UNKNOWN"), ("seed-2/sim-1", "INVALID")],
        [("seed-2/sim-1", "INVALID")],
    ]
    assert catalog.refresh().version == third.version


def test_damaged_files_are_counted_and_left_out(tmp_path: Path) -> None:
    put(tmp_path, VALID)
    store.write_file(put(tmp_path, LOST) / "summary.json", b'{"seed": ')
    store.write_file(_campaign(tmp_path, "one", 2) / "runs.jsonl", b"no summary\n")
    store.write_file(tmp_path / "campaigns" / "two" / "request.json", b"[]")
    snapshot = _snapshot_of(tmp_path)

    assert ([run.folder for run in snapshot.runs], snapshot.refused) == (["seed-1/sim-1"], 3)


def test_links_and_strange_names_are_not_part_of_the_store(tmp_path: Path) -> None:
    """Whoever writes a store decides what lies in it, and not what else this machine shows."""
    outside = put(tmp_path / "outside", LOST)
    root = tmp_path / "store"
    inside = put(root, VALID)
    os.symlink(outside.parent, root / "seed-2")
    os.symlink("/etc/hostname", inside / "junit.xml")
    put(root, replace(LOST, plan="<b>"))
    snapshot = _snapshot_of(root)

    assert [run.folder for run in snapshot.runs] == ["seed-1/sim-1"]
    assert "junit.xml" not in snapshot.files["seed-1/sim-1"]


def test_empty_store_has_no_runs(tmp_path: Path) -> None:
    snapshot = _snapshot_of(tmp_path)
    assert (snapshot.runs, snapshot.campaigns, snapshot.read) == ((), (), True)


# --- lists --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root = tmp_path_factory.mktemp("store")
    put(root, VALID)
    put(root, LOST)
    put(root, replace(VALID, plan="seed-3", live=False, acked=20, not_live=("t-0 has no leader",)))
    return _snapshot_of(root)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(), ["seed-2", "seed-3", "seed-1"]),
        (Query(q="V3 lost"), ["seed-2"]),
        (Query(q="no leader"), ["seed-3"]),
        (Query(protocol="safe"), ["seed-3", "seed-1"]),
        (Query(mix="crash"), ["seed-2"]),
        (Query(mix="(default)", verdict="VALID"), ["seed-3", "seed-1"]),
        (Query(verdict="not live"), ["seed-3"]),
        (Query(kind="lost-write"), ["seed-2"]),
        (Query(signature="lost-write/acked-loss/truncate"), ["seed-2"]),
        (Query(sort="acked"), ["seed-1", "seed-3", "seed-2"]),
        (Query(sort="acked", down=True), ["seed-2", "seed-3", "seed-1"]),
        (Query(q="nothing like it"), []),
    ],
)
def test_list_has_the_runs_that_were_asked_for(query: Query, names: list[str], snapshot: Snapshot) -> None:
    assert [run.name.split()[0] for run in listing(snapshot.runs, query).runs] == names


def test_address_of_a_list_is_read_back() -> None:
    query = Query(q="a&b=ü", protocol="v3", sort="acked", down=True, page=3)
    from urllib.parse import parse_qsl

    assert query_in(dict(parse_qsl(query.address(page=3)[1:]))) == query


@pytest.mark.parametrize(
    "given", [{"page": "0"}, {"page": "-1"}, {"page": "x"}, {"page": "٣" * 9}, {"sort": "__class__"}, {"x": "1"}]
)
def test_nonsense_in_an_address_is_ignored(given: dict[str, str]) -> None:
    assert query_in(given) == Query()


def test_page_beyond_the_last_shows_the_last(snapshot: Snapshot) -> None:
    many = [replace(snapshot.runs[0], key=str(number)) for number in range(250)]
    listing_found = listing(many, Query(page=99))

    assert (listing_found.query.page, listing_found.pages, len(listing_found.runs), listing_found.found) == (3, 3, 50, 250)


def test_matrix_counts_verdicts_by_protocol_and_mix(snapshot: Snapshot) -> None:
    matrix_found = matrix(snapshot.runs)

    assert matrix_found.mixes == ("(default)", "crash")
    assert [
        (protocol, [cell and (cell.runs, cell.invalid, cell.bad) for cell in cells]) for protocol, cells in matrix_found.rows
    ] == [
        ("safe", [(2, 0, 1), None]),
        ("v3", [None, (1, 1, 0)]),
    ]


def test_two_runs_are_compared_line_by_line(snapshot: Snapshot) -> None:
    run, run_beside = (snapshot.by_key[key] for key in ("seed-1/sim-1", "seed-2/sim-1"))
    rows = {what: (left, right, differ) for what, left, right, differ in side_by_side(run, run_beside)}

    assert rows["verdict"] == ("VALID", "INVALID", True)
    assert rows["anomaly lost-write"] == ("0", "2", True)
    assert rows["fault pause"] == ("begun 2, acted 1", "begun 2, acted 1", False)
