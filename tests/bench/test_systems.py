"""docs/real-kafka.md tells what is recorded, and of each plan both outcomes on real Kafka."""

from bench.systems import PLANS, page, recorded
from tests.tidy.sources import ROOT


def test_page_of_real_kafka_tells_the_recorded_runs() -> None:
    """After new runs: `python -m bench.systems --page > docs/real-kafka.md`."""
    assert page(recorded()) == (ROOT / "docs" / "real-kafka.md").read_text()


def test_record_has_a_loss_for_each_plan_of_a_bug_of_kafka() -> None:
    lost = {one.plan for one in recorded() if one.outcome == "lost or diverged" and one.subject.startswith("kafka")}

    assert lost == {*PLANS} - {"unclean-forbidden"}
