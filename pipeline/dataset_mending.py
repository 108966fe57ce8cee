"""Setting damaged parts of a dataset aside, so that their runs can be taken in again.

A part that is not as it was written goes, and the inventory keeps its runs (`pipeline.inventory`): until all are there again,
nothing is read from their campaign. So a mended dataset answers as before or not at all. Whole parts are not touched.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from pipeline import inventory
from pipeline.dataset import MANIFESTS, Part, is_of_a_part, list_parts, live, manifest_at, manifest_names, runs_by_campaign
from pipeline.errors import DamagedError, GoneError, PipelineError
from pipeline.inventory import Listed
from pipeline.owner import owned
from pipeline.storage import Storage
from pipeline.verification import Damage, damages_of, verify


class Mended(NamedTuple):
    """The parts that are set aside or gone, with those of their runs that no other part has; and the damage that stays."""

    aside: tuple[Listed, ...]
    left: tuple[Damage, ...]


def mend(storage: Storage) -> Mended:
    """Set the damaged parts of a dataset aside.

    A part stays if neither the inventory nor one of its files proves which runs it had. Raises PipelineError where the inventory
    is damaged or the dataset is of another version, and as `owned` does.
    """
    with owned(storage):
        parts, damaged = _whole_and_damaged(storage)
        listed = inventory.lines(storage) or {}
        files = _files_by_part(storage)
        known = [of for part in damaged if (of := _runs_of(storage, part, listed, files.get(part, ()))) is not None]
        list_parts(storage, parts, known, anew=True)
        for of in known:
            # The manifest goes first: a manifest always names files that are there.
            storage.delete([f"{MANIFESTS}{of.part}.json", *files.get(of.part, ())])
        runs = runs_by_campaign(parts)
        missing = {part: inventory.listed(line) for part, line in (inventory.lines(storage) or {}).items()}
        set_aside = {of.part: of for of in known} | {
            part: of for part, of in missing.items() if part not in {of.id for of in parts}
        }
        aside = tuple(inventory.still_missing(of, runs) for _, of in sorted(set_aside.items()))
    told = {f"{MANIFESTS}{of.part}.json" for of in aside}
    return Mended(aside, tuple(damage for damage in verify(storage) if damage.name not in told))


def _runs_of(storage: Storage, part: str, listed: Mapping[str, bytes], files: Sequence[str]) -> Listed | None:
    """The runs of a damaged part, as the inventory, one of its files or its manifest proves them; None if none does."""
    if part in listed:
        return inventory.listed(listed[part])
    return inventory.proven(storage, part, files) or _stated(storage, part)


def _whole_and_damaged(storage: Storage) -> tuple[list[Part], list[str]]:
    """The parts that are as they were written, and the ids of all others: also of those with files and no manifest."""
    readable: list[Part] = []
    damaged = set[str]()
    for name in manifest_names(storage):
        try:
            readable.append(manifest_at(storage, name))
        except (DamagedError, GoneError):
            damaged.add(PurePosixPath(name).stem)
    known = {part.id for part in readable}
    whole: dict[str, bool] = {}
    while True:
        current = live(storage, readable)
        whole = {part.id: part.id in whole or not damages_of(storage, part) for part in current}
        if all(whole.values()):
            break
        # Without a damaged part the parts that it had taken over count again, and may be damaged, too.
        damaged |= {part for part in whole if not whole[part]}
        readable = [part for part in readable if whole.get(part.id, True)]
        whole = {part: True for part in whole if whole[part]}
    # Parts that a whole one has taken over are swept by the next ingest.
    return current, sorted(damaged | (set(_files_by_part(storage)) - known))


def _files_by_part(storage: Storage) -> dict[str, list[str]]:
    """The files of tables, by the id of their part."""
    files: dict[str, list[str]] = {}
    for name in storage.names():
        if is_of_a_part(name) and not name.startswith(MANIFESTS):
            files.setdefault(PurePosixPath(name).stem, []).append(name)
    return files


def _stated(storage: Storage, part: str) -> Listed | None:
    """The runs that a whole manifest says and that give the part its name; None if there is no such manifest."""
    try:
        manifest = manifest_at(storage, f"{MANIFESTS}{part}.json")
    except PipelineError:
        return None
    gives_name = part == inventory.part_id(manifest.campaign, manifest.protocol, manifest.runs)
    return (
        Listed(part=part, campaign=manifest.campaign, protocol=manifest.protocol, runs=tuple(sorted(manifest.runs)))
        if gives_name
        else None
    )


def words_of(aside: Sequence[Listed]) -> list[str]:
    """What was set aside, and what is to be done about it, by campaign."""
    runs: dict[str, int] = {}
    for part in aside:
        runs[part.campaign] = runs.get(part.campaign, 0) + len(part.runs)
    lines = []
    for campaign, count in sorted(runs.items()):
        parts = sum(part.campaign == campaign for part in aside)
        again = f"; take them in again: highwater store ingest SOURCE --campaign {campaign}" if count else ""
        lines.append(f"campaign {campaign}: {parts} parts set aside, {count} runs are in no other part{again}")
    return lines
