"""Rolling upgrades of Apache Kafka and back, with crashes: acknowledged records stay, and each broker becomes what it should."""

from pathlib import Path

import pytest

from history import store
from history.event import EventKind
from tests.systems.conftest import need
from tests.systems.test_kafka import last_run_with

pytestmark = pytest.mark.slow


def said_after_faults(run: Path) -> list[tuple[str | None, str]]:
    """What probes found when faults had ended, with the broker, in the order of the run."""
    probed = [row for row in store.load_run(run).events if row.kind is EventKind.FAULT_PROBED]
    return [(row.node, str(row.detail)) for row in probed if str(row.detail).startswith("healed: ")]


@pytest.mark.parametrize(
    ("plan", "versions", "rolls"),
    [
        pytest.param("roll-quorum", ("3.9.1-kraft", "4.1.0"), 3, marks=pytest.mark.systems),
        pytest.param("roll-back", ("3.9.1-kraft", "4.1.0"), 4, marks=pytest.mark.systems_all),
        pytest.param("roll", ("2.8.2", "3.9.1"), 6, marks=pytest.mark.systems_all),
    ],
)
def test_rolling_upgrade_with_crashes_keeps_all_records(plan: str, versions: tuple[str, str], rolls: int, tmp_path: Path) -> None:
    for version in versions:
        need(version)

    code, summary = last_run_with(plan, "--system", f"kafka:{'..'.join(versions)}", folder=tmp_path)

    assert (code, summary["verdict"], summary["failure"], summary["anomalies"]) == (0, "VALID", None, [])
    begun = {fault["kind"]: fault["begun"] for fault in summary["faults"]}
    assert begun["roll"] == rolls
    said = said_after_faults(Path(summary["store"]))
    rolled = {"b1", "b2"} if plan == "roll-back" else {"b1", "b2", "b3"}
    assert {node for node, words in said if words.endswith(f"as kafka {versions[1]}")} == rolled
    assert any("metadata.version is " in words for _, words in said) == (plan == "roll-quorum")
