"""Transcripts of storms: all that the processes of a cluster do, as digests that are kept and as lines that are read.

python -m tests.reference.transcripts [--first]
    Performs the storms and compares them with tests/reference/transcripts.txt. The exit code is 1 if one differs. `--first`: with
    the first one that differs.
python -m tests.reference.transcripts --accept
    Performs the storms and writes the file. Prints what differs from the file before.
python -m tests.reference.transcripts --show PROTOCOL SEED [--against REV]
    Prints a transcript, a line for each thing done: the step of the storm, who did it, and what. With `--against` only where it
    first differs from the one of a commit, of which `reference`, `server` and `highwater` are taken.

A storm is deterministic, so its transcript changes only if the code does. Functions that are moved, renamed or written otherwise
change nothing; another name of a message, an effect or one of their fields changes the digests. Nothing is judged: a protocol
that loses records has a transcript, too. After its first difference a storm takes another course, so `--against` tells more than
the number of kinds that differ.

The file has a table for each family of storms, with a column for each storm. A row is of one kind of what processes do: how
often, and a digest of the data in order. The row `everything` is of all kinds in their order.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec

from highwater.errors import UsageError
from highwater.runs import revisions
from reference.config import NEWEST, Protocol
from reference.coordination.api import AnyOp, Check, Create, Delete, SetData
from reference.effects import CancelTimer, Effect, Note, Send, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import Event, ZkReplied, ZkState, ZkWatch
from tests.reference.wide_storm import WideStorm
from tests.reference.wording import effect_in_words, exchange_in_words

STORED = Path(__file__).with_name("transcripts.txt")
STEPS = 2000
HEALING = 4  # rounds of 2 s
ALL = "everything"
LINES_MAX = 40  # of what is told of a difference
AGAINST = ("reference", "server", "highwater")  # packages that are taken from another commit
_DIGEST_BYTES = 3
_NONE = "-"
_BEFORE, _AFTER = 4, 12  # lines that are shown around a first difference
_OF_ZOOKEEPER: dict[type, str] = {ZkReplied: "answers of ZooKeeper", ZkWatch: "watches", ZkState: "sessions"}
_VERBS: dict[type, str] = {Create: "created", SetData: "set", Delete: "deleted", Check: "checked"}


class Run(NamedTuple):
    """A storm: its protocol, the inter-broker protocol, whether brokers are upgraded from that one, and their directories."""

    protocol: str
    seed: int
    speaks: Protocol = NEWEST
    upgrades: bool = False
    dirs: int = 2

    @property
    def name(self) -> str:
        """What `--show` takes: the protocol, with what differs from the rule."""
        speaks = "" if self.speaks == NEWEST else f"{'>' if self.upgrades else '@'}{self.speaks}"
        return f"{self.protocol}{speaks}{'' if self.dirs == 2 else '/1'}"


def _storms(*names: str, seeds: int) -> tuple[Run, ...]:
    """Storms of these protocols; a name may have the form of `Run.name`."""
    return tuple(_storm(name, seed) for name in names for seed in range(seeds))


def _storm(name: str, seed: int) -> Run:
    rest, one, _ = name.partition("/1")
    protocol, upgrades, speaks = rest.partition(">") if ">" in rest else rest.partition("@")
    spoken: Protocol = speaks or NEWEST  # type: ignore[assignment]  # BrokerConfig refuses others
    return Run(protocol, seed, spoken, upgrades == ">", 1 if one else 2)


# Chosen by the branches of `reference` that they take: of 38 variants and settings, two storms each, the others took few more.
FAMILIES: dict[str, tuple[Run, ...]] = {
    "safe on the newest protocol": (*_storms("safe", seeds=6), *_storms("safe/1", seeds=2)),
    "safe on earlier protocols, and while they are upgraded": (
        *_storms("safe@legacy", "safe@kip343_v0", "safe@kip112", "safe@v3", seeds=2),
        *_storms("safe>legacy", "safe>kip112", "safe>v3", seeds=2),
    ),
    "V3 and the article": (
        *_storms("v3", "v3@v3", seeds=4),
        *_storms("article", seeds=3),
        *_storms("article@kip112", "v3-external-view", seeds=1),
    ),
    "proposal B of KIP-236, and other ways": (
        *_storms("reassignment-by-requests", seeds=6),
        *_storms("external-view", "truncate-on-fetch", "isr-via-zookeeper", "no-heartbeat", "reassign-target-first", seeds=2),
        *_storms("kip101", "kip279", "failover-by-multi", "failover-one-by-one", "log-dir-fails-broker", seeds=1),
    ),
    "known mistakes": (
        *_storms("isr-eager", "isr-shrink-on-fetch", "kip320-first-try", "lag-by-last-change", "lag-by-last-fetch", seeds=1),
        *_storms(
            "isr-zombie-controller",
            "leads-from-startup",
            "no-broker-incarnation",
            "no-elr",
            "no-epoch-bump",
            "no-topic-id",
            seeds=1,
        ),
        *_storms("reassign-isr-is-all", "reassign-without-rollback", "unclean-election", seeds=1),
    ),
}


class Cell(NamedTuple):
    """One kind in one storm."""

    times: int
    digest: str


class Digests:
    """A recorder that counts and digests what happens, by kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.hashes: dict[str, blake2b] = {}

    def __call__(self, who: str, kind: str, what: object, frame: bytes = b"") -> None:
        """Take what happened; `kind` where it does not follow from `what`."""
        data = msgspec.msgpack.encode((who, what, frame))
        self._count(ALL, kind.encode() + data)
        if isinstance(what, ZkRequest) and not kind:
            for op in what.ops:
                self._count(_kind_of_op(op), msgspec.msgpack.encode((who, what.atomic, op)))
        else:
            self._count(kind or kind_of(what), data)

    def _count(self, kind: str, data: bytes) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in self.hashes:
            self.hashes[kind] = blake2b(digest_size=_DIGEST_BYTES)
        self.hashes[kind].update(data)

    @property
    def cells(self) -> dict[str, Cell]:
        """Each kind that occurred."""
        return {kind: Cell(count, self.hashes[kind].hexdigest()) for kind, count in self.counts.items()}


def kind_of(what: object) -> str:
    """The kind of an effect, or of an event of ZooKeeper."""
    match what:
        case Send(message=message):
            error = getattr(message, "error", ErrorCode.NONE)
            return f"{type(message).__name__}{'' if error is ErrorCode.NONE else f' {error.name}'} sent"
        case SetTimer(name=name) | CancelTimer(name=name):
            return f"timer {name.partition(':')[0].rstrip('0123456789')}"
        case Note():
            return "notes"
        case ZkReplied() | ZkWatch() | ZkState():
            return _OF_ZOOKEEPER[type(what)]
        case _:
            return type(what).__name__


def _kind_of_op(op: AnyOp) -> str:
    """The kind of an operation: its verb, and the znode without names and numbers."""
    parts = op.path.split("/")
    ends = f"/…/{parts[-1]}" if parts[-1] == "state" else "/…" if len(parts) > 3 else ""
    return f"{'/'.join(parts[:3])}{ends} {_VERBS.get(type(op), 'read')}"


class Lines:
    """A recorder that keeps a transcript as lines: words for a reader, and all data."""

    def __init__(self) -> None:
        self.step = 0
        self.lines: list[tuple[str, str]] = []
        self._asked: dict[tuple[str, int], ZkRequest] = {}

    def __call__(self, who: str, kind: str, what: object, frame: bytes = b"") -> None:
        """Take what happened."""
        if isinstance(what, ZkRequest):
            self._asked[who, what.id] = what
        words = self._words(who, what)
        data = msgspec.json.encode(what).decode() + frame.hex()
        self.lines.append((f"{self.step:5} {who:<5} {kind + ': ' if kind else ''}{words}", data))

    def _words(self, who: str, what: object) -> str:
        match what:
            case ZkReplied(id=id_, answers=answers) if (who, id_) in self._asked:
                exchanges = zip(self._asked[who, id_].ops, answers, strict=True)
                return ", ".join(exchange_in_words(op, answer, {}) for op, answer in exchanges)
            case Effect() | Event():
                return effect_in_words(what, {})
            case _:
                return str(what)


def perform(run: Run, recorder: Digests | Lines) -> None:
    """Perform a storm, and heal it for a while. What a machine or the table asserts in vain is part of the transcript."""
    storm = WideStorm(run.seed, run.protocol, recorder, speaks=run.speaks, dirs=run.dirs, upgrades=run.upgrades)
    for step in range(STEPS):
        if isinstance(recorder, Lines):
            recorder.step = step + 1
        try:
            storm.step()
        except AssertionError as error:
            recorder("storm", "failed assertions", str(error))
            storm.lab.events.clear()
    recorder("storm", "healed", storm.heal(HEALING))


def digests_of(run: Run) -> dict[str, Cell]:
    """The digests of a storm by kind."""
    digests = Digests()
    perform(run, digests)
    return digests.cells


# --- the file -----------------------------------------------------------------------------------------------------------------


def text_of(tables: Mapping[Run, Mapping[str, Cell]]) -> str:
    """The file: a table for each family."""
    lines = ["# python -m tests.reference.transcripts --accept"]
    for family, runs in FAMILIES.items():
        kinds = sorted({kind for run in runs for kind in tables[run]} - {ALL})
        lines += ["", f"= {family}", " ".join(["storms", *(f"{run.name}#{run.seed}" for run in runs)])]
        for kind in (ALL, *kinds):
            cells = [tables[run].get(kind) for run in runs]
            lines.append(f"{kind} | {' '.join(_NONE if cell is None else f'{cell.times}:{cell.digest}' for cell in cells)}")
    return "\n".join(lines) + "\n"


def stored() -> dict[Run, dict[str, Cell]]:
    """The digests that the file holds; empty if there is none."""
    return tables_in(STORED.read_text(encoding="utf-8") if STORED.is_file() else "")


def tables_in(text: str) -> dict[Run, dict[str, Cell]]:
    """The digests in the text of the file."""
    tables: dict[Run, dict[str, Cell]] = {}
    runs: list[Run] = []
    for line in text.splitlines():
        if line.startswith("storms "):
            runs = [_storm(name, int(seed)) for name, _, seed in (word.rpartition("#") for word in line.split()[1:])]
            tables |= {run: {} for run in runs}
        elif " | " in line:
            kind, _, cells = line.rpartition(" | ")
            for run, cell in zip(runs, cells.split(), strict=True):
                if cell != _NONE:
                    count, _, digest = cell.partition(":")
                    tables[run][kind] = Cell(int(count), digest)
    return tables


def differences(before: Mapping[Run, Mapping[str, Cell]], now: Mapping[Run, Mapping[str, Cell]]) -> list[str]:
    """Which kinds differ in which storms of `now`, those that differ in most storms first; at most LINES_MAX lines."""
    changed: dict[str, list[tuple[Run, int, int]]] = {}
    for run, cells in now.items():
        cells_before = before.get(run, {})
        for kind in cells_before.keys() | cells.keys():
            was, is_ = cells_before.get(kind), cells.get(kind)
            if was != is_:
                changed.setdefault(kind, []).append((run, was.times if was else 0, is_.times if is_ else 0))
    lines = [_words(kind, found, len(now)) for kind, found in sorted(changed.items(), key=_order)]
    more = len(lines) - LINES_MAX
    return lines if more <= 0 else [*lines[: LINES_MAX - 1], f"and {more + 1} other kinds"]


def _order(row: tuple[str, list[tuple[Run, int, int]]]) -> tuple[bool, int, str]:
    kind, found = row
    return kind != ALL, -len(found), kind


def _words(kind: str, found: Sequence[tuple[Run, int, int]], storms: int) -> str:
    (run, was, is_), *_ = found
    return f"{kind}: {len(found)} of {storms} storms differ (first: {run.name} {run.seed}: {was} before, {is_} now)"


# --- the command line ---------------------------------------------------------------------------------------------------------


def compare(*, first: bool) -> int:
    """Compare the storms with the file; `first`: end with the first one that differs."""
    before = stored()
    now: dict[Run, dict[str, Cell]] = {}
    # All protocols once before any a second time: `--first` then comes soon to what differs.
    for run in sorted((run for runs in FAMILIES.values() for run in runs), key=lambda run: run.seed):
        cells = digests_of(run)
        if not first or cells != before.get(run):
            now[run] = cells
        if first and now:
            break
    lines = differences(before, now)
    _say([*lines, *([_ADVICE] if lines else [])])
    return 1 if lines else 0


_ADVICE = "show what differs first: --show PROTOCOL SEED --against HEAD; if it is meant: --accept"


def accept() -> int:
    """Write the file, and say what differs from the one before."""
    before = stored()
    now = {run: digests_of(run) for runs in FAMILIES.values() for run in runs}
    STORED.write_text(text_of(now), encoding="utf-8")
    _say(differences(before, now))
    return 0


def show(run: Run, *, exact: bool) -> int:
    """Print a transcript; `exact`: with all data, for another process."""
    lines = Lines()
    perform(run, lines)
    _say(_in_one_line(words) + (f"\t{_in_one_line(data)}" if exact else "") for words, data in lines.lines)
    return 0


def _in_one_line(words: str) -> str:
    return " ".join(words.split("\n")).replace("\t", " ")


def show_difference(run: Run, revision: str) -> int:
    """Print where a transcript first differs from that of a commit, with a few lines before and after."""
    here = _transcript_on(None, run)
    with revisions.protocol_of(revision, option="--against", packages=AGAINST) as folder:
        there = _transcript_on(folder, run)
    pairs = enumerate(zip_longest(here, there))
    at = next((n for n, (mine, other) in pairs if mine != other), None)
    if at is None:
        _say([f"{run.name} {run.seed} has the same transcript at {revision}, of {len(here)} lines"])
        return 0
    window = slice(max(0, at - _BEFORE), at + _AFTER)
    words_alone = [line.partition("\t")[0] for line in (here[at : at + 1] + there[at : at + 1])]
    part = 2 if len(set(words_alone)) < len(words_alone) else 0  # the words are the same: show the data
    old, new = ([line.partition("\t")[part] for line in lines[window]] for lines in (there, here))
    _say(
        [
            f"line {at + 1} of {len(there)} lines there, of {len(here)} here",
            *unified_diff(old, new, revision, "here", lineterm=""),
        ]
    )
    return 1


def _transcript_on(folder: Path | None, run: Run) -> list[str]:
    """The lines of a transcript, with the packages in a folder."""
    # -P keeps the working directory, which may be this checkout, from coming first.
    command = [sys.executable, "-P", "-m", "tests.reference.transcripts", "--exact", "--show", run.name, str(run.seed)]
    variables = {**os.environ, **revisions.environment(folder)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"the storm cannot be performed there: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.splitlines()


def main() -> int:
    """Do what the arguments say, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.reference.transcripts", description="Transcripts of storms.")
    parser.add_argument("--accept", action="store_true", help="write the file")
    parser.add_argument("--first", action="store_true", help="end with the first storm that differs")
    parser.add_argument("--show", nargs=2, metavar=("PROTOCOL", "SEED"), help="print a transcript")
    parser.add_argument("--against", metavar="REV", help="with --show: only where it first differs from that of a commit")
    parser.add_argument("--exact", action="store_true", help="with --show: with all data")
    given = parser.parse_args()
    if given.show is None:
        return accept() if given.accept else compare(first=given.first)
    run = _storm(given.show[0], int(given.show[1]))
    try:
        return show(run, exact=given.exact) if given.against is None else show_difference(run, given.against)
    except UsageError as error:
        sys.stderr.write(f"transcripts: {error}\n")
        return 2


def _say(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
