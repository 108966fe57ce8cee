"""Make the certificate of a verdict, or say why there is none. What the verifier would refuse is not handed out.

>>> from checkers.certificates.certify import certify_transactions
>>> from checkers.elle.levels import judge
>>> from history.foreign.jepsen import steps
>>> from history.foreign.pairing import pair
>>> skew = [(("append", 1, 1), ("r", 2, None)), (("append", 2, 1), ("r", 1, None))]
>>> lines = [{"process": p, "type": t, "value": skew[p]} for t in ("invoke", "ok") for p in (0, 1)]
>>> history = pair(steps(enumerate(lines, 1)))
>>> found = judge("list-append", history, ("serializable",))
>>> certificate = certify_transactions("list-append", history, ("serializable",), found)
>>> [(edge.source, edge.target, edge.kind, edge.at) for edge in certificate.witness.edges]
[(0, 1, 'rw', ((0, 1), (1, 0))), (1, 0, 'rw', ((1, 1), (0, 0)))]
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal

from checkers.certificates.objects import core_of, order_of
from checkers.certificates.transactions import Contradictions, commit_order
from checkers.elle.judge import examine
from checkers.elle.levels import BETWEEN, OTHER_NAMES
from checkers.engine.verdict import Validity
from checkers.linearizability.judge import Judgement
from checkers.linearizability.model import Model
from history.foreign.pairing import Paired
from verifier.certificate import FORMAT, Answers, Certificate, Refused, Witness, digest_of
from verifier.objects import Object
from verifier.verify import LEVEL, verify


class NoCertificate(Exception):  # noqa: N818 - no error: the verdict stands without one
    """Raised with the reason why a verdict gets no certificate."""


def certify_object(
    model: Model, history: Paired, judgement: Judgement, *, first: Hashable, nil_is_a_value: bool, initial: str = ""
) -> Certificate:
    """The certificate of a verdict on calls on objects; NoCertificate if there is none.

    `first`: the initial value that the model was made with; `initial`: the same as it was asked for.
    """
    is_valid = _validity_in_words(judgement) == "VALID"
    thing = Object(model.name, first, nil_is_a_value, len(history.calls))

    def certificate(witness: Witness) -> Certificate:
        made = _certificate_of(model.name, history, judgement, LEVEL, witness, initial=initial)
        verify(history, made, first=first, nil_is_a_value=nil_is_a_value)
        return made

    proofs = judgement.longest if not is_valid else ()
    cores = (core_of(thing, model, history.calls, stuck) for stuck in proofs)
    return _first_accepted(certificate, [order_of(thing, model, history.calls)] if is_valid else cores)


def certify_transactions(model: str, history: Paired, consistency: Sequence[str], judgement: Judgement) -> Certificate:
    """The certificate of a verdict on transactions; NoCertificate if there is none.

    It names the level that was judged: of a level between two others the stronger one for VALID, the weaker one for INVALID.
    """
    is_valid = _validity_in_words(judgement) == "VALID"
    if len(consistency) != 1:
        raise NoCertificate("a certificate is about one consistency model, not several")
    name = OTHER_NAMES.get(consistency[0], consistency[0])
    weaker, stronger = BETWEEN.get(name, (name, name))
    level = stronger if is_valid else weaker
    assert level is not None, "a level without a weaker one has no INVALID"
    seen = examine(model, history, (level,))

    def certificate(witness: Witness) -> Certificate:
        made = _certificate_of(model, history, judgement, level, witness)
        verify(history, made)
        return made

    return _first_accepted(
        certificate, [commit_order(seen, level)] if is_valid else Contradictions(seen, history, model, level).all()
    )


def certify_answers(
    model: str, history: Paired, judgement: Judgement, *, first: Hashable, strict: bool, initial: str = ""
) -> Certificate:
    """The certificate of an INVALID by a model that looks at answers one by one; NoCertificate if there is none.

    `first`: the initial value that it was judged with; `initial`: the same as it was asked for; `strict`: as for the judge.
    """
    if _validity_in_words(judgement) == "VALID":
        raise NoCertificate(f"a VALID by model {model} has none: it says that no answer is wrong, and the judge looked at each")
    numbers = {call.line: number for number, call in enumerate((*history.calls, *history.failed))}

    def certificate(witness: Witness) -> Certificate:
        made = _certificate_of(model, history, judgement, LEVEL if strict else "", witness, initial=initial)
        verify(history, made, first=first)
        return made

    shown = (
        Answers(name=anomaly.kind, operations=tuple(numbers[line] for line in anomaly.witness)) for anomaly in judgement.anomalies
    )
    return _first_accepted(certificate, shown)


def _validity_in_words(judgement: Judgement) -> Literal["VALID", "INVALID"]:
    """The verdict as a certificate names it. NoCertificate if it is UNKNOWN."""
    if judgement.validity is Validity.UNKNOWN:
        raise NoCertificate("the verdict is UNKNOWN, and nothing proves that")
    return "VALID" if judgement.validity is Validity.VALID else "INVALID"


def _certificate_of(
    model: str, history: Paired, judgement: Judgement, level: str, witness: Witness, *, initial: str = ""
) -> Certificate:
    """The certificate of a judgement with this witness; its `words` are those of the first anomaly."""
    return Certificate(
        format=FORMAT,
        history=digest_of(history),
        model=model,
        initial=initial,
        level=level,
        verdict=_validity_in_words(judgement),
        witness=witness,
        words=judgement.anomalies[0].words if judgement.anomalies else "",
    )


def _first_accepted(certificate: Callable[[Witness], Certificate], witnesses: Iterable[Witness | None]) -> Certificate:
    """The certificate with the first witness that the verifier accepts."""
    reason = "no witness was found within the budget"
    for witness in witnesses:
        try:
            if witness is not None:
                return certificate(witness)
        except Refused as refused:
            reason = f"the verifier does not accept the witness: {refused}"
    raise NoCertificate(reason)
