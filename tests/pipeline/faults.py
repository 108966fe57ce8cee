"""Damaged runs: one function for each fault, and what judging must say of it.

`NEW` faults damage a run as it is stored today. `OLD` faults damage a run whose manifest has no SHA-256 of files, so that the
checks behind it must find them: schema, words, nulls, checksums of pages, counts and the digest of the rows. `LATE` faults happen
between the listing of the runs and their judging.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from history import jsonl, store
from history.history import History

Fault = tuple[Callable[[Path], object], str]
UNREADABLE = Path("/proc/sys/vm/compact_memory")  # root, too, may not read it


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], *, compression: str = "zstd", checksums: bool = True) -> None:
    """Write changed rows under the metadata of the old file, its digest included."""
    before = pq.ParquetFile(path).read()
    after = change(before).replace_schema_metadata(before.schema.metadata)
    pq.write_table(after, path, compression=compression, use_dictionary=False, write_page_checksum=checksums)


def _with(name: str, text: str | None) -> Callable[[pa.Table], pa.Table]:
    """Set the last value of a text column."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        texts = [*table.column(name).to_pylist()[:-1], text]
        return table.set_column(at, pa.field(name, pa.string(), nullable=text is None), pa.array(texts, pa.string()))

    return change


def _flip(path: Path) -> None:
    """Flip one bit in the middle of the first page of column `f` or `kind`."""
    file = pq.ParquetFile(path)
    column = file.schema_arrow.names.index("f" if "f" in file.schema_arrow.names else "kind")
    chunk = file.metadata.row_group(0).column(column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size * 3 // 4] ^= 1
    path.write_bytes(data)


def _flip_plain(path: Path) -> None:
    rewrite(path, lambda table: table, compression="none")
    _flip(path)


def _rename_column(path: Path) -> None:
    """Give a column a name that is not UTF-8, in the two places of the footer that Parquet reads."""
    path.write_bytes(path.read_bytes().replace(b"incarnation", b"incarnatio\xff"))


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _forbid(path: Path) -> None:
    if os.geteuid():
        path.chmod(0)
        return
    path.unlink()
    path.symlink_to(UNREADABLE)


def _edit(run: Path, **changes: object) -> None:
    manifest = msgspec.json.decode((run / store.MANIFEST).read_bytes())
    store.write_file(run / store.MANIFEST, msgspec.json.encode({k: v for k, v in {**manifest, **changes}.items() if v != "gone"}))


def _journal(run: Path, *, outcome: str) -> None:
    """A journal beside the tables; its end line is missing."""
    lines = jsonl.encode(store.load_run(run)).splitlines(keepends=True)
    (run / store.JOURNAL).write_bytes(b"".join(lines[:-1]))
    _edit(run, outcome=outcome)


def _another(run: Path) -> None:
    """The tables of a run with as many rows."""
    history = store.load_run(run)
    values = [op if op.value is None else replace(op, value=f"{op.value}2") for op in history.operations]
    changed_history = History(replace(history.manifest, digest=""), operations=values, events=history.events)
    manifest = replace(changed_history.manifest, digest=changed_history.digest)
    store.save(run / "other", History(manifest, operations=changed_history.operations, events=changed_history.events))
    for name in (store.OPERATIONS, store.EVENTS):
        shutil.move(run / "other" / name, run / name)
    shutil.rmtree(run / "other")


def _operations(change: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: change(run / store.OPERATIONS)


def _events(change: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: change(run / store.EVENTS)


def _manifest(change: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda run: change(run / store.MANIFEST)


def _change(table: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda run: rewrite(run / f"{table}.parquet", change)


def _reversed(table: pa.Table) -> pa.Table:
    return table.take(list(range(table.num_rows))[::-1])


def _of_newer_schema(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    metadata = {**table.schema.metadata, b"highwater.schema_version": b"99"}
    pq.write_table(table.replace_schema_metadata(metadata), path)


_NO_PARQUET = r"not a complete Parquet file: "
NEW: dict[str, Fault] = {
    "edited-table": (
        _change("events", _reversed), r"events\.parquet: not the file of the manifest, whose SHA-256 is \w+, not \w+$",
    ),
    "tables-of-another-run": (_another, r"operations\.parquet: not the file of the manifest"),
    "bit-in-zstd-page": (_operations(_flip), r"operations\.parquet: not the file of the manifest"),
    "cut-in-half": (_events(_halve), rf"events\.parquet: {_NO_PARQUET}"),
    "missing-table": (_events(Path.unlink), r"events\.parquet: no such file"),
    "empty-table": (_operations(lambda path: path.write_bytes(b"")), rf"operations\.parquet: {_NO_PARQUET}"),
    "folder-for-a-table": (_operations(_folder), r"operations\.parquet: cannot be read: not a regular file"),
    "pipe-for-a-table": (_events(_pipe), r"events\.parquet: cannot be read: not a regular file"),
    "link-loop": (_events(_loop), r"events\.parquet: .*symbolic links"),
    "no-permission": (_events(_forbid), r"events\.parquet: .*Permission denied"),
    "one-hash-gone": (lambda run: _edit(run, files={store.EVENTS: "0"}), r"operations\.parquet: not the file of the manifest"),
    "manifest-empty": (_manifest(lambda path: path.write_bytes(b"")), r"manifest\.json: not the manifest of a run: "),
    "manifest-not-json": (_manifest(lambda path: path.write_bytes(b"\xff{]")), r"manifest\.json: not the manifest of a run: "),
    "manifest-nested": (_manifest(lambda path: path.write_bytes(b"[" * 99_999)), r"manifest\.json: not the manifest of a run: "),
    "manifest-without-outcome": (lambda run: _edit(run, outcome="gone"), r"manifest\.json: .* missing required field `outcome`"),
    "manifest-of-newer-schema": (lambda run: _edit(run, schema_version=3), r"manifest\.json: schema version 3; "),
    "manifest-of-other-counts": (lambda run: _edit(run, event_rows=1), r"the tables do not .* says 1 rows of events, they hold"),
    "manifest-of-other-digest": (lambda run: _edit(run, digest="0" * 32), r"the tables do not .* it says rows of digest 0{32}"),
    "manifest-link-loop": (_manifest(_loop), r"manifest\.json: cannot be read: Too many levels of symbolic links"),
    "manifest-is-a-folder": (_manifest(_folder), r"manifest\.json: cannot be read: not a regular file"),
    "manifest-is-a-pipe": (_manifest(_pipe), r"manifest\.json: cannot be read: not a regular file"),
    "manifest-forbidden": (_manifest(_forbid), r"manifest\.json: cannot be read: Permission denied"),
}  # fmt: skip
OLD: dict[str, Fault] = {
    "unknown-kind": (_change("events", _with("kind", "martian")), r"events\.parquet: column kind of events holds 'martian'"),
    "unknown-type": (_change("operations", _with("type", "hm")), r"operations\.parquet: column type of operations holds 'hm'"),
    "null-kind": (_change("events", _with("kind", None)), r"events\.parquet: column kind of events holds nulls"),
    "null-function": (_change("operations", _with("f", None)), r"operations\.parquet: column f of operations holds nulls"),
    "bit-in-plain-page": (_operations(_flip_plain), rf"operations\.parquet: {_NO_PARQUET}.*(CRC|checksum)"),
    "bit-in-zstd-page": (_operations(_flip), rf"operations\.parquet: {_NO_PARQUET}"),
    "rows-cut-off": (_change("events", lambda rows: rows.slice(1)), r"the tables do not .* says \d+ rows of events, they hold"),
    "tables-of-another-run": (_another, r"the tables do not .* it says rows of digest \w{32}, they hold \w{32}"),
    "column-missing": (_change("events", lambda rows: rows.drop_columns(["node"])), r"events\.parquet: column node is missing"),
    "column-unknown": (
        _change("events", lambda rows: rows.append_column("x", pa.nulls(rows.num_rows))),
        r"events\.parquet: column x of events is unknown",
    ),
    "column-not-utf8": (_events(_rename_column), rf"events\.parquet: {_NO_PARQUET}.*utf-8"),
    "tables-exchanged": (
        lambda run: shutil.copy(run / store.EVENTS, run / store.OPERATIONS), r"operations\.parquet: not the operations table",
    ),
    "table-of-newer-schema": (_events(_of_newer_schema), r"events\.parquet: schema version 99; this highwater reads 1 and 2"),
}  # fmt: skip
LATE: dict[str, Fault] = {
    "table-gone": (_events(Path.unlink), r"events\.parquet: no such file"),
    "run-gone": (shutil.rmtree, r"No such file or directory$"),
    "manifest-rewritten": (lambda run: _edit(run, wall_seconds=1.5), r"its files changed while it was judged"),
}
# No fault: what a kill left of a run whose rows were written while it was performed. The value is the outcome.
KILLED: dict[str, tuple[Callable[[Path], object], str]] = {
    "journal-beside-a-finished-run": (lambda run: _journal(run, outcome="completed"), "VALID"),
    "journal-of-an-unfinished-run": (lambda run: _journal(run, outcome="incomplete"), "UNKNOWN"),
    "unfinished-without-a-journal": (lambda run: _edit(run, outcome="incomplete"), "UNKNOWN"),
}


def store_history(folder: Path, history: History) -> Path:
    """Store a history with the digest of its rows."""
    manifest = replace(history.manifest, digest=history.digest, run_id=folder.name)
    store.save(folder, History(manifest, operations=history.operations, events=history.events))
    return folder


def stored_before_hashes(folder: Path, history: History) -> Path:
    """Store a history as versions before `files` did."""
    store_history(folder, history)
    _edit(folder, files="gone")
    return folder
