"""Certificates of verdicts on history files: write one beside a verdict, and verify one against the file.

What a history is read as, and which values its format implies, is decided by the same rules for both; the verifier itself imports
no judge (`verifier`).
"""

from pathlib import Path

import msgspec

from checkers.certificates.certify import NoCertificate, certify_answers, certify_object, certify_transactions
from checkers.elle.judge import MODELS as TRANSACTIONS
from checkers.jepsen.judge import NAMES as ANSWERS
from checkers.linearizability.judge import Judgement
from checkers.linearizability.registry import NAMES
from highwater.errors import UsageError
from highwater.foreign.files import ModelChoice, check_asked, history_of, initial_value, object_of
from history.foreign.read import form_of
from verifier.certificate import Certificate
from verifier.verify import LEVEL, verify

CERTIFIED = (*NAMES, *TRANSACTIONS, *ANSWERS)  # the models whose verdicts get certificates


def certificate_of(file: Path, choice: ModelChoice, judgement: Judgement) -> Certificate:
    """The certificate of a verdict on a file; NoCertificate, with the reason, if there is none."""
    if choice.model not in CERTIFIED:
        raise NoCertificate(f"verdicts by model {choice.model} have none; those by {', '.join(CERTIFIED)} have")
    form = form_of(file)
    history = history_of(file, form)
    if choice.model in TRANSACTIONS:
        return certify_transactions(choice.model, history, choice.consistency, judgement)
    if choice.model in ANSWERS:
        first = initial_value(choice)
        strict = LEVEL in choice.consistency
        return certify_answers(choice.model, history, judgement, first=first, strict=strict, initial=choice.initial)
    model, first, nil = object_of(form, choice)
    return certify_object(model, history, judgement, first=first, nil_is_a_value=nil, initial=choice.initial)


def read_certificate(file: Path) -> Certificate:
    """Read a certificate. UsageError, with what is wrong, if the file is none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Certificate)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not a certificate: {error}") from error


def verify_file(file: Path, certificate: Certificate) -> None:
    """Return if the certificate proves its verdict on the history in the file; raise `verifier.certificate.Refused` if not.

    UsageError if the certificate asks for a model or initial value that does not exist; HistoryError if the file is no history.
    """
    if certificate.model not in CERTIFIED:
        raise UsageError(f"the certificate is of model {certificate.model!r}; certificates are of {', '.join(CERTIFIED)}")
    choice, form = ModelChoice(model=certificate.model, initial=certificate.initial), form_of(file)
    check_asked(choice)
    history = history_of(file, form)
    if certificate.model in TRANSACTIONS:
        verify(history, certificate)
    elif certificate.model in ANSWERS:
        verify(history, certificate, first=initial_value(choice))
    else:
        _, first, nil = object_of(form, choice)
        verify(history, certificate, first=first, nil_is_a_value=nil)
