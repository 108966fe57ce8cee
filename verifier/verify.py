"""Does this witness prove this verdict on this history? Everything is derived from the history; the certificate only points."""

from collections.abc import Hashable

from history.foreign.pairing import Paired
from verifier.answers import verify_answers
from verifier.calls import all_are_calls
from verifier.certificate import FORMAT, Answers, Certificate, Linearization, NoLinearization, TransactionOrder, digest_of, must
from verifier.objects import Object, verify_none, verify_order
from verifier.orders import Commits

LEVEL = "linearizable"  # of objects


def verify(history: Paired, certificate: Certificate, *, first: Hashable = None, nil_is_a_value: bool = True) -> None:
    """Return if the certificate proves its verdict on this history; raise Refused, with the reason, if it does not.

    `first` and `nil_is_a_value`: the object's initial value, and whether a read of nil is an answer (models of registers).
    """
    calls, witness = (*history.calls, *history.failed), certificate.witness
    proves_valid = isinstance(witness, Linearization | TransactionOrder)
    must(certificate.format == FORMAT, f"format {certificate.format} is not known, but {FORMAT} is")
    must(certificate.history == digest_of(history), "the certificate is of another history")
    must((certificate.verdict == "VALID") == proves_valid, f"such a witness does not prove {certificate.verdict}")
    must(not (proves_valid and history.unsure), "the times of the history contradict its order")
    thing = Object(certificate.model, first, nil_is_a_value, len(history.calls))
    must(not history.untimed or not isinstance(witness, Linearization | NoLinearization), "the history has no order in time")
    if isinstance(witness, Linearization | NoLinearization):
        must(certificate.level == LEVEL, f"the level of {certificate.model} must be {LEVEL}, not {certificate.level!r}")
        all_are_calls(certificate.model, calls)
    if isinstance(witness, Answers):
        must(
            not history.untimed and certificate.level in ("", LEVEL), "the history has no order in time, or the level is another"
        )
        strict = certificate.level == LEVEL
        verify_answers(certificate.model, calls, len(history.calls), witness, initial=first, strict=strict)
    elif isinstance(witness, Linearization):
        verify_order(thing, calls, witness)
    elif isinstance(witness, NoLinearization):
        verify_none(thing, calls, witness)
    else:
        lists = certificate.model == "list-append"
        must(lists or certificate.model == "rw-register", f"such a witness proves nothing about {certificate.model}")
        commits = Commits(calls, len(history.calls), lists=lists, level=certificate.level, timed=not history.untimed)
        if isinstance(witness, TransactionOrder):
            commits.verify_order(witness)
        else:
            commits.verify(witness)
