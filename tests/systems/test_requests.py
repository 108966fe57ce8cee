"""Faults of single requests of clients on a release of Kafka, with librdkafka and with the Java client."""

from pathlib import Path

import pytest

from highwater.backends.real.clients import java
from tests.systems.conftest import need
from tests.systems.test_kafka import last_run, last_run_with

SHOWS = {"G1a", "precommitted-read", "lost-write", "unseen"}

pytestmark = pytest.mark.slow


def need_client(version: str) -> None:
    """Skip the test unless the Java client of this version can run here; in CI fail."""
    need(version)
    missing = java.missing(version)
    if missing is not None:
        pytest.skip(missing)


@pytest.mark.parametrize(
    "client",
    [pytest.param("java:4.1.0", marks=pytest.mark.systems), pytest.param("librdkafka", marks=pytest.mark.systems_all)],
)
def test_answers_of_ended_transactions_may_be_lost(client: str, tmp_path: Path) -> None:
    need_client("4.1.0")
    named = () if client == "librdkafka" else ("--client", client)
    code, summary = last_run_with("end-txn-answer-lost", "--system", "kafka:4.1.0", *named, folder=tmp_path)

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)
    (fault,) = summary["faults"]
    assert fault["acted"] > 1


@pytest.mark.systems_all
@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_late_end_of_a_transaction_ends_the_next_one(version: str, tmp_path: Path) -> None:
    """KAFKA-17754: a client that speaks the first version of transactions cannot tell its requests of two transactions apart."""
    code, summary = last_run("end-txn-late", version, tmp_path, loses=True)

    assert (code, summary["verdict"]) == (10, "INVALID")
    assert SHOWS & {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems_all
def test_late_end_is_refused_in_the_second_version(tmp_path: Path) -> None:
    """KIP-890: the epoch of a producer is raised with each transaction, so the broker knows an old request."""
    need_client("4.1.0")
    code, summary = last_run_with("end-txn-late", "--system", "kafka:4.1.0", "--client", "java:4.1.0", folder=tmp_path)

    assert (code, summary["verdict"], summary["live"], summary["hazard"]) == (0, "VALID", True, "shown")


@pytest.mark.systems_all
@pytest.mark.parametrize("name", ["add-partitions-late", "init-producer-id-late", "produce-late", "offset-commit-late"])
def test_other_late_requests_break_nothing(name: str, tmp_path: Path) -> None:
    code, summary = last_run(name, "4.1.0", tmp_path)

    assert (code, summary["verdict"], summary["hazard"]) == (0, "VALID", "shown")
