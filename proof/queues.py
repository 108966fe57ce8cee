"""Compares the judge of sends and polls with its definition (`proof.queue_definition`) on random histories."""

from collections import Counter
from dataclasses import dataclass, field

from checkers.kafka.judge import judge
from history.seed import Rng
from proof.queue_definition import anomalies
from proof.queue_histories import drawn_queue, steps_of

_ALLOWED = ("int-send-skip", "poll-skip", "nonmonotonic-poll")


@dataclass(slots=True)
class Tally:
    """Counts of the histories on which the judge was compared with its definition, and of anomalies by kind.

    `undecided`: the judge found no anomaly but left something unchecked.
    """

    total: int = 0
    good: int = 0
    undecided: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prove(count: int, part: int = 0) -> Tally:
    """Compare the anomaly kinds that the judge of sends and polls finds with those of the definition."""
    tally = Tally()
    rng = Rng(part).fork("queues")
    for _ in range(count):
        ops = drawn_queue(rng)
        expected = anomalies(ops)
        verdict = judge(steps_of(ops))
        noted = {f"noted {kind}" for kind in _ALLOWED if any(note.startswith(f"{kind}:") for note in verdict.notes)}
        reported = {anomaly.kind for anomaly in verdict.anomalies} | noted | ({"unchecked"} if verdict.unchecked else set())
        tally.total += 1
        worst = {kind for kind in expected if not kind.startswith("noted ")}
        tally.good += not worst
        tally.undecided += worst == {"unchecked"}
        tally.bad.update(expected)
        if reported != expected:
            tally.wrong.append(f"kafka finds {sorted(reported)}, the definition {sorted(expected)}: {ops}")
    return tally
