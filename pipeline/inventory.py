"""The runs that a dataset must have, written down a second time: what is gone with all of its files is missed.

    DATASET/inventory.jsonl    a checksum of the other lines; then a line for each part, with its runs

Who owns the dataset writes it whole, after the manifests of new parts, and before files of damaged ones go. So it never names a
run that the dataset did not have, and a run of it that no part has is lost: until it is there again, nothing is read from its
campaign. A part is named by a digest of its campaign, its protocol and its runs; so each line proves itself, and so does each of
a part's files that has a row of each run, whatever its manifest says or does not say.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import PurePosixPath

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from history.errors import NOT_JSON
from pipeline.errors import DamagedError
from pipeline.storage import Storage
from pipeline.tables import HIVE

NAME = "inventory.jsonl"
_ANEW = "`highwater store mend` lists the parts that are there; take in each campaign again then, lest a run be missing"
MISSING = f"missing, though parts were written beside it: is the dataset copied in part? {_ANEW}"
_READABLE = (OSError, ValueError, KeyError, TypeError, pa.ArrowException)


class Listed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The runs of a part, sorted."""

    part: str
    campaign: str
    protocol: str
    runs: tuple[str, ...]


class _Id(Struct, frozen=True):
    part: str


class _Head(Struct, frozen=True):
    seal: str


def part_id(campaign: str, protocol: str, runs: Iterable[str]) -> str:
    """The name of a part with these runs."""
    return blake2b("\n".join((campaign, protocol, *sorted(runs))).encode(), digest_size=8).hexdigest()


def proven(storage: Storage, part: str, files: Iterable[str]) -> Listed | None:
    """The runs of a part that one of its files proves; None if none does."""
    for name in sorted(files):
        folders = dict(folder.split("=", 1) for folder in PurePosixPath(name).parent.parts if "=" in folder)
        try:
            campaign, protocol = (folders[column] for column in HIVE)
            column = pq.read_table(pa.BufferReader(storage.read(name)), columns=["run"], use_threads=False)["run"]
            runs = sorted(map(str, column.unique().to_pylist()))
        except _READABLE:
            continue
        if part == part_id(campaign, protocol, runs):
            return Listed(part=part, campaign=campaign, protocol=protocol, runs=tuple(runs))
    return None


def lines(storage: Storage) -> dict[str, bytes] | None:
    """The lines of the inventory by part; None if there is none. Raises DamagedError where it is not as it was written."""
    try:
        head, _, rest = storage.read(NAME).partition(b"\n")
        if msgspec.json.decode(head, type=_Head).seal != _seal(rest):
            raise ValueError("its checksum is another")
        return {msgspec.json.decode(line, type=_Id).part: line for line in rest.splitlines()}
    except FileNotFoundError:
        return None
    except (OSError, *NOT_JSON, ValueError) as error:
        raise DamagedError(f"{storage.path(NAME)}: not as it was written: {error}; delete it: {_ANEW}") from error


def listed(line: bytes) -> Listed:
    """What a line says."""
    return msgspec.json.decode(line, type=Listed)


def line_of(listed: Listed) -> bytes:
    """The line of a part."""
    return msgspec.json.encode(listed)


def write(storage: Storage, lines: Mapping[str, bytes]) -> None:
    """Write the inventory with these lines, by part."""
    rest = b"".join(lines[part] + b"\n" for part in sorted(lines))
    storage.write(NAME, msgspec.json.encode(_Head(_seal(rest))) + b"\n" + rest)


def _seal(lines: bytes) -> str:
    return blake2b(lines, digest_size=8).hexdigest()


def still_missing(listed: Listed, runs: Mapping[str, Sequence[str]]) -> Listed:
    """Those of its runs alone that its campaign has not now. `runs`: those of each campaign."""
    present = set(runs.get(listed.campaign, ()))
    return replace(listed, runs=tuple(run for run in listed.runs if run not in present))


def words_of(lost: Listed) -> str:
    """What is to be done about lost runs."""
    few = ", ".join(lost.runs[:2]) + (", ..." if len(lost.runs) > 2 else "")
    return (
        f"missing: {len(lost.runs)} runs of campaign {lost.campaign} are lost ({few}): take them in again from its folder, "
        f"highwater store ingest SOURCE --campaign {lost.campaign}; to give them up, delete {NAME} and mend"
    )
