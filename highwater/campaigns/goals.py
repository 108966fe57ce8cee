"""Goals: situations that the runs of a campaign must reach together, and how often each was reached.

A goal is a name: `message:leader-and-isr` (such a request reached a process; `message:stop-replica:delete` one that deletes the
log), `error:STALE_BROKER_EPOCH` (a reply had this error), `admin:remove-partition` (an administrator's request was done), the
participants below, and those of docs/promise.md VAC-3. The standard goals are all control requests and error codes of `reference`
and all administrator requests of `workloads`, so that an added one becomes a goal by itself. A campaign that misses a required
goal is a failure of the harness, because that situation was not tested.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import get_args

from msgspec import Struct

from highwater.backends.sim.traffic import DELETE
from highwater.errors import UsageError
from highwater.plans.plan import kebab
from highwater.runs.summary import CLIENTS, Summary
from nemesis.profiles import ProfileName
from nemesis.text import Document, TextError
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


def _asked(f: str) -> str:
    return f"admin:{f}"


_COUNTED = ("message:", "error:")  # from messages
STOP_AND_DELETE = f"{_message(StopReplica)}:{DELETE}"


# Goals of profile `beyond` only: an offset once served is out of range only after an excused loss (docs/promise.md DUR-4, VIS-2,
# VAC-2).
BEYOND = frozenset({EXCUSED_LOSSES, _error(ErrorCode.OFFSET_OUT_OF_RANGE), _asked("elect-unclean")})
OTHER_PROPOSAL = _asked("reassign-request")  # C-19: needs a controller with proposal B of KIP-236


def known() -> tuple[str, ...]:
    """All goals, in the order in which campaigns print them: requests, error codes, administration, participants, VAC-3."""
    control = [_message(kind) for kind in CONTROL_REQUESTS]
    control.insert(control.index(_message(StopReplica)) + 1, STOP_AND_DELETE)
    others = [_message(kind) for kind in get_args(Request) if kind not in CONTROL_REQUESTS]
    errors = [_error(code) for code in ErrorCode]
    asked = [_asked(f) for f in get_args(RequestF)]
    took_part = (IDEMPOTENT, LEGACY)
    return (
        *control,
        *others,
        *errors,
        *asked,
        *took_part,
        WOUNDS_SURVIVED,
        RECOVERY_ELECTIONS,
        ELECTIONS_FROM_ELR,
        EXCUSED_LOSSES,
    )


def standard(profile: ProfileName) -> tuple[str, ...]:
    """The goals that campaigns of 500 runs or more must reach."""
    unmet = {OTHER_PROPOSAL, *(_error(code) for code in NOT_MET)} | (BEYOND if profile == "within" else frozenset())
    return tuple(name for name in known() if name not in unmet)


def chosen(goals: str | None, *, profile: ProfileName, by_default: bool) -> tuple[str, ...]:
    """The goals that `--goals` requires: `standard`, `none` or a file; without the option the standard ones if `by_default`."""
    match goals:
        case None:
            return standard(profile) if by_default else ()
        case "standard":
            return standard(profile)
        case "none":
            return ()
        case _:
            return read(Path(goals))


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
        if name not in known():
            raise UsageError(str(document.error((index,), f"unknown goal {name!r}; known: {', '.join(known())}")))
    return names


def table(summaries: Collection[Summary], wanted: Sequence[str] = ()) -> tuple[Reached, ...]:
    """How often each goal was reached, in the order of `known`.

    Messages between real nodes are not counted; their `message:` and `error:` goals are then listed only if reached or required.
    """
    counts = _counts(summaries)
    are_counted = not summaries or any(message.kind != CLIENTS for summary in summaries for message in summary.messages)
    lines = (Reached(name=name, count=counts[name], wanted=name in wanted) for name in known())
    return tuple(line for line in lines if line.count or line.wanted or are_counted or not line.name.startswith(_COUNTED))


def _counts(summaries: Iterable[Summary]) -> Counter[str]:
    counts: Counter[str] = Counter()
    said: Counter[str] = Counter()  # errors as clients report them; replies are counted as messages too
    for summary in summaries:
        for message in summary.messages:
            if message.kind == CLIENTS:
                said[f"error:{message.error}"] += message.count
            elif message.error is None:
                counts[f"message:{message.kind}"] += message.count
            else:
                counts[f"error:{message.error}"] += message.count
        for done in summary.done:
            counts[_asked(done.f)] += done.count
        counts[IDEMPOTENT] += summary.idempotent
        counts[LEGACY] += summary.legacy_brokers
        survived = summary.verdict == "VALID" and not summary.excused
        counts[WOUNDS_SURVIVED] += summary.wounds_counted_on if survived else 0
        counts[RECOVERY_ELECTIONS] += summary.recovery_elections
        counts[ELECTIONS_FROM_ELR] += summary.elections_from_elr
        counts[EXCUSED_LOSSES] += summary.excused
    return counts | said
