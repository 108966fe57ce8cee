"""The folder of a campaign as Spark leaves it, without performing it: blocks of rows and of records, and what can be wrong."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from highwater.campaigns.campaign import Request
from highwater.campaigns.folder import LEDGER, RECORDS, REQUEST, CampaignOrder, series_of
from highwater.campaigns.order import Order
from highwater.runs.provenance import Build
from highwater.runs.summary import Summary
from history import parquet, store
from pipeline.blocks import Blocks, Series, block_name
from pipeline.ledger import Ledger, Row
from pipeline.record import Record
from pipeline.record_file import encode, encode_block
from pipeline.stamp import present_stamp
from pipeline.storage import storage_at
from tests.pipeline.records import record

ORDER = Order(first=0, last=89, protocols=("safe", "v3"))  # 180 runs, in blocks of 2: a block is a seed


def summary_of(of: Record) -> Summary:
    """What the row of a run says, as its record has it."""
    (row,) = of.tables["runs"].to_pylist()
    names = ("seed", "plan", "plan_digest", "verdict", "live", "digest", "acked", "backend", "outcome")
    repeat = Request(protocol=of.protocol).command(row["seed"])
    return Summary(protocol=of.protocol, repeat=repeat, **{name: row[name] for name in names})


def _row(key: str, of: Record) -> Row:
    return Row(key=key, state="done", attempt=1, seconds=1.0, result=msgspec.Raw(msgspec.json.encode(summary_of(of))))


def write_campaign(folder: Path, order: Order = ORDER) -> None:
    """All runs are finished, in blocks."""
    (_, first) = next(_records(order, 0))
    commit = str(first.tables["runs"]["commit"][0].as_py())
    request = CampaignOrder(order=order, build=Build(commit=commit, dirty=False, versions={}), code=present_stamp().code)
    store.write_file(folder / REQUEST, msgspec.json.encode(request))
    total = series_of(request, "").batch().total
    for block in series(order).blocks:
        records = dict(_records(order, block))
        store.write_file(folder / RECORDS / f"{block_name(block)}.parquet", encode_block([*records.values()], [*records]))
        rows = [_row(key, of) for key, of in records.items()]
        Blocks(storage_at(folder / LEDGER)).write(block, rows, total(rows))


def put_row(folder: Path, number: int, row: Row | None = None) -> None:
    """Put a row in the place of that of a run, in its block; the run's own one if none is given."""
    key, of = list(_records(ORDER, number // 2))[number % 2]
    block = number // 2
    blocks = Blocks(storage_at(folder / LEDGER))
    rows = blocks.rows(block)
    rows[number % 2] = _row(key, of) if row is None else replace(row, key=key)
    blocks.write(block, rows)


def series(order: Order) -> Series:
    """The runs of an order."""
    return series_of(CampaignOrder(order=order, build=Build(commit="", dirty=False, versions={})), "")


def _records(order: Order, block: int) -> Iterator[tuple[str, Record]]:
    for number in series(order).numbers(block):
        trial = order.trial(number)
        yield trial.key, record(trial.seed, trial.protocol)


def spoil(folder: Path) -> int:
    """Leave two blocks unfinished, put one into rows of its own, and damage five others. Returns how many runs are refused.

    Four others are not taken in: three that are unfinished, and one that the environment lost.
    """
    blocks, ledger = Blocks(storage_at(folder / LEDGER)), Ledger(storage_at(folder / LEDGER))
    for block in (3, 89):
        (folder / LEDGER / "blocks" / f"{block_name(block)}.rows").unlink()
    for row in blocks.rows(7):
        ledger.commit(replace(row, seal=""))
    (folder / LEDGER / "blocks" / f"{block_name(7)}.rows").unlink()  # its records stay together
    key, of = next(_records(ORDER, 3))
    store.write_file(folder / RECORDS / f"{key}.parquet", encode(of))
    ledger.commit(_row(key, of))  # the other run of this block is unfinished
    late_row = next(iter(blocks.rows(11)))
    blocks.write(11, [Row(key=late_row.key, state="late", attempt=1, seconds=9.0, words="not ready"), *blocks.rows(11)[1:]])
    lost = next(iter(blocks.rows(12)))
    blocks.write(12, [Row(key=lost.key, state="lost", attempt=4, seconds=0.0, words="a full disk"), *blocks.rows(12)[1:]])
    place = folder / RECORDS
    (place / f"{block_name(20)}.parquet").unlink()  # 2 runs
    (place / f"{block_name(21)}.parquet").write_bytes(b"PAR1")  # 2 runs
    (place / f"{block_name(22)}.parquet").write_bytes((place / f"{block_name(23)}.parquet").read_bytes())  # 2 runs
    rows = folder / LEDGER / "blocks" / f"{block_name(24)}.rows"
    rows.write_bytes(rows.read_bytes().replace(b"VALID", b"INVALID"))  # 2 runs
    wrong = dict(_records(ORDER, 25))
    (key, of), *_ = wrong.items()
    cut = replace(of, tables=of.tables | {"calls": of.tables["calls"].slice(1)})
    sealed, data = (encode_block([*records.values()], [*records]) for records in (wrong, wrong | {key: cut}))
    _put_below_seals(place / f"{block_name(25)}.parquet", sealed, data)  # 1 run
    return 2 + 2 + 2 + 2 + 1


def _put_below_seals(path: Path, sealed: bytes, data: bytes) -> None:
    """Write records with the checksums of others."""
    rows = pq.read_table(pa.BufferReader(data))
    seals = pq.read_table(pa.BufferReader(sealed), columns=["seal"])["seal"]
    path.write_bytes(parquet.encode(rows.set_column(rows.column_names.index("seal"), "seal", seals)))
