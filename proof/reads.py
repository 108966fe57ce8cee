"""Compares the judges of Jepsen's models that look at reads with their definitions, on random histories."""

from collections import Counter
from dataclasses import dataclass, field

from checkers.certificates.certify import NoCertificate, certify_answers
from checkers.engine.verdict import Validity
from checkers.jepsen.judge import judge
from history.foreign.step import Pairs
from history.seed import Rng
from proof.reads_definitions import DEFINITIONS, IMPOSSIBLE, INITIAL, POSSIBLE, UNDECIDED
from proof.reads_histories import PLANS, drawn

_WORDS = {Validity.VALID: POSSIBLE, Validity.INVALID: IMPOSSIBLE, Validity.UNKNOWN: UNDECIDED}


@dataclass(slots=True)
class Tally:
    """Counts of the histories on which one model was compared with its definition, by verdict and by kind of anomaly."""

    name: str
    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prove(name: str, count: int) -> Tally:
    """Compare the verdicts of the model of this name, one of `DEFINITIONS`, with its definition."""
    tally = Tally(name)
    rng = Rng(1).fork(name)
    for _ in range(count):
        history = drawn(PLANS[name], rng)
        initial = Pairs(INITIAL) if name == "bank" and rng.below(2) else None
        expected = DEFINITIONS[name](history, initial)
        model = name.split(",")[0]
        strict = "linearizable" in name
        judgement = judge(model, history, initial=initial, strict=strict)
        tally.verdicts[expected] += 1
        tally.kinds.update({anomaly.kind for anomaly in judgement.anomalies})
        if _WORDS[judgement.validity] != expected:
            tally.wrong.append(f"{name} is {judgement.validity.name}, the definition says {expected}: {judgement} {history}")
        if judgement.validity is Validity.INVALID:
            try:
                certify_answers(model, history, judgement, first=initial, strict=strict)
            except NoCertificate as reason:
                tally.wrong.append(f"{name} without a certificate ({reason}): {judgement} {history}")
    return tally
