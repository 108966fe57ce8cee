"""What a judge found, in the words of the terminal: the worst finding first, others by kind."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from checkers.engine.anomalies import Harm
from checkers.engine.verdict import Anomaly, Validity, counts, without_count
from checkers.severity import harm, severity

ValidityName = Literal["VALID", "UNKNOWN", "INVALID"]
VALIDITY_NAMES: dict[Validity, ValidityName] = {
    Validity.VALID: "VALID",
    Validity.UNKNOWN: "UNKNOWN",
    Validity.INVALID: "INVALID",
}


class FoundAnomaly(Struct, frozen=True, kw_only=True):
    """An anomaly as summaries list it: without its witnesses, which are in the verdict."""

    kind: str
    checker: str
    key: str
    words: str


_A = TypeVar("_A", Anomaly, FoundAnomaly)


def by_kind(anomalies: Sequence[_A]) -> tuple[str, ...]:
    """Summarize anomalies in one line for each kind, worst first: its first anomaly and the number of further ones."""
    return tuple(
        f"{_titled(of_kind[0])}: {without_count(of_kind[0].words)}{_and_more(counts(of_kind).total())}"
        for of_kind in _anomalies_by_kind(anomalies).values()
    )


def in_short(anomalies: Sequence[_A], **reasons: Sequence[str]) -> tuple[str, ...]:
    """What a first screen says: the worst finding, the number of others by kind, the first of each list of reasons.

    A list is introduced by its argument's name: `not_live=("b1 leads nothing",)` becomes `not live: b1 leads nothing`.
    """
    lines = list(by_kind(anomalies)[:1])
    numbers = {kind: counts(of_kind).total() for kind, of_kind in list(_anomalies_by_kind(anomalies).items())[1:]}
    if numbers:
        kinds = f"{len(numbers)} other kind{'s' if len(numbers) > 1 else ''}"
        lines.append(f"and {sum(numbers.values())} of {kinds}: {', '.join(f'{kind} {n}' for kind, n in numbers.items())}")
    lines += [f"{_name(name)}: {why[0]}{_and_more(len(why))}" for name, why in reasons.items() if why]
    return tuple(lines)


def in_full(anomalies: Sequence[_A], **reasons: Sequence[str]) -> tuple[str, ...]:
    """Every anomaly and every reason, in the order of `in_short`."""
    lines = [f"{_titled(anomaly)}: {anomaly.words}" for anomaly in worst_first(anomalies)]
    lines += [f"{_name(name)}: {words}" for name, why in reasons.items() for words in why]
    return tuple(lines)


def _titled(anomaly: Anomaly | FoundAnomaly) -> str:
    return f"{anomaly.kind} {anomaly.key}".rstrip()


def _name(argument: str) -> str:
    return argument.replace("_", " ")


def _and_more(all_: int) -> str:
    return f" (and {all_ - 1} more)" if all_ > 1 else ""


def worst_first(anomalies: Iterable[_A]) -> tuple[_A, ...]:
    """Sort anomalies by severity; those of one kind keep their order.

    The kind of the first one stays first if none does worse harm: it is the one that the cause tells (`told_then_worst`).
    """
    found = tuple(anomalies)
    harms = [harm(a.kind) or max(Harm) for a in found]
    first_kind = found[0].kind if found and harms[0] is min(harms) and harm(found[0].kind) is not None else ""
    return tuple(sorted(found, key=lambda a: (a.kind != first_kind, severity(a.kind))))


def told_then_worst(anomalies: Iterable[Anomaly], told: Anomaly | None) -> tuple[Anomaly, ...]:
    """The anomaly that a cause tells, and the others by severity."""
    return worst_first(sorted(anomalies, key=lambda a: a != told))


def _anomalies_by_kind(anomalies: Sequence[_A]) -> dict[str, list[_A]]:
    kinds: dict[str, list[_A]] = {}
    for anomaly in worst_first(anomalies):
        kinds.setdefault(anomaly.kind, []).append(anomaly)
    return kinds
