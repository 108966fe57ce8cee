"""The view model: what a page shows, in which order, and what its bounds leave out."""

from dataclasses import replace

import msgspec
import pytest

from checkers.engine.verdict import Anomaly, ExcusedLoss, Findings, Verdict, merge
from checkers.registry import ALL, OF_BLACK_BOXES
from history.event import EventKind
from history.history import History
from reports.anomalies import EXAMPLES_MAX, STORY_MAX
from reports.offset_story import Place
from reports.run_page import RunPage, banner_of, page_of
from tests.reports.scenes import MS, Scene, manifest_of, small_loss


def page(history: History, verdict: Verdict) -> RunPage:
    return page_of(history, verdict, plan="", repeat="")


def an_anomaly(kind: str = "lost", key: str = "orders-0", checker: str = "durability", words: str = "") -> Anomaly:
    return Anomaly(kind=kind, checker=checker, key=key, witness=(), words=words)


def test_run_page_summary_counts_records_calls_and_changes() -> None:
    facts = {fact.name: fact.value for fact in page(*small_loss()).facts}
    assert facts == {
        "calls": "4",
        "acknowledged": "2",
        "read": "1",
        "failed": "0",
        "unknown": "1",
        "leader changes": "1",
        "ISR changes": "1",
        "controllers": "2",
        "truncations": "1",
        "wounds": "0",
        "length": "30.0 s",
    }


def test_run_page_counts_the_transactions_that_were_acknowledged() -> None:
    history, _ = small_loss()
    facts = page(history, merge([Findings(counts={"transactions": 264})])).facts

    assert [(fact.name, fact.value) for fact in facts[:2]] == [("calls", "4"), ("transactions", "264")]


def test_run_page_shows_a_fault_that_took_no_effect() -> None:
    """Otherwise a nemesis without effect would go unnoticed."""
    assert [(row.kind, row.begun, row.acted) for row in page(*small_loss()).faults] == [("crash", 1, 1), ("power-loss", 1, 0)]


@pytest.mark.parametrize(
    ("findings", "verdict", "live", "tone"),
    [
        (Findings(), "VALID", "liveness not judged", "valid"),
        (Findings(live_judged=True), "VALID", "live", "valid"),
        (Findings(live_judged=True, not_live=("orders-0 has no leader",)), "VALID", "not live", "not-live"),
        (Findings(unchecked=("too few writes",)), "UNKNOWN", "liveness not judged", "unknown"),
        (Findings(anomalies=(an_anomaly(),), live_judged=True), "INVALID", "live", "invalid"),
    ],
)
def test_run_page_banner_separates_safety_and_liveness(findings: Findings, verdict: str, live: str, tone: str) -> None:
    banner = banner_of(merge([findings]), manifest_of())
    assert (banner.verdict, banner.live, banner.tone) == (verdict, live, tone)


def test_run_page_banner_tells_why_a_run_was_not_live() -> None:
    late_findings = Findings(live_judged=True, not_live=("orders-0 has no leader", "b2 is asked in vain", "b3 is asked in vain"))
    # Reasons are sorted (checkers.engine.verdict.merge).
    assert banner_of(merge([late_findings]), manifest_of()).sentence == (
        "The run kept its promise. It was not live: b2 is asked in vain, and 2 more."
    )


def test_run_page_banner_names_an_interrupted_run() -> None:
    manifest = msgspec.structs.replace(manifest_of(), outcome="interrupted")
    assert "ended early: interrupted" in banner_of(merge([Findings()]), manifest).sentence


def test_anomaly_has_its_witnesses_offset_and_picture() -> None:
    (view,) = page(*small_loss()).anomalies
    assert view.place == Place(topic="orders", partition=0, offset=1)
    assert [line.who for line in view.witnesses] == ["client 0", "b2", "client 2"]
    assert view.track is not None
    assert view.track.key == "orders-0"
    assert view.scale is not None
    assert (view.scale.start_ns, view.scale.end_ns) == (20 * MS, 27_120 * MS)


def test_anomaly_without_offset_is_shown_with_events_around_it() -> None:
    history, _ = small_loss()
    elected = [event.index for event in history.of_kind(EventKind.CONTROLLER_ELECTED)]
    second_anomaly = Anomaly(kind="two-controllers", checker="c", key="", witness=tuple(elected), words="two at once")

    (view,) = page(history, merge([Findings(anomalies=(second_anomaly,))])).anomalies

    assert view.place is None
    assert [line.index for line in view.story if line.witness] == elected
    assert "b2 stops (life 1): crash" in [f"{line.who} {line.words}" for line in view.story]


def test_run_page_counts_all_anomalies_and_shows_few_in_full() -> None:
    """137 anomalies of one kind must not hide the only one of another kind."""
    many = [an_anomaly(kind="order", words=f"{n}") for n in range(50)]
    history, _ = small_loss()

    whole_page = page(history, merge([Findings(anomalies=(*many, an_anomaly("lost")))]))

    assert {row.kind: (row.count, len(row.shown)) for row in whole_page.kinds} == {"order": (50, EXAMPLES_MAX), "lost": (1, 1)}
    assert len(whole_page.anomalies) == EXAMPLES_MAX + 1


def test_run_page_tells_the_account_of_an_offset_once() -> None:
    history, _ = small_loss()
    pair = (an_anomaly("a", words="offset 1 is gone"), an_anomaly("b", words="offset 1 holds two values"))

    first, second = page(history, merge([Findings(anomalies=pair)])).anomalies

    assert (len(first.story) > 5, first.told_by) == (True, None)
    assert (second.story, second.told_by) == ((), 1)


def test_anomalies_shown_are_of_different_partitions_first() -> None:
    anomalies = [an_anomaly(key=key, words=str(n)) for key in ("orders-0", "orders-1", "orders-2") for n in range(9)]
    history, _ = small_loss()
    whole_page = page(history, merge([Findings(anomalies=tuple(anomalies))]))
    assert [view.anomaly.key for view in whole_page.anomalies] == ["orders-0", "orders-1", "orders-2"]


def test_anomaly_kinds_are_in_registry_order_with_their_claims() -> None:
    last, first = an_anomaly("a", checker=ALL[-1].name), an_anomaly("z", checker=ALL[0].name)
    history, _ = small_loss()
    kinds = page(history, merge([Findings(anomalies=(last, first))])).kinds
    assert [(row.kind, row.claim) for row in kinds] == [("z", ALL[0].claim), ("a", ALL[-1].claim)]


def test_loss_of_a_black_box_comes_first_with_its_claim() -> None:
    """On Kafka the checker `client-log` judges in place of the ledger of promised records."""
    history, _ = small_loss()
    copies, loss = an_anomaly("copies", checker="offset-agreement"), an_anomaly("lost-write", checker="client-log")
    first, *_ = page(history, merge([Findings(anomalies=(copies, loss))])).kinds

    assert (first.kind, first.claim) == ("lost-write", OF_BLACK_BOXES[0].claim)


def test_excused_losses_are_grouped_by_the_fault_behind_them() -> None:
    scene = Scene()
    wound = scene.at(5).event(EventKind.WOUND, node="b1", topic="orders", partition=0, offset=3, dir=0, detail="power-loss")
    losses = [ExcusedLoss(topic="orders", partition=0, offset=n, value=f"v{n}", wound=wound) for n in (3, 4, 5, 9)]
    elsewhere = ExcusedLoss(topic="orders", partition=1, offset=6, value="w", wound=99)

    whole_page = page(scene.recorder.history(manifest_of()), merge([Findings(excused=(*losses, elsewhere))]))

    assert [(view.key, view.first, view.last, view.values) for view in whole_page.excused] == [
        ("orders-0", 3, 5, ("v3", "v4", "v5")),
        ("orders-0", 9, 9, ("v9",)),
        ("orders-1", 6, 6, ("w",)),
    ]
    assert whole_page.excused[0].wound is not None
    assert whole_page.excused[0].wound.words == "wound by power-loss: bytes destroyed from offset 3 on (dir 0)"
    assert whole_page.excused[2].wound is None
    assert "5 losses are excused by wounds" in whole_page.banner.sentence


def test_long_account_of_an_anomaly_keeps_its_witnesses() -> None:
    scene = Scene()
    indices = [
        scene.at(n).event(EventKind.STATE_WRITTEN, topic="orders", partition=0, leader="b1", leader_epoch=n, isr=("b1",))
        for n in range(300)
    ]
    witness = (indices[0], indices[150], indices[-1])
    long = Anomaly(kind="k", checker="c", key="orders-0", witness=witness, words="")

    (view,) = page(scene.recorder.history(manifest_of()), merge([Findings(anomalies=(long,))])).anomalies

    assert [line.index for line in view.story if line.witness] == list(witness)
    assert len(view.story) + view.story_left_out == 300
    assert len(view.story) <= STORY_MAX + len(witness)


def test_partitions_with_anomalies_come_first() -> None:
    history, _ = small_loss()
    history = History(manifest_of(partitions=3), operations=history.operations, events=history.events)
    whole_page = page(history, merge([Findings(anomalies=(an_anomaly(key="orders-2"),))]))
    assert [track.key for track in whole_page.partitions] == ["orders-2", "orders-0", "orders-1"]


def test_report_page_does_not_contain_wall_time() -> None:
    """A replayed run takes another wall time and must have the same page."""
    history, verdict = small_loss()
    slower = History(
        msgspec.structs.replace(history.manifest, wall_seconds=99.0), operations=history.operations, events=history.events
    )
    pages = [replace(page(h, verdict), manifest=history.manifest) for h in (history, slower)]
    assert pages[0] == pages[1]
