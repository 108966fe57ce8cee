"""Every name of a consistency model that Elle knows (`elle.consistency-model`), and how transactions are judged by it.

Many names are others of one level: Adya's PL-2.99 is repeatable read. Others stand between two levels that can be judged, and
no rule here tells how much more than the weaker one they forbid. By these a history is INVALID if it breaks the weaker level,
VALID if it keeps the stronger one, and else UNKNOWN.

    >>> from checkers.elle.levels import judge
    >>> from history.foreign.read import history_of
    >>> skew = ("[[:append :x 1] [:r :y nil]]", "[[:append :y 1] [:r :x nil]]")
    >>> calls = [f"{{:process {p} :type {t} :value {skew[p]}}}" for t in (":invoke", ":ok") for p in (0, 1)]
    >>> [judge("list-append", history_of("".join(calls)), (name,)).validity.name for name in ("PL-3", "PL-SI", "PL-3U")]
    ['INVALID', 'VALID', 'UNKNOWN']
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from checkers.elle.consistency import FORBIDS
from checkers.elle.judge import STRONGEST
from checkers.elle.judge import judge as judge_exactly
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import Judgement
from history.foreign.pairing import Paired

# Adya's names; and names of serializability, which no history tells apart: some order of the transactions explains all reads.
OTHER_NAMES: dict[str, str] = {
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-2+": "consistent-view",
    "PL-2.99": "repeatable-read",
    "PL-3": "serializable",
    "PL-SI": "snapshot-isolation",
    "PL-SS": "strict-serializable",
    "PL-CS": "cursor-stability",
    "PL-2L": "monotonic-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-FCV": "forward-consistent-view",
    "PL-3U": "update-serializable",
    "conflict-serializable": "serializable",
    "view-serializable": "serializable",
    "1SR": "serializable",
    "session-serializable": "strong-session-serializable",
    "strong-session-PL-1": "strong-session-read-uncommitted",
    "strong-session-PL-2": "strong-session-read-committed",
    "strong-PL-1": "strong-read-uncommitted",
    "strong-PL-2": "strong-read-committed",
}
# The weaker and the stronger level that can be judged; without a weaker one, a history is never INVALID.
_SESSIONS = (None, "strong-session-snapshot-isolation")
BETWEEN: dict[str, tuple[str | None, str]] = {
    "monotonic-view": ("read-committed", "consistent-view"),
    "monotonic-atomic-view": ("read-committed", "read-atomic"),
    "monotonic-snapshot-read": ("read-committed", "snapshot-isolation"),
    "cursor-stability": ("cursor-stability", "consistent-view"),
    "forward-consistent-view": ("consistent-view", "snapshot-isolation"),
    "update-serializable": ("consistent-view", "serializable"),
    "causal-cerone": ("read-atomic", "parallel-snapshot-isolation"),
    "update-atomic": ("update-atomic", "parallel-snapshot-isolation"),
    "prefix": ("read-atomic", "snapshot-isolation"),
    "linearizable": (None, "strict-serializable"),
    "sequential": (None, "strong-session-serializable"),
    **dict.fromkeys(
        ("causal", "PRAM", "monotonic-reads", "monotonic-writes", "read-your-writes", "writes-follow-reads"), _SESSIONS
    ),
}
NAMES = tuple(dict.fromkeys((*FORBIDS, *BETWEEN, *OTHER_NAMES)))


def judge(model: str, history: Paired, consistency: Sequence[str] = (STRONGEST,)) -> Judgement:
    """As `checkers.elle.judge.judge`, by any of `NAMES`."""
    names = [OTHER_NAMES.get(name, name) for name in consistency]
    weaker = [level for name in names if (level := BETWEEN.get(name, (name, name))[0]) is not None]
    judgement = judge_exactly(model, history, weaker)
    between = [name for name in names if name in BETWEEN]
    if judgement.anomalies or not between:
        return judgement
    open_questions = (*judgement.unchecked, *_reasons_unknown(model, history, between))
    return replace(judgement, unchecked=open_questions, validity=Validity.UNKNOWN if open_questions else judgement.validity)


def _reasons_unknown(model: str, history: Paired, names: Sequence[str]) -> Iterator[str]:
    """Why a history is not known to keep these levels, which are between others."""
    for name in names:
        level = BETWEEN[name][1]
        anomalies = judge_exactly(model, history, (level,)).anomalies
        if anomalies:
            yield f"{name} may forbid it or not: {level}, which is stronger, is broken: {anomalies[0].kind}: {anomalies[0].words}"
