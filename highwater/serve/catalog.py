"""What a store holds: its runs and campaigns, read again whenever a folder or a file has changed.

    STORE/<plan>/<run id>/      a stored run: summary.json, or manifest.json and verdict.json
    STORE/campaigns/<name>/     a campaign: runs.jsonl when it has ended, its ledger while it runs
    STORE/runs.jsonl            the runs of a chaos job; a store may also hold such a store (store/chaos)

One thread reads; pages are made of the last `Snapshot`, which never changes, so a page waits for no disk. Files of a run are
replaced by renaming, which changes the time of its folder: a folder with the same time is not read again. Folders and files that
are damaged or vanish meanwhile are counted and left out. Symbolic links are not followed: the store is what lies below its root.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time_ns

import msgspec
from msgspec import Struct

from checkers.engine.verdict import Verdict, counts
from highwater.campaigns.folder import LEDGER, REQUEST, CampaignOrder
from highwater.campaigns.pages import BRANCHES, CAUSES, INDEX, JUNIT, RUNS
from highwater.plans.systems import words_of
from highwater.runs.findings import VALIDITY_NAMES
from highwater.runs.run import SUMMARY
from highwater.runs.summary import Summary
from history import store
from history.manifest import FaultCount, RunManifest
from pipeline.blocks import FOLDER as BLOCKS
from pipeline.blocks import SUFFIX as BLOCK
from pipeline.blocks import rows_of_block
from pipeline.ledger import SUFFIX as ROW
from pipeline.ledger import row_of

_BESIDE = re.compile(r"beside-[A-Za-z0-9._-]{1,128}\.html")  # pages of a run beside another one
_DEEP = 3  # folders between the store and a run's plan
_EVERY_S = 2.0
_SETTLED_NS = 2_000_000_000
_UNSETTLED = (-2,)
_UNSEEN = ("ledger", "records", "shrunk", "operations", "events")  # folders that hold no runs
_ORDER = {"INVALID": 0, "harness failed": 1, "UNKNOWN": 2, "VALID": 3}


class Run(Struct, frozen=True, kw_only=True):
    """One run as the pages show it. `folder` is relative to the store, or "" if only its summary was kept."""

    key: str  # of its page
    name: str
    folder: str
    protocol: str
    mix: str
    verdict: str  # VALID, UNKNOWN, INVALID or "harness failed"
    live: bool | None
    kinds: tuple[tuple[str, int], ...]
    words: tuple[str, ...]
    signature: str
    cause: str
    acked: int
    leader_changes: int
    faults: tuple[FaultCount, ...]
    sim_seconds: float
    wall_seconds: float
    digest: str
    repeat: str
    campaign: str
    changed_ns: int
    files: tuple[str, ...]
    text: str  # what the search looks into, in lower case

    @property
    def rank(self) -> tuple[int, bool]:
        """Worst first."""
        return _ORDER.get(self.verdict, 1), self.live is not False


class CampaignRow(Struct, frozen=True, kw_only=True):
    """A campaign of the store. `finished` of `wanted` runs; `verdicts` counts them."""

    name: str
    folder: str
    wanted: int
    finished: int
    verdicts: tuple[tuple[str, int], ...]
    running: bool
    files: tuple[str, ...]
    begun_ns: int = 0  # 0 where no request tells it
    commit: str = ""


class Snapshot(Struct, frozen=True, kw_only=True):
    """What was read of the store. `version` grows with each change; `read` is false until the store was read once."""

    version: int = 0
    read: bool = False
    runs: tuple[Run, ...] = ()
    campaigns: tuple[CampaignRow, ...] = ()
    refused: int = 0  # folders and files that cannot be read
    by_key: dict[str, Run] = {}
    files: dict[str, frozenset[str]] = {}  # folder -> the files of it that are shown


_Shower = Callable[..., None]
_Cache = dict[str, tuple[tuple[int, ...], tuple[Run, ...]]]  # times of a folder or file, and the runs that were read there


class Catalog:
    """Reads a store in a thread of its own, as long as somebody looks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.snapshot = Snapshot()
        self._cache: _Cache = {}
        self._asked_at_s = monotonic()
        self._stop = Event()
        self._lock = Lock()
        self._thread: Thread | None = None

    def __enter__(self) -> "Catalog":
        self._thread = Thread(target=self._follow, name="catalog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> Snapshot:
        """The last snapshot; the store is read again soon."""
        self._asked_at_s = monotonic()
        return self.snapshot

    def refresh(self) -> Snapshot:
        """Read what has changed, now."""
        with self._lock:
            reading = _Reading(self.root, self._cache, self._stop.is_set, self._publish)
            runs, campaigns = reading.read()
            if not self._stop.is_set():
                self._cache = reading.fresh
                self._publish(runs, campaigns, reading.refused, read=True)
            return self.snapshot

    def _follow(self) -> None:
        while not self._stop.is_set():
            if monotonic() - self._asked_at_s < 10 * _EVERY_S or not self.snapshot.read:
                self.refresh()
            self._stop.wait(_EVERY_S)

    def _publish(self, runs: list[Run], campaigns: list[CampaignRow], refusal: int, *, read: bool) -> None:
        """Make a new snapshot if anything has changed."""
        before = self.snapshot
        if read and before.read and (before.refused, list(before.runs), list(before.campaigns)) == (refusal, runs, campaigns):
            return
        self.snapshot = Snapshot(
            version=before.version + 1,
            read=read,
            runs=tuple(runs),
            campaigns=tuple(campaigns),
            refused=refusal,
            by_key={run.key: run for run in runs},
            files={
                **{run.folder: frozenset(run.files) for run in runs if run.files},
                **{campaign.folder: frozenset(campaign.files) for campaign in campaigns if campaign.files},
            },
        )


class _Reading:
    """One pass over a store. What has not changed since the last one is taken from its cache."""

    def __init__(self, root: Path, cache: _Cache, stopped: Callable[[], bool], show: _Shower) -> None:
        self.fresh: _Cache = {}
        self.refused = 0
        self._root = root
        self._cache = cache
        self._stopped = stopped
        self._publish = show
        self._first = not cache
        self._shown = monotonic()
        self._campaigns: list[CampaignRow] = []
        self._stored: dict[str, Run] = {}
        self._kept_runs: list[Run] = []  # of summaries

    def read(self) -> tuple[list[Run], list[CampaignRow]]:
        """The runs, each once, and the campaigns."""
        for folder, names in _folders(self._root):
            if self._stopped():
                break
            self._read_folder(folder, names)
            if self._first and monotonic() - self._shown > 1:  # a large store is shown while it is read
                self._shown = monotonic()
                self._publish(self._joined_runs(), list(self._campaigns), self.refused, read=False)
        return self._joined_runs(), sorted(self._campaigns, key=lambda campaign: (not campaign.running, campaign.name))

    def _joined_runs(self) -> list[Run]:
        """A run with a folder that a campaign lists is one run."""
        runs = dict(self._stored)
        alone = []
        for run in self._kept_runs:
            stored = runs.get(run.folder)
            if stored is None:
                alone.append(run)
            else:
                runs[run.folder] = msgspec.structs.replace(stored, campaign=run.campaign)
        return [*runs.values(), *alone]

    def _read_folder(self, folder: str, names: frozenset[str]) -> None:
        """Read a folder if it is a run, a campaign or the runs of the chaos job."""
        if store.MANIFEST in names:
            for run in self._cached_runs(folder, _times(self._root / folder), lambda: (_stored_run(self._root, folder, names),)):
                self._stored[folder] = run
        elif REQUEST in names:
            self._read_campaign(folder, names)
        elif RUNS in names:
            path, name = self._root / folder / RUNS, folder or "chaos"
            runs = list(self._cached_runs(f"{folder}/{RUNS}", _times(path), lambda: tuple(_listed_runs(path, folder, name))))
            self._kept_runs += runs
            self._campaigns.append(_campaign_row(name, folder, runs, None, tuple(sorted(names & _SHOWN))))

    def _read_campaign(self, folder: str, names: frozenset[str]) -> None:
        """Read a campaign: its request, and its finished runs."""
        name, place = folder.rsplit("/", 1)[-1], self._root / folder
        try:
            campaign_order = msgspec.json.decode((place / REQUEST).read_bytes(), type=CampaignOrder)
            began = (place / REQUEST).stat().st_mtime_ns
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            self.refused += 1
            return
        runs: list[Run] = []
        runs_wanted = campaign_order.order.runs
        if RUNS in names:
            runs += self._cached_runs(
                f"{folder}/{RUNS}", _times(place / RUNS), lambda: tuple(_listed_runs(place / RUNS, folder, name))
            )
        if len(runs) < runs_wanted:  # it runs, or was stopped: the ledger has more
            begun = _times(place / REQUEST)  # a campaign that begins anew writes rows of the same names
            runs = [run for row in _rows_of(place / LEDGER) for run in self._cached_row(folder, name, row, begun)] or runs
        self._kept_runs += runs
        row = _campaign_row(name, folder, runs, runs_wanted, tuple(sorted(names & _SHOWN)))
        self._campaigns.append(msgspec.structs.replace(row, begun_ns=began, commit=campaign_order.build.commit))

    def _cached_row(self, folder: str, name: str, row: os.DirEntry[str], begun: tuple[int, ...]) -> tuple[Run, ...]:
        key = f"{folder}/{row.name}"
        return self._cached_runs(key, begun, lambda: tuple(_of_ledger(Path(row.path), folder, name)))

    def _cached_runs(self, key: str, times: tuple[int, ...], read: Callable[[], tuple[Run, ...]]) -> tuple[Run, ...]:
        """What was read of a file; read again if its time or size has changed."""
        entry = self._cache.get(key)
        if entry is None or entry[0] != times:
            try:
                entry = (times, read())
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, ValueError):
                self.refused += 1
                return ()
        # A file that was written just now may be written again within the same tick of the file system's clock.
        self.fresh[key] = entry if time_ns() - times[0] > _SETTLED_NS else (_UNSETTLED, entry[1])
        return entry[1]


DEFAULT_MIX = "(default)"
_SHOWN = frozenset(
    {
        store.REPORT,
        store.PLAN,
        store.VERDICT,
        store.MANIFEST,
        SUMMARY,
        INDEX,
        JUNIT,
        RUNS,
        CAUSES,
        BRANCHES,
        REQUEST,
    }
)


def _folders(root: Path, under: str = "", depth: int = 0) -> Iterator[tuple[str, frozenset[str]]]:
    """Each folder of a store that may be a run or a campaign, with the names of its files; relative to the store."""
    folders: list[str] = []
    files: set[str] = set()
    with suppress(OSError), os.scandir(root / under) as entries:
        for entry in entries:
            if store.name_complaint(entry.name) is not None:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.add(entry.name)
    yield under, frozenset(files)
    if store.MANIFEST in files or REQUEST in files or depth > _DEEP:
        return
    for name in sorted(folders):
        if name not in _UNSEEN:
            yield from _folders(root, f"{under}/{name}" if under else name, depth + 1)


def _times(path: Path) -> tuple[int, ...]:
    """Time of change and size of a file, (-1,) if it is not there."""
    try:
        stat = path.stat(follow_symlinks=False)
    except OSError:
        return (-1,)
    return (stat.st_mtime_ns, stat.st_size)


def _stored_run(root: Path, folder: str, names: frozenset[str]) -> Run:
    """A run with a folder: from its summary, else from manifest and verdict."""
    place = root / folder
    changed = place.stat().st_mtime_ns
    files = tuple(sorted(name for name in names if name in _SHOWN or _BESIDE.fullmatch(name)))
    if SUMMARY in names:
        summary = msgspec.json.decode((place / SUMMARY).read_bytes(), type=Summary)
        return _run(summary, key=folder, folder=folder, campaign="", changed_ns=changed, files=files)
    manifest = msgspec.json.decode((place / store.MANIFEST).read_bytes(), type=RunManifest)
    verdict = msgspec.json.decode((place / store.VERDICT).read_bytes(), type=Verdict) if store.VERDICT in names else None
    return _run_of_verdict(manifest, verdict, folder, changed, files, place=place)


def _run_of_verdict(
    manifest: RunManifest, verdict: Verdict | None, folder: str, changed: int, files: tuple[str, ...], *, place: Path
) -> Run:
    """A run that has a verdict and no summary."""
    kinds = counts(() if verdict is None else verdict.anomalies)
    protocol = manifest.protocol if manifest.system is None else words_of(manifest.system)
    name = f"{folder.split('/')[-2] if '/' in folder else folder} on {protocol}"
    words = (
        () if verdict is None else tuple(a.words for a in verdict.anomalies[:1]) or verdict.not_live[:1] or verdict.unchecked[:1]
    )
    verdict_name = "UNKNOWN" if verdict is None else VALIDITY_NAMES[verdict.validity]
    return Run(
        key=folder,
        name=name,
        folder=folder,
        protocol=protocol,
        mix=DEFAULT_MIX,
        verdict=verdict_name,
        live=None if verdict is None else verdict.live,
        kinds=tuple(kinds.items()),
        words=words or ((f"the run is {manifest.outcome}",) if verdict is None else ()),
        signature="",
        cause="",
        acked=0,
        leader_changes=0,
        faults=manifest.faults,
        sim_seconds=manifest.sim_seconds,
        wall_seconds=manifest.wall_seconds,
        digest=manifest.digest,
        repeat=f"highwater replay {place}",
        campaign="",
        changed_ns=changed,
        files=files,
        text=f"{name} {folder} {verdict_name} {' '.join(kinds)} {' '.join(words)}".lower(),
    )


def _listed_runs(path: Path, folder: str, campaign: str) -> Iterator[Run]:
    """The runs of a file runs.jsonl."""
    changed = path.stat().st_mtime_ns
    under = _store_of(folder)
    decoder = msgspec.json.Decoder(Summary)
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            yield _run(
                decoder.decode(line), key=f"{folder}:{number}", folder="", campaign=campaign, changed_ns=changed, under=under
            )


def _rows_of(ledger: Path) -> list[os.DirEntry[str]]:
    """The files of rows and of blocks."""
    found: list[os.DirEntry[str]] = []
    for folder, suffix in ((ledger, ROW), (ledger / BLOCKS, BLOCK)):
        with suppress(OSError), os.scandir(folder) as entries:
            found += [e for e in entries if e.name.endswith(suffix) and e.is_file(follow_symlinks=False)]
    return sorted(found, key=lambda e: e.name)


def _of_ledger(path: Path, folder: str, campaign: str) -> Iterator[Run]:
    """The runs of a row or of a block; a row without a result has none."""
    text = path.read_bytes()
    changed = path.stat().st_mtime_ns
    for row in rows_of_block(path.name, text) if path.suffix == BLOCK else [row_of(path.stem, text)]:
        if row.state != "done":
            continue
        summary = msgspec.json.decode(row.result, type=Summary)
        yield _run(summary, key=f"{folder}:{row.key}", folder="", campaign=campaign, changed_ns=changed, under=_store_of(folder))


def _store_of(folder: str) -> str:
    """The store, below the root, that a campaign's paths are relative to."""
    return folder.rsplit("campaigns/", 1)[0].rstrip("/") if "campaigns/" in folder else folder


def _run(
    summary: Summary, *, key: str, folder: str, campaign: str, changed_ns: int, files: tuple[str, ...] = (), under: str = ""
) -> Run:
    """A run from its summary."""
    if not folder and summary.store:
        folder = f"{under}/{summary.store}" if under else summary.store
    kinds = counts(summary.anomalies)
    verdict = summary.shown_verdict or "harness failed"
    words = summary.reasons[:5]
    searched = (summary.name, folder, verdict, "not live" if summary.live is False else "", *kinds, summary.signature, *words)
    return Run(
        key=key,
        name=summary.name,
        folder=folder,
        protocol=summary.played,
        mix=summary.mix or DEFAULT_MIX,
        verdict=verdict,
        live=summary.live,
        kinds=tuple(kinds.items()),
        words=words,
        signature=summary.signature,
        cause=summary.cause,
        acked=summary.acked,
        leader_changes=summary.leader_changes,
        faults=summary.faults,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
        digest=summary.digest,
        repeat=summary.repeat,
        campaign=campaign,
        changed_ns=changed_ns,
        files=files,
        text=" ".join(searched).lower(),
    )


def _campaign_row(name: str, folder: str, runs: list[Run], runs_wanted: int | None, files: tuple[str, ...]) -> CampaignRow:
    """A campaign as the list shows it."""
    verdicts = Counter(run.verdict for run in runs)
    return CampaignRow(
        name=name,
        folder=folder,
        wanted=len(runs) if runs_wanted is None else runs_wanted,
        finished=len(runs),
        verdicts=tuple(sorted(verdicts.items(), key=lambda count: _ORDER.get(count[0], 1))),
        running=runs_wanted is not None and len(runs) < runs_wanted,
        files=files,
    )
