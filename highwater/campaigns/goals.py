"""What a campaign must have reached before its verdicts say anything of the whole protocol, and how often it did.

A goal is a name: `message:leader-and-isr` (such a request reached a process; `message:stop-replica:delete` one that takes the log
away), `error:STALE_BROKER_EPOCH` (somebody was told so), `admin:remove-partition` (an administrator asked, and it was done), who
took part, and those of docs/promise.md VAC-3. The standard goals are every control request and every error code that it can
answer with, found from `reference`, and all that administrators ask for, found from `workloads`, so that what is added there is
asked for by itself. A campaign that misses a goal has failed as a laboratory: what never happened was not tested.
"""

from collections import Counter
from collections.abc import Sequence
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

STANDARD_FROM = 500  # seeds; smaller campaigns show the table and ask for nothing

# who took part
IDEMPOTENT = "idempotent-produces"  # acknowledged
LEGACY = "legacy-brokers"  # in a cluster, with the inter-broker protocol of before KIP-343

# docs/promise.md VAC-3
WOUNDS_SURVIVED = "wounds-of-counted-on-copies-survived"
RECOVERY_ELECTIONS = "recovery-elections"
ELECTIONS_FROM_ELR = "elections-from-the-elr"
EXCUSED_LOSSES = "excused-losses"

# Error codes that no standard campaign can meet, with the reason.
NOT_MET: dict[ErrorCode, str] = {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the high watermark stands still while the ISR is too short (KAFKA-15583)",
    ErrorCode.CORRUPT_MESSAGE: "values are in the clear in the simulator",
    ErrorCode.INVALID_RECORD: "values are in the clear in the simulator",
}


class Reached(Struct, frozen=True, kw_only=True):
    """One line of the table. `wanted`: the campaign had to reach it."""

    name: str
    count: int
    wanted: bool

    @property
    def missed(self) -> bool:
        """Wanted and never seen."""
        return self.wanted and not self.count


def _message(kind: type) -> str:
    return f"message:{kebab(kind.__name__)}"


def _error(code: ErrorCode) -> str:
    return f"error:{code.name}"


def _asked(f: str) -> str:
    return f"admin:{f}"


_COUNTED = ("message:", "error:")  # from messages
STOP_AND_DELETE = f"{_message(StopReplica)}:{DELETE}"


# Only where a loss is excused does an offset that was there once lie out of range (docs/promise.md DUR-4, VIS-2, VAC-2).
BEYOND = frozenset({EXCUSED_LOSSES, _error(ErrorCode.OFFSET_OUT_OF_RANGE), _asked("elect-unclean")})
OTHER_PROPOSAL = _asked("reassign-request")  # C-19: of a controller that works by proposal B of KIP-236


def known() -> tuple[str, ...]:
    """Every name there is, in the order of the table: requests, error codes, administration, who took part, VAC-3."""
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
    """What 500 runs and more must reach."""
    unmet = {OTHER_PROPOSAL, *(_error(code) for code in NOT_MET)} | (BEYOND if profile == "within" else frozenset())
    return tuple(name for name in known() if name not in unmet)


def chosen(goals: str | None, *, profile: ProfileName, by_default: bool) -> tuple[str, ...]:
    """What `--goals` asks for: `standard`, `none`, a file, or, where nothing is said, standard goals if `by_default`."""
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
    """A YAML list of names. UsageError where it is none, or names what does not exist."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        names = document.convert(tuple[str, ...], document.value)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"goals {path}: {error}; there are standard, none and files") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    for index, name in enumerate(names):
        if name not in known():
            raise UsageError(str(document.error((index,), f"unknown goal {name!r}; there are {', '.join(known())}")))
    return names


def table(summaries: Sequence[Summary], wanted: Sequence[str] = ()) -> tuple[Reached, ...]:
    """How often each thing was reached, in the order of `known`.

    What real nodes say to each other is not counted: of what only such a count can tell, nothing is told there.
    """
    counts = _counts(summaries)
    are_counted = not summaries or any(message.kind != CLIENTS for summary in summaries for message in summary.messages)
    lines = (Reached(name=name, count=counts[name], wanted=name in wanted) for name in known())
    return tuple(line for line in lines if line.count or line.wanted or are_counted or not line.name.startswith(_COUNTED))


def _counts(summaries: Sequence[Summary]) -> Counter[str]:
    counts: Counter[str] = Counter()
    said: Counter[str] = Counter()  # by clients of themselves: what they were told stands on the wire too
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
