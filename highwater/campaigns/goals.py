"""Goals: situations that the runs of a campaign must reach together, and how often each was reached.

A goal is a name: `message:leader-and-isr` (such a request reached a process; `message:stop-replica:delete` one that deletes the
log), `error:STALE_BROKER_EPOCH` (a reply had this error), `admin:remove-partition` (an administrator's request was done), the
participants below, those of docs/promise.md VAC-3, and `branch:` with the name of a branch (`highwater.coverage.branches`), which
only campaigns with --branches or --guided count. The standard goals are all control requests and error codes of `reference`
and all administrator requests of `workloads`, so that an added one becomes a goal by itself; with --branches also the branches of
branch_goals.yaml. A campaign that misses a required goal is a failure of the harness, because that situation was not tested.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import get_args

from msgspec import UNSET, Struct

from highwater.backends.sim.traffic import DELETE
from highwater.coverage.branches import Branch, branches, is_excluded, steps_of
from highwater.errors import UsageError
from highwater.plans.plan import kebab
from highwater.runs.summary import CLIENTS, Summary
from nemesis.profiles import ProfileName
from nemesis.text import Document, TextError
from reference.config import VARIANTS
from reference.errors import ErrorCode
from reference.messages import CONTROL_REQUESTS, Request, StopReplica
from workloads.client import RequestF

STANDARD_FROM = 500  # seeds; smaller campaigns show the table and require nothing

# participants
IDEMPOTENT = "idempotent-produces"  # acknowledged
LEGACY = "legacy-brokers"  # brokers with the inter-broker protocol before KIP-343

# docs/promise.md VAC-3
WOUNDS_SURVIVED = "wounds-of-counted-on-copies-survived"
RECOVERY_ELECTIONS = "recovery-elections"
ELECTIONS_FROM_ELR = "elections-from-the-elr"
EXCUSED_LOSSES = "excused-losses"

# Error codes that no standard campaign can reach, with the reason.
NOT_MET: dict[ErrorCode, str] = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the high watermark does not advance below min.insync.replicas (KAFKA-15583)",
    ErrorCode.CORRUPT_MESSAGE: "the simulator does not encode values",
    ErrorCode.INVALID_RECORD: "the simulator does not encode values",
}


BRANCH = "branch:"
_REGISTERED = Path(__file__).parent / "branch_goals.yaml"


class BranchGoal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A branch that campaigns with --branches must take, and what would be untested otherwise."""

    branch: str
    why: str


class Reached(Struct, frozen=True, kw_only=True):
    """How often the runs of a campaign reached one goal. `wanted`: the goal is required."""

    name: str
    count: int
    wanted: bool

    @property
    def missed(self) -> bool:
        """Whether the goal is required and no run reached it."""
        return self.wanted and not self.count


def _message(kind: type) -> str:
    return f"message:{kebab(kind.__name__)}"


def _error(code: ErrorCode) -> str:
    return f"error:{code.name}"


def _request_goal(f: str) -> str:
    return f"admin:{f}"


_COUNTED = ("message:", "error:")  # from messages
STOP_AND_DELETE = f"{_message(StopReplica)}:{DELETE}"


# Goals of profile `beyond` only: an offset once served is out of range only after an excused loss (docs/promise.md DUR-4, VIS-2,
# VAC-2).
BEYOND = frozenset({EXCUSED_LOSSES, _error(ErrorCode.OFFSET_OUT_OF_RANGE), _request_goal("elect-unclean")})
OTHER_PROPOSAL = _request_goal("reassign-request")  # C-19: needs a controller with proposal B of KIP-236
OTHER_SYSTEM = _request_goal("alter-config")  # which the reference refuses


@cache  # asked for with each run that is counted
def all_goals() -> tuple[str, ...]:
    """All goals, in the order in which campaigns print them: requests, error codes, administration, participants, VAC-3."""
    control = [_message(kind) for kind in CONTROL_REQUESTS]
    control.insert(control.index(_message(StopReplica)) + 1, STOP_AND_DELETE)
    others = [_message(kind) for kind in get_args(Request) if kind not in CONTROL_REQUESTS]
    errors = [_error(code) for code in ErrorCode]
    requests = [_request_goal(f) for f in get_args(RequestF)]
    took_part = (IDEMPOTENT, LEGACY)
    return (
        *control,
        *others,
        *errors,
        *requests,
        *took_part,
        WOUNDS_SURVIVED,
        RECOVERY_ELECTIONS,
        ELECTIONS_FROM_ELR,
        EXCUSED_LOSSES,
    )


def registered() -> tuple[str, ...]:
    """The branches that campaigns with --branches must take. UsageError if the protocol has one no more."""
    document = Document(_REGISTERED.read_text(encoding="utf-8"), str(_REGISTERED))
    goals = document.convert(tuple[BranchGoal, ...], document.value)
    known_branches = _branches()
    for index, goal in enumerate(goals):
        if goal.branch not in known_branches:
            raise UsageError(str(document.error((index,), _sentence_on_unknown_branch(goal.branch))))
    return tuple(f"{BRANCH}{goal.branch}" for goal in goals)


def _branches() -> frozenset[str]:
    return frozenset(branch.name for branch in branches())


def _sentence_on_unknown_branch(name: str) -> str:
    """Why a goal is refused that names a branch which the protocol does not have."""
    function = name.partition(":")[0]
    branch_names = [branch.name.removeprefix(f"{function}: ") for branch in branches() if branch.function == function]
    known = f"{function} has: {'; '.join(branch_names)}" if branch_names else f"there is no function {function}"
    return f"the protocol has no branch {name!r}: {known}"


def standard(profile: ProfileName) -> tuple[str, ...]:
    """The goals that campaigns of 500 runs or more must reach."""
    unmet = {OTHER_PROPOSAL, OTHER_SYSTEM, *(_error(code) for code in NOT_MET)} | (BEYOND if profile == "within" else frozenset())
    return tuple(name for name in all_goals() if name not in unmet)


def chosen(goals: str | None, *, profile: ProfileName, by_default: bool, with_branches: bool = False) -> tuple[str, ...]:
    """The goals that `--goals` requires: `standard`, `none` or a file; without the option the standard ones if `by_default`.

    `with_branches`: the campaign counts branches; the registered ones are then standard goals.
    """
    match goals:
        case None if not by_default:
            return ()
        case None | "standard":
            return (*standard(profile), *(registered() if with_branches else ()))
        case "none":
            return ()
        case _:
            names = read(Path(goals))
            if not with_branches and any(name.startswith(BRANCH) for name in names):
                raise UsageError(f"{goals} has goals that are branches, which only --branches and --guided count")
            return names


def read(path: Path) -> tuple[str, ...]:
    """Read the names of goals from a YAML list. UsageError if it is malformed or has an unknown name."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        names = document.convert(tuple[str, ...], document.value)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--goals must be standard, none or a readable file, not {path}: {error}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    for index, name in enumerate(names):
        if name.startswith(BRANCH):
            if name.removeprefix(BRANCH) not in _branches():
                raise UsageError(str(document.error((index,), _sentence_on_unknown_branch(name.removeprefix(BRANCH)))))
        elif name not in all_goals():
            raise UsageError(str(document.error((index,), f"unknown goal {name!r}; known: {', '.join(all_goals())}")))
    return names


class GoalCounts:
    """How often runs reached goals; it grows."""

    def __init__(self) -> None:
        self._goal_counts: Counter[str] = Counter()
        self._branches: Counter[int] = Counter()  # runs, by the number of a branch
        self._listed: set[str] = set()  # shown though they may not be reached: somebody counted them
        self._runs = 0

    def add(self, summary: Summary) -> None:
        """Count what a run reached."""
        self._runs += 1
        self._goal_counts.update(_goal_counts(summary))
        if any(message.kind != CLIENTS for message in summary.messages):
            self._listed.update(all_goals())
        if summary.reach is not UNSET:
            self._branches.update({number for step in steps_of(summary.reach) for number in step.branches})

    def add_counted(self, reached: Iterable[Reached]) -> None:
        """Count what others have counted: all goals, but of branches only those that they were asked for."""
        self._runs += 1
        for goal in reached:
            self._goal_counts[goal.name] += goal.count
            self._listed.add(goal.name)

    def table(self, wanted: Sequence[str] = ()) -> tuple[Reached, ...]:
        """How often each goal was reached, in the order of `all_goals`.

        Messages between real nodes are not counted; their `message:` and `error:` goals are then listed only if reached or
        required.
        """
        lines = (Reached(name=name, count=self._goal_counts[name], wanted=name in wanted) for name in all_goals())
        shown = [
            line
            for line in lines
            if line.count or line.wanted or not self._runs or line.name in self._listed or not line.name.startswith(_COUNTED)
        ]
        branch_goals = [name for name in wanted if name.startswith(BRANCH)]
        runs = _by_name(self._branches) if branch_goals else Counter()
        counted = {name: runs[name.removeprefix(BRANCH)] + self._goal_counts[name] for name in branch_goals}
        return (*shown, *(Reached(name=name, count=count, wanted=True) for name, count in counted.items()))


def runs_by_branch(summaries: Iterable[Summary]) -> Counter[str]:
    """In how many runs each branch was taken."""
    numbers: Counter[int] = Counter()
    for summary in summaries:
        if summary.reach is not UNSET:
            numbers.update({number for step in steps_of(summary.reach) for number in step.branches})
    return _by_name(numbers)


def _by_name(numbers: Counter[int]) -> Counter[str]:
    names = branches()
    return Counter({names[number].name: runs for number, runs in numbers.items()})


def possible(protocols: Iterable[str]) -> tuple[Branch, ...]:
    """The branches that the switches of at least one of these protocols allow, in the order of files and lines."""
    variants = [VARIANTS[name] for name in protocols]
    candidates = (branch for branch in branches() if not all(is_excluded(branch, variant) for variant in variants))
    return tuple(sorted(candidates, key=lambda branch: (branch.file, branch.line)))


def never_taken(summaries: Iterable[Summary], protocols: Iterable[str]) -> tuple[Branch, ...]:
    """The possible branches that no run took, in the order of files and lines."""
    runs_of = runs_by_branch(summaries)
    return tuple(branch for branch in possible(protocols) if branch.name not in runs_of)


def never_text(never: Sequence[Branch]) -> str:
    """Branches that no run took as text: a line for each function, then its branches with the line of code."""
    lines = []
    for (file, function), untaken in groupby(never, key=lambda branch: (branch.file, branch.function)):
        lines.append(f"{file} {function}")
        lines += [f"    {b.line:>4}  {b.name.removeprefix(f'{function}: ')}\n          {b.code}" for b in untaken]
    return "".join(f"{line}\n" for line in lines)


def _goal_counts(summary: Summary) -> Counter[str]:
    """How often a run reached each goal."""
    counts: Counter[str] = Counter()
    errors_of_clients: Counter[str] = Counter()  # errors as clients report them; replies are counted as messages too
    for message in summary.messages:
        if message.kind == CLIENTS:
            errors_of_clients[f"error:{message.error}"] += message.count
        elif message.error is None:
            counts[f"message:{message.kind}"] += message.count
        else:
            counts[f"error:{message.error}"] += message.count
    for done in summary.done:
        counts[_request_goal(done.f)] += done.count
    counts[IDEMPOTENT] += summary.idempotent
    counts[LEGACY] += summary.legacy_brokers
    survived = summary.verdict == "VALID" and not summary.excused
    counts[WOUNDS_SURVIVED] += summary.wounds_counted_on if survived else 0
    counts[RECOVERY_ELECTIONS] += summary.recovery_elections
    counts[ELECTIONS_FROM_ELR] += summary.elections_from_elr
    counts[EXCUSED_LOSSES] += summary.excused
    return counts | errors_of_clients
