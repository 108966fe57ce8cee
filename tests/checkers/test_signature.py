"""The signature of a run: the anomaly proven first, the step that did it, and the faults in effect (docs/triage.md)."""

import pytest
from hypothesis import given
from msgspec.structs import replace

from checkers.causes.cause import cause_of
from checkers.causes.signature import _CHECKERS, _LACKS, Signature, first_proven, of_lack, signature
from checkers.engine.anomalies import Harm
from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.judge import judge
from checkers.registry import ALL
from checkers.severity import SEVERITY, harm
from checkers.sketches import history_of
from history.history import History
from tests.checkers import corpus
from tests.strategies import histories

_NOTHING = merge([])


def _anomaly(kind: str, checker: str, *witness: int) -> Anomaly:
    return Anomaly(kind=kind, checker=checker, key="t-0", witness=witness, words=f"{kind} at {witness}")


def _signed(history: History, *anomalies: Anomaly) -> Signature:
    signature_found = signature(history, merge([Findings(anomalies=anomalies)]))
    assert signature_found is not None
    return signature_found


def test_run_that_is_valid_and_live_has_no_signature() -> None:
    assert signature(history_of("hw node=b1 hw=0"), _NOTHING) is None


def test_anomaly_with_the_earliest_proof_is_the_cause() -> None:
    """The loss begins with the record, but is proven at the election that the unclean one made possible."""
    lost, elected = _anomaly("lost-write", "acked-loss", 3, 40), _anomaly("unclean-election", "election", 20, 30)

    assert first_proven([lost, elected]) is elected


def test_checker_nearest_to_the_step_names_the_cause() -> None:
    """One truncation breaks the log and both ISRs at once."""
    rows = [_anomaly("strong-isr", "isr-agreement", 1, 9), _anomaly("truncated-committed", "log-matching", 2, 9)]

    assert first_proven(rows).kind == "truncated-committed"
    assert first_proven([rows[0], _anomaly("weak-isr", "isr-agreement", 1, 9)]).kind == "weak-isr"


def test_anomaly_without_a_witness_is_no_cause_of_others() -> None:
    assert first_proven([_anomaly("assertion", "assertions"), _anomaly("lost-write", "acked-loss", 5)]).kind == "lost-write"


def _on(key: str, kind: str, checker: str, *witness: int) -> Anomaly:
    return replace(_anomaly(kind, checker, *witness), key=key)


_CUT = _anomaly("truncated-committed", "log-matching", 2)
_QUIET = ("hw node=b1 hw=0", "hw node=b1 hw=1", "truncate node=b2 offset=0 detail=hw", "became-leader node=b2")


@pytest.mark.parametrize("kind", [kind for kind in SEVERITY if harm(kind) is Harm.WRONG_ANSWER])
def test_wrong_answer_does_not_hide_what_was_lost(kind: str) -> None:
    """A client that sends wrong requests meets wrong answers first, in almost every run of a protocol without idempotence."""
    answer = _anomaly(kind, "answers", 0)

    assert _signed(history_of(*_QUIET), answer, _CUT).kind == "truncated-committed"
    assert _signed(history_of(*_QUIET), answer, _anomaly("strong-isr", "isr-agreement", 1)).kind == "strong-isr"


def test_wrong_answer_names_a_run_without_other_anomalies() -> None:
    assert _signed(history_of(*_QUIET), _anomaly("misuse-acknowledged", "answers", 0)).kind == "misuse-acknowledged"


def test_loss_is_named_by_what_led_to_it_in_its_partition() -> None:
    """Neither an ISR of another partition nor a doubled record made the follower truncate."""
    others = (_on("t-1", "strong-isr", "isr-agreement", 0), _anomaly("sequence-doubled", "producers", 1))
    history = history_of(*_QUIET)

    assert _signed(history, *others, _CUT).kind == "truncated-committed"
    assert _signed(history, *others, _CUT, _anomaly("strong-isr", "isr-agreement", 1)).kind == "strong-isr"
    assert _signed(history, *others, _CUT, _on("", "two-controllers", "single-controller", 1)).kind == "two-controllers"


def test_missing_flush_names_a_loss_only_after_a_power_loss() -> None:
    """A leader that promises before the flush loses nothing as long as the power stays."""
    unflushed, lost = _anomaly("unflushed", "flushes", 0), _anomaly("lost-write", "acked-loss", 3)
    wounded = history_of(*_QUIET[:2], "wound node=b2 offset=0 detail=unflushed", _QUIET[3])
    elsewhere = history_of(*_QUIET[:2], "wound node=b2 offset=0 detail=unflushed partition=1", _QUIET[3])

    assert _signed(history_of(*_QUIET), unflushed, lost).kind == "lost-write"
    assert _signed(elsewhere, unflushed, lost).kind == "lost-write"
    assert _signed(wounded, unflushed, lost).kind == "unflushed"


# Rows of a history, the row of the proof, the step.
_STEPS = {
    "truncation": (("truncate node=b2 offset=1 detail=hw",), 0, "truncate:hw"),
    "election": (
        ("state-written leader=b1 isr=b1,b2 leader_epoch=1", "state-written leader=b3 isr=b3 leader_epoch=2"),
        1,
        "elected-outside-isr",
    ),
    "leader after its election": (
        ("state-written leader=b1 isr=b1,b2", "state-written leader=b2 isr=b2 leader_epoch=2", "became-leader node=b2"),
        2,
        "elected-in-isr",
    ),
    "leader that was taken into the ISR": (
        (
            "state-written leader=b1 isr=b1",
            "state-written leader=b1 isr=b1,b2",
            "state-written isr=b1,b2 leader_epoch=2",
            "state-written leader=b2 isr=b2 leader_epoch=3",
            "fenced node=b1",
            "became-leader node=b2",
        ),
        5,
        "elected-in-isr after isr-expanded",
    ),
    "high watermark": (("state-written leader=b1 isr=b1,b2", "hw node=b1 hw=3"), 1, "hw:leader"),
    "high watermark in an ISR change": (
        ("became-leader node=b1 isr=b1,b2", "isr-change-sent node=b1 isr=b1", "hw node=b1 hw=3"),
        2,
        "hw:leader, ISR change in flight",
    ),
    "high watermark in an ISR expansion": (
        ("became-leader node=b1 isr=b1", "isr-change-sent node=b1 isr=b1,b2", "hw node=b1 hw=3"),
        2,
        "hw:leader, ISR expansion in flight",
    ),
    "high watermark after an ISR change": (
        ("isr-change-sent node=b1 isr=b1", "isr-change-ended node=b1 isr=b1 detail=applied", "hw node=b1 hw=3"),
        2,
        "hw:leader",
    ),
    "change of another broker": (("isr-change-sent node=b2 isr=b2", "hw node=b1 hw=3"), 1, "hw:leader"),
    "answer": (("ok poll offset=0 value=a",), 1, "answer:poll"),
    "step of another partition": (
        ("truncate node=b2 offset=1 detail=hw partition=1", "append node=b1 offset=0"),
        1,
        "append:leader",
    ),
}


@pytest.mark.parametrize("name", _STEPS)
def test_step_is_found_at_the_proof(name: str) -> None:
    lines, at, step = _STEPS[name]

    assert _signed(history_of(*lines), _anomaly("kind", "checker", at)).step == step


def test_step_before_an_answer_is_not_older_than_the_witness() -> None:
    """A truncation of long ago did not cause what clients saw happen since."""
    history = history_of("truncate node=b2 offset=1 detail=hw", "ok poll offset=0 value=a", "ok poll offset=0 value=b")

    assert _signed(history, _anomaly("inconsistent-offsets", "offset-agreement", 0, 2)).step == "truncate:hw"
    assert _signed(history, _anomaly("inconsistent-offsets", "offset-agreement", 2, 4)).step == "answer:poll"


def test_faults_are_part_of_the_sentence_and_not_of_the_text() -> None:
    """The same mistake is provoked by many faults; with them 100 runs of `v3` would have 52 causes."""
    quiet = history_of("truncate node=b2 offset=1 detail=hw")
    rows = ("fault-begun fault=f1 detail=pause", "fault-acted fault=f1", "truncate node=b2 offset=1 detail=hw")
    calm, faulty = (_signed(h, _anomaly("lost", "log", n)) for h, n in ((quiet, 0), (history_of(*rows), 2)))

    assert calm.text == faulty.text == "lost/log/truncate:hw"
    assert faulty.in_effect == ("pause",)
    assert faulty.sentence == "Step truncate:hw of t-0 at 0.002 s while pause was in effect: lost at (2,)"
    assert calm.sentence == "Step truncate:hw of t-0 at 0.000 s, no fault in effect: lost at (0,)"


def test_count_of_further_anomalies_is_left_out() -> None:
    anomaly = Anomaly(kind="k", checker="c", key="", witness=(0,), words="gone (and 17 more of this kind)")

    assert _signed(history_of("hw node=b1 hw=0"), anomaly).words == "gone"


def test_cluster_that_is_not_live_is_signed_by_what_comes_first() -> None:
    history = history_of("state-written leader=b1 isr=b1")
    why = ("final readers of t-0 got nothing, though offset 3 was acknowledged", "t-0 has no leader at the end")
    signature_found = signature(history, merge([Findings(not_live=why, live_judged=True)]))

    assert signature_found is not None
    assert (signature_found.text, signature_found.key) == ("not-live/availability/a partition has no leader", "t-0")
    assert signature_found.sentence == "t-0 has no leader at the end"


def test_partition_that_only_clients_name_is_signed() -> None:
    """A black box has no rows of its states."""
    words = "no acks=all produce to my-topic-1 was acknowledged from the bound B after healing on"
    history = history_of("ok produce value=a topic=my-topic partition=1 acks=-1")

    assert of_lack(history, words).key == "my-topic-1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("t-0 lost its leader b1 at row 0 and got no other, without a cause", "a partition loses its leader without a cause"),
        ("b1 was removed from the ISR of t-0 at row 0 without a cause", "a broker is removed from the ISR without a cause"),
    ],
)
def test_demotion_without_a_cause_has_a_signature_of_its_own(words: str, text: str) -> None:
    """It was signed as a request of an administrator that is not done."""
    history = history_of("state-written leader=b1 isr=b1")
    verdict = merge([Findings(not_live=(words,), live_judged=True)])
    signature_found, cause = signature(history, verdict), cause_of(history, verdict)

    assert signature_found is not None
    assert (signature_found.text, signature_found.key) == (f"not-live/demotions/{text}", "t-0")
    assert cause is not None
    assert cause.rows == (0,)


def test_reasons_that_differ_in_numbers_are_one_cause() -> None:
    why = ("vacuity: 3 records acknowledged under acks=all, fewer than 10",)
    signature_found = signature(history_of("hw node=b1 hw=0"), merge([Findings(unchecked=why)]))

    assert signature_found is not None
    assert signature_found.text == "unknown/vacuity/# records acknowledged under acks=all, fewer than #"


def test_checkers_that_signatures_name_exist() -> None:
    names = {checker.name for checker in ALL}

    assert {*_CHECKERS, *(checker for _, checker, _ in _LACKS)} <= names


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in corpus.RUNS if name.startswith("bad/")))
def test_bad_history_of_the_corpus_has_a_signature(name: str) -> None:
    """Its step is empty only if the story has no witness rows."""
    history = corpus.history(name)
    verdict = judge(history)
    signature_found = signature(history, verdict)

    assert (signature_found is None) == (not verdict.anomalies and not verdict.not_live and not verdict.unchecked)
    assert signature_found is None or signature_found.sentence


@pytest.mark.slow
@given(histories())
def test_any_history_can_be_signed(history: History) -> None:
    indices = [*(row.index for row in history.operations), *(row.index for row in history.events)]
    for index in (*indices, 10**6):
        signature_found = _signed(history, _anomaly("kind", "checker", index))

        assert signature_found.at == index
        assert signature_found.text.startswith("kind/checker")
