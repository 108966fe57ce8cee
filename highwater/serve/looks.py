"""The states around any row of a stored simulated run: the run is performed again up to there, one look at a time.

The last run that was looked into stays where it stands, so that a later row of it costs only what lies between.
"""

from pathlib import Path
from threading import Lock

from highwater.errors import UsageError
from highwater.inspect.rows import opened, states_at
from highwater.inspect.session import Session
from history import store
from reports.states import RowStates


class Looks:
    """Looks into the runs of a store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._run: tuple[Path, int] | None = None  # the folder of the last run, and when its manifest was written
        self._session: Session | None = None

    def around(self, folder: Path, index: int) -> RowStates:
        """The states around a row of the run in a folder.

        UsageError or HistoryError if it cannot be read or performed again, or if the present code makes other rows.
        """
        with self._lock:
            run = folder, (folder / store.MANIFEST).stat().st_mtime_ns
            if run != self._run or self._session is None:
                self._leave()
                self._session, self._run = opened(_plan_of(folder), store.load_run(folder)), run
            try:
                return states_at(self._session, index)
            except Exception:
                self._leave()
                raise

    def _leave(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = self._run = None


def _plan_of(folder: Path) -> str:
    try:
        return (folder / store.PLAN).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"its {store.PLAN} cannot be read") from error
