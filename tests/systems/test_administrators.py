"""Administrators on releases of Apache Kafka: moves, topics made again, elections, settings."""

from pathlib import Path

import pytest

from tests.systems.conftest import need
from tests.systems.test_kafka import REAL, highwater, last_run
from tests.systems.test_requests import need_client

pytestmark = pytest.mark.slow


@pytest.mark.systems
def test_topic_made_again_has_no_record_of_the_deleted_one(tmp_path: Path) -> None:
    need_client("4.1.0")
    code, summary = last_run("create-delete", "4.1.0", tmp_path)

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)


@pytest.mark.systems_all
@pytest.mark.parametrize(
    ("name", "version"),
    [("moves", "3.9.1-kraft"), ("moves", "4.1.0"), ("elections", "3.9.1"), ("elections", "4.1.0"), ("create-delete", "3.9.1")],
)
def test_requests_of_administrators_are_carried_out(name: str, version: str, tmp_path: Path) -> None:
    need_client(version)
    code, summary = last_run(name, version, tmp_path)

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)


@pytest.mark.systems_all
def test_moves_with_zookeeper_lose_nothing(tmp_path: Path) -> None:
    """Whether it is live is another question: a broker that was down keeps the log that was moved away (docs/found.md)."""
    need_client("3.9.1")
    _, summary = last_run("moves", "3.9.1", tmp_path)

    assert (summary["anomalies"], summary["failure"]) == ([], None)


@pytest.mark.systems_all
def test_records_gone_by_an_ordered_election_are_doubted(tmp_path: Path) -> None:
    need_client("3.9.1")
    code, summary = highwater("--plan", str(REAL / "unclean-ordered.yaml"), "--system", "kafka:3.9.1", folder=tmp_path)

    assert (code, summary["verdict"], summary["anomalies"]) == (11, "UNKNOWN", [])


@pytest.mark.systems_all
@pytest.mark.parametrize("named", [(), ("--client", "java:4.1.0")])
def test_storm_of_an_administrator_loses_nothing(named: tuple[str, ...], tmp_path: Path) -> None:
    need("4.1.0")
    need_client("4.1.0")
    storm = ("--seed", "5", "--workload", "admin-storm", "--seconds", "35", "--system", "kafka:4.1.0")
    _, summary = highwater(*storm, *named, folder=tmp_path)

    assert (summary["anomalies"], summary["failure"]) == ([], None)
    assert summary["acked"] > 100
