"""Runs of a store that are no longer wanted, and one run as a file to send."""

import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from checkers.engine.verdict import Validity
from highwater.runs.records import verdict_of
from history import store
from history.errors import HistoryError
from history.history import History

_MIDNIGHT = (1980, 1, 1, 0, 0, 0)  # the first date that a zip file knows: the same run is the same file


class Unwanted(Struct, frozen=True, kw_only=True):
    """A stored run that may go, and its size."""

    folder: Path
    bytes: int


def old_runs(folder: Path, *, keep: int, failures: bool) -> list[Unwanted]:
    """The runs at or below a folder but the `keep` newest ones, oldest first; of failed ones only with `failures`.

    What is not finished, or has no verdict, stays: it may be being recorded, and nobody has seen how it ends.
    Raises HistoryError where no run is stored.
    """
    newest_first = sorted(store.find_runs(folder), key=lambda run: (run / store.MANIFEST).stat().st_mtime_ns, reverse=True)
    old = [run for run in newest_first[keep:] if _is_over(run) and (failures or not _has_failed(run))]
    return [Unwanted(folder=run, bytes=sum(file.stat().st_size for file in _files(run))) for run in reversed(old)]


def remove(run: Path) -> None:
    """Remove a stored run, and the folder of its plan if it is empty then."""
    shutil.rmtree(run)
    if not any(run.parent.iterdir()):
        run.parent.rmdir()


def write_zip(run: Path, out: Path) -> int:
    """Write all files of a stored run into a zip file, in one folder named as the run. Returns their number.

    The bytes follow from the run alone. Raises HistoryError where the folder is no stored run.
    """
    store.load_manifest(run)
    files = _files(run)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{run.resolve().name}/{file.relative_to(run).as_posix()}", _MIDNIGHT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return len(files)


def _files(run: Path) -> Sequence[Path]:
    return sorted(_below(run))


def _below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _is_over(run: Path) -> bool:
    try:
        return store.is_finished(run) and (run / store.VERDICT).exists()
    except HistoryError:
        return False


def _has_failed(run: Path) -> bool:
    try:
        verdict = verdict_of(run, History(store.load_manifest(run)))
    except HistoryError:
        return True  # damaged files are kept, so that somebody can look
    return verdict.validity is not Validity.VALID or verdict.live is False
