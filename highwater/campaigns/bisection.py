"""Find the first bad one of a series of builds, by performing a plan on some of them (`highwater bisect`).

A build is good if as many of its runs as are wanted are VALID and live and met the plan's hazard. It is bad if one run is INVALID
or not live. A run that shows nothing (UNKNOWN, vacuous, a failure of the harness) counts for neither and is repeated; a build
with `NOTHING_MAX` such runs is undecided, and the search goes on beside it, as after `git bisect skip`.

The search assumes that a bad build stays bad: it looks at the newest build first, then at the oldest, then halves the rest. The
runs are rows of a ledger, so a bisection that was ended goes on where it was, and one that wants more runs keeps those it has.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from highwater.exit_codes import ExitCode
from highwater.plans.systems import OwnJars
from highwater.runs.summary import Summary
from pipeline.ledger import Ledger, Row

NOTHING_MAX = 3  # runs of one build that show nothing
Standing = Literal["good", "bad", "undecided", "not tried"]
_BAD = (ExitCode.INVALID, ExitCode.NOT_LIVE, ExitCode.NOT_DETERMINISTIC)


class Trial(Struct, frozen=True, kw_only=True):
    """One run on a build: its exit code, its verdict with the first reason, and its folder in the store (None: not stored)."""

    exit: ExitCode
    words: str
    run: str | None = None


class Looked(Struct, frozen=True, kw_only=True):
    """What is known of one build. `name` is that of its folder or tarball."""

    name: str
    jars: OwnJars
    standing: Standing = "not tried"
    runs: tuple[Trial, ...] = ()

    @property
    def words(self) -> str:
        """The verdict that decided, or the last one."""
        deciding = next((trial for trial in self.runs if trial.exit in _BAD), self.runs[-1] if self.runs else None)
        return "" if deciding is None else deciding.words


class Found(Struct, frozen=True, kw_only=True):
    """The end of a bisection: the builds in their order, and between which two the mistake came in.

    `first_bad` and `last_good` are names; None if there is no such build. Between them lie undecided builds at most.
    """

    builds: tuple[Looked, ...]
    first_bad: str | None
    last_good: str | None
    exit: ExitCode


Perform = Callable[[OwnJars], Summary]


def trial_of(summary: Summary) -> Trial:
    """A run as a bisection counts it."""
    words = summary.words
    if summary.vacuous:
        words = "VALID, vacuous: the hazard was not met"
    elif summary.exit_code is not ExitCode.VALID:
        words = ": ".join(filter(None, (words, summary.failure or next(iter(summary.reasons), ""))))
    return Trial(exit=summary.exit_code, words=words, run=summary.store)


def standing_of(runs: Sequence[Trial], wanted: int) -> Standing:
    """What these runs say of their build; "not tried" if more runs are needed."""
    if any(trial.exit in _BAD for trial in runs):
        return "bad"
    good = sum(trial.exit is ExitCode.VALID for trial in runs)
    if good >= wanted:
        return "good"
    return "undecided" if len(runs) - good >= NOTHING_MAX else "not tried"


class Bisection:
    """Looks at builds, oldest first in `builds`; keeps each run in a ledger, and takes those that are there."""

    def __init__(
        self,
        builds: Sequence[tuple[str, OwnJars]],
        perform: Perform,
        ledger: Ledger,
        *,
        wanted: int,
        tell: Callable[[Looked], None] = lambda looked: None,
    ) -> None:
        self._perform = perform
        self._ledger = ledger
        self._signature_wanted = wanted
        self._tell = tell
        self._builds = [Looked(name=name, jars=jars) for name, jars in builds]

    def find(self) -> Found:
        """Look at builds until the first bad one is known, or all between the last good and the first bad one are undecided."""
        last = len(self._builds) - 1
        if self._standing_of_build(last) != "bad":
            return self._result(bad=None, good=last if self._builds[last].standing == "good" else None)
        if last == 0 or self._standing_of_build(0) == "bad":
            return self._result(bad=0, good=None)
        if self._builds[0].standing == "undecided":
            return self._result(bad=last, good=None)
        good, bad = 0, last
        while (middle := self._between(good, bad)) is not None:
            standing = self._standing_of_build(middle)
            good, bad = (middle, bad) if standing == "good" else (good, middle) if standing == "bad" else (good, bad)
        return self._result(bad=bad, good=good)

    def _between(self, good: int, bad: int) -> int | None:
        """The build nearest to the middle of the two that was not tried; None if all were."""
        left = [at for at in range(good + 1, bad) if self._builds[at].standing == "not tried"]
        return min(left, key=lambda at: abs(2 * at - good - bad), default=None)

    def _standing_of_build(self, at: int) -> Standing:
        """Perform runs on a build until they say something of it."""
        build = self._builds[at]
        runs: list[Trial] = []
        while (standing := standing_of(runs, self._signature_wanted)) == "not tried":
            runs.append(self._trial_of_run(build.jars, len(runs)))
        self._builds[at] = Looked(name=build.name, jars=build.jars, standing=standing, runs=tuple(runs))
        self._tell(self._builds[at])
        return standing

    def _trial_of_run(self, jars: OwnJars, number: int) -> Trial:
        """The run of this number on a build, which is performed now unless the ledger has it."""
        key = f"{jars.digest}.{number}"
        if self._ledger.holds(key):
            return trial_of(msgspec.json.decode(self._ledger.read(key).result, type=Summary))
        summary = self._perform(jars)
        if summary.outcome == "interrupted":
            raise KeyboardInterrupt  # it says nothing of the build
        result = msgspec.Raw(msgspec.json.encode(summary))
        self._ledger.commit(Row(key=key, state="done", attempt=1, seconds=summary.wall_seconds, result=result))
        return trial_of(summary)

    def _result(self, *, bad: int | None, good: int | None) -> Found:
        """The result, with these builds as the first bad and the last good one."""
        if bad is None:
            code = ExitCode.UNKNOWN if good is None else ExitCode.VALID
        else:
            known = bad == (0 if good is None else good + 1)
            code = ExitCode.INVALID if known else ExitCode.UNKNOWN
        return Found(
            builds=tuple(self._builds),
            first_bad=None if bad is None else self._builds[bad].name,
            last_good=None if good is None else self._builds[good].name,
            exit=code,
        )
