"""Faults of single requests of clients on a release of Kafka, with librdkafka and with the Java client."""

from pathlib import Path

import pytest

from highwater.backends.real.clients import java
from tests.systems.conftest import KEPT, need, outcome
from tests.systems.test_kafka import last_run, last_run_with

SHOWS = {"G1a", "precommitted-read", "lost-write", "unseen", "aborted-result", "doubled-result", "lost-result"}
ENDS_LATE = ["end-txn-late", "process-end-txn-late"]

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

    assert outcome(code, summary) == KEPT
    (fault,) = summary["faults"]
    assert fault["acted"] > 1


@pytest.mark.systems_all
@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
@pytest.mark.parametrize("name", ENDS_LATE)
def test_late_end_of_a_transaction_ends_the_next_one(name: str, version: str, tmp_path: Path) -> None:
    """KAFKA-17754: a client that speaks the first version of transactions cannot tell its requests of two transactions apart."""
    code, summary = last_run(name, version, tmp_path, loses=True)

    assert (code, summary["verdict"]) == (10, "INVALID")
    assert SHOWS & {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems_all
@pytest.mark.parametrize("name", ENDS_LATE)
def test_late_end_is_refused_in_the_second_version(name: str, tmp_path: Path) -> None:
    """KIP-890: the epoch of a producer is raised with each transaction, so the broker knows an old request."""
    need_client("4.1.0")
    code, summary = last_run_with(name, "--system", "kafka:4.1.0", "--client", "java:4.1.0", folder=tmp_path)

    assert (*outcome(code, summary), summary["hazard"]) == (*KEPT, "shown")


@pytest.mark.systems_all
def test_coordinator_that_is_cut_off_breaks_exactly_once(tmp_path: Path) -> None:
    """It tells the positions of before the cut, and its successor takes what is committed by them (docs/found.md)."""
    need_client("4.1.0")
    code, summary = last_run("coordinator-cut-off", "4.1.0", tmp_path, loses=True)

    assert (code, summary["verdict"]) == (10, "INVALID")
    assert {anomaly["kind"] for anomaly in summary["anomalies"]} == {"doubled-result", "resumed-behind"}


@pytest.mark.systems_all
@pytest.mark.parametrize(
    "name", ["add-partitions-late", "init-producer-id-late", "produce-late", "offset-commit-late", "txn-offset-commit-late"]
)
def test_other_late_requests_break_nothing(name: str, tmp_path: Path) -> None:
    code, summary = last_run(name, "4.1.0", tmp_path)

    assert (code, summary["verdict"], summary["hazard"], summary["anomalies"]) == (0, "VALID", "shown", [])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("read-process-write", marks=pytest.mark.systems),
        pytest.param("groups", marks=pytest.mark.systems_all),
        pytest.param("groups-cooperative", marks=pytest.mark.systems_all),
        pytest.param("groups-static", marks=pytest.mark.systems_all),
        pytest.param("process-coordinator-assigns", marks=pytest.mark.systems_all),
        pytest.param("transactions", marks=pytest.mark.systems_all),
        pytest.param("failover", marks=pytest.mark.systems_all),
    ],
)
def test_java_client_performs_every_workload(name: str, tmp_path: Path) -> None:
    need_client("4.1.0")
    code, summary = last_run_with(name, "--system", "kafka:4.1.0", "--client", "java:4.1.0", folder=tmp_path)

    assert outcome(code, summary) == KEPT
    assert all(fault["acted"] for fault in summary["faults"])
