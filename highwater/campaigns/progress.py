"""How far a campaign is, read from its folder: the request says how many runs there are, the ledger which are finished.

Nothing is asked of the process that performs the campaign, so any number of observers on any machine can look, also afterwards.
The rate is that of the runs that finished last: the beginning of a campaign is slower than the rest.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from pyarrow import fs

from highwater.campaigns.folder import LEDGER, REQUEST, order_in
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.summary import Summary
from pipeline.blocks import SUFFIX as BLOCK
from pipeline.blocks import rows_of_block
from pipeline.ledger import SUFFIX as ROW
from pipeline.ledger import Row, row_of
from pipeline.storage import Storage, below, storage_at

FAILURES_SHOWN = 5
_RATED = 200  # finished runs that give the rate


class Failure(Struct, frozen=True, kw_only=True):
    """A finished run that is not VALID and live, or an item without a run; `repeat` is empty for the latter."""

    key: str
    words: str
    repeat: str = ""


class Status(Struct, frozen=True, kw_only=True):
    """How far a campaign is. `failures` holds the latest ones, the last first."""

    wanted: int
    finished: int
    verdicts: dict[str, int]
    not_live: int
    lost: int  # items that ended without a summary: their worker died, or they met the deadline
    runs_per_minute: float | None  # None before two runs are finished
    eta_s: float | None
    idle_s: float | None  # since the last run finished
    failures: tuple[Failure, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all runs are finished."""
        return self.finished >= self.wanted


class CampaignProgress:
    """Reads the folder of a campaign again and again. Each row of the ledger is read once."""

    def __init__(self, campaign: str) -> None:
        """Open STORE/campaigns/NAME, a folder or a URI. Raises UsageError where it is no campaign."""
        self._storage = storage_at(campaign)
        self._runs_wanted_in_all = _runs_wanted(self._storage)
        self._rows = storage_at(below(campaign, LEDGER))
        self._names_seen: set[str] = set()  # names of rows and of blocks
        self._runs_stored_at: list[tuple[datetime, int]] = []  # when so many runs were stored together
        self._verdicts: Counter[str] = Counter()
        self._not_live = self._lost = 0
        self._failures: list[Failure] = []

    def status(self, now: datetime | None = None) -> Status:
        """Read the rows that are new and say how far the campaign is. A damaged row is a failure, and its run not finished."""
        now = now or datetime.now(UTC)
        damaged: list[Failure] = []
        for name, at in sorted(self._new(), key=lambda entry: (entry[1], entry[0])):
            file = name.rpartition("/")[2]
            key = file.rpartition(".")[0]
            try:
                text = self._rows.read(name)
                rows = [row_of(key, text)] if name.endswith(ROW) else rows_of_block(file, text)
            except (OSError, ValueError) as error:
                damaged.append(Failure(key=key, words=f"{self._rows.path(name)}: {error}; --resume does it again"))
                continue
            self._names_seen.add(name)
            self._runs_stored_at.append((at, len(rows)))
            for row in rows:
                self._count_row(row)
        self._runs_stored_at = sorted(self._runs_stored_at)
        finished = sum(count for _, count in self._runs_stored_at)
        per_second = _runs_per_second(self._runs_stored_at)
        runs_left = max(self._runs_wanted_in_all - finished, 0)
        return Status(
            wanted=self._runs_wanted_in_all,
            finished=finished,
            verdicts=dict(sorted(self._verdicts.items())),
            not_live=self._not_live,
            lost=self._lost,
            runs_per_minute=None if per_second is None else round(60 * per_second, 1),
            eta_s=None if per_second is None else round(runs_left / per_second, 1),
            idle_s=round((now - self._runs_stored_at[-1][0]).total_seconds(), 1) if self._runs_stored_at else None,
            failures=(*damaged, *reversed(self._failures[-FAILURES_SHOWN:]))[:FAILURES_SHOWN],
        )

    def _new(self) -> list[tuple[str, datetime]]:
        files = self._rows.filesystem.get_file_info(fs.FileSelector(self._rows.root, recursive=True, allow_not_found=True))
        named = ((file.path.removeprefix(f"{self._rows.root}/"), file.mtime) for file in files)
        return [(name, at) for name, at in named if _is_result(name) and name not in self._names_seen]

    def _count_row(self, row: Row) -> None:
        """Take in a row of the ledger."""
        key = row.key
        if row.state != "done":
            self._lost += 1
            self._failures.append(Failure(key=key, words=f"{row.state}: {row.words}"))
            return
        summary = msgspec.json.decode(row.result, type=Summary)
        self._verdicts[summary.verdict] += 1
        self._not_live += summary.live is False
        if summary.exit_code is not ExitCode.VALID:
            reasons = (*(a.words for a in summary.anomalies), *summary.not_live, *summary.unchecked, summary.failure or "")
            words = f"{summary.words}: {next(filter(None, reasons), '')}"
            self._failures.append(Failure(key=key, words=words, repeat=summary.repeat))


def _runs_wanted(storage: Storage) -> int:
    """The number of runs that were asked for."""
    try:
        return order_in(storage).order.runs
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{storage.location}: not a campaign: it has no {REQUEST} (STORE/campaigns/NAME)") from None


def _is_result(name: str) -> bool:
    """Whether a file of the ledger is a row or a block, and finished: unfinished ones are hidden."""
    return name.endswith((ROW, BLOCK)) and not name.rpartition("/")[2].startswith(".")


def _runs_per_second(runs_at: Sequence[tuple[datetime, int]]) -> float | None:
    """Runs per second among the last `_RATED` that were stored at these times; None for fewer than two different times."""
    last, runs = len(runs_at), 0
    while last and runs < _RATED:
        last -= 1
        runs += runs_at[last][1]
    rated = runs_at[last:]
    if len(rated) < 2 or rated[0][0] == rated[-1][0]:
        return None
    return (runs - rated[0][1]) / (rated[-1][0] - rated[0][0]).total_seconds()
