"""Each anomaly of transactions, calls and reads has a history with it, one that nearly has it, and an undecided one."""

import pytest

from checkers.elle.consistency import FORBIDS
from checkers.elle.judge import judge as judge_transactions
from checkers.engine.verdict import Validity
from checkers.jepsen.judge import judge as judge_reads
from checkers.linearizability.judge import STEPS_MAX, Judgement, judge
from checkers.linearizability.registry import model_named
from history.foreign.read import calls
from tests.checkers.corpus import FOREIGN, ROOT

_SIDES = {"ok": Validity.VALID, "bad": Validity.INVALID, "undecided": Validity.UNKNOWN}
_FOLDERS = ("elle", "linearizability", "jepsen")
_FEW_STEPS = 5  # too few for the search to decide the undecided histories


def _judgement_of(name: str) -> Judgement:
    """The judgement of a history of the corpus by the judge and model that its path names."""
    foreign = FOREIGN[name]
    history = calls(ROOT / f"{name}.edn")
    if foreign.judge == "elle":
        return judge_transactions(foreign.model, history, (foreign.consistency,))
    if foreign.judge == "jepsen":
        return judge_reads(foreign.model, history)
    initial = {"register": 0, "cas-register": 0, "multi-register": 0}.get(foreign.model)
    model = model_named(foreign.model, initial=initial, nil_is_a_value=False)
    return judge(model, history.calls, steps_max=_FEW_STEPS if "/undecided/" in name else STEPS_MAX)


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_foreign_corpus_history_gets_its_expected_verdict(name: str) -> None:
    judgement = _judgement_of(name)

    side = name.split("/")[1]
    assert judgement.validity is _SIDES[side], judgement
    assert (FOREIGN[name].kind in {anomaly.kind for anomaly in judgement.anomalies}) == (side == "bad"), judgement.anomalies
    assert bool(judgement.unchecked) == (side == "undecided")


def test_every_foreign_corpus_history_has_an_expected_verdict() -> None:
    files = {str(path.relative_to(ROOT).with_suffix("")) for folder in _FOLDERS for path in (ROOT / folder).rglob("*.edn")}

    assert files == set(FOREIGN)


def test_every_transaction_anomaly_has_corpus_histories() -> None:
    """All kinds that a level forbids; those that only lists or only registers can show have histories of that model."""
    kinds = frozenset[str]().union(*FORBIDS.values())
    shown = {
        model: {foreign.kind for foreign in FOREIGN.values() if foreign.model == model}
        for model in ("list-append", "rw-register")
    }

    assert shown["list-append"] == kinds - {"cyclic-versions"}
    assert shown["rw-register"] == kinds - {"dirty-update", "duplicate-elements", "incompatible-order"}
