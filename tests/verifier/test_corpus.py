"""Each decided history of the corpus, of objects and of transactions, has a certificate that the verifier accepts."""

import pytest

from checkers.certificates.certify import certify_answers, certify_object, certify_transactions
from checkers.elle.judge import judge as judge_transactions
from checkers.jepsen.judge import judge as judge_answers
from checkers.linearizability.judge import judge as judge_object
from checkers.linearizability.registry import model_named
from history.foreign.read import calls
from tests.checkers.corpus import FOREIGN, ROOT
from verifier.certificate import Certificate
from verifier.verify import verify

_VERDICTS = {"ok": "VALID", "bad": "INVALID"}
_FIRST = {"register": 0, "cas-register": 0, "multi-register": 0, "kv": ""}  # before the first call
_DECIDED = [name for name in sorted(FOREIGN) if name.split("/")[1] in _VERDICTS]
_CERTIFIED = [name for name in _DECIDED if FOREIGN[name].judge != "jepsen" or name.split("/")[1] == "bad"]


def _certificate(name: str) -> Certificate:
    of = FOREIGN[name]
    history = calls(ROOT / f"{name}.edn")
    if of.judge == "elle":
        levels = (of.consistency,)
        return certify_transactions(of.model, history, levels, judge_transactions(of.model, history, levels))
    if of.judge == "jepsen":
        found = judge_answers(of.model, history)
        return certify_answers(of.model, history, found, first=None, strict=False)
    first = _FIRST.get(of.model)
    model = model_named(of.model, initial=first, nil_is_a_value=False)
    judgement = judge_object(model, history.calls, failed=history.failed)
    return certify_object(model, history, judgement, first=first, nil_is_a_value=False)


@pytest.mark.parametrize("name", _CERTIFIED)
def test_corpus_history_has_a_certificate(name: str) -> None:
    certificate = _certificate(name)

    assert certificate.verdict == _VERDICTS[name.split("/")[1]]
    verify(calls(ROOT / f"{name}.edn"), certificate, first=_FIRST.get(FOREIGN[name].model))


def test_corpus_has_certificates_of_each_model_and_verdict() -> None:
    sides = {side: {FOREIGN[name].model for name in _CERTIFIED if name.split("/")[1] == side} for side in _VERDICTS}

    assert len(sides["ok"]) > 10
    assert sides["bad"] - sides["ok"] == {of.model for of in FOREIGN.values() if of.judge == "jepsen"}
