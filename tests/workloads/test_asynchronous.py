"""Asynchronous producers: records go out in the background, and what is given up stands in the log (R-130)."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from highwater.backends.sim.backend import SimBackend
from highwater.errors import UsageError
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.history import History
from history.op import OpType
from tests.tidy.sources import ROOT
from workloads.asynchronous import BATCH_MAX, processes
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Asynchronous, Parameters, PartitionName

PARTITIONS = (PartitionName("t", 0), PartitionName("t", 1))
OK, REFUSED = Completion(type=OpType.OK, offset=0), Completion(type=OpType.FAIL, error="NOT_ENOUGH_REPLICAS")


def clients_of(spec: Asynchronous, **parameters: Any) -> tuple[Process, ...]:
    return processes(1, Parameters(partitions=PARTITIONS, asynchronous=spec, **parameters))


def perform_next(process: Process, completion: Completion = OK, *, now_ms: int = 0, phase: Phase = "faults") -> Invocation:
    """Let the process do its next operation."""
    step = process.next(now_ms=now_ms, phase=phase)
    assert isinstance(step, Invocation)
    process.completed(step, completion)
    return step


def test_send_returns_before_its_record_goes_out() -> None:
    """R-130: the program that sends hears of no broker."""
    producer, *senders = clients_of(Asynchronous())

    assert senders[0].next(now_ms=0, phase="faults") == Sleep(20)
    sends = [perform_next(producer, now_ms=1000 * second) for second in range(3)]
    assert {send.f for send in sends} == {"send"}
    assert {value for send in sends for value in send.values} == {"a0-0", "a0-1", "a0-2"}


def test_several_batches_of_one_producer_are_in_flight() -> None:
    producer, *senders = clients_of(Asynchronous(in_flight=2), records_per_produce=BATCH_MAX)
    sends = [perform_next(producer, now_ms=1000 * second) for second in range(3)]
    batches = [sender.next(now_ms=0, phase="faults") for sender in senders]

    assert [batch.values for batch in batches if isinstance(batch, Invocation)] == [send.values for send in sends[:2]]


def test_batch_has_records_of_one_partition_only() -> None:
    producer, sender = clients_of(Asynchronous(in_flight=1))
    sends = [perform_next(producer, now_ms=1000 * second) for second in range(30)]
    batches = []
    while isinstance(batch := sender.next(now_ms=0, phase="faults"), Invocation):
        batches.append(batch)
        sender.completed(batch, OK)

    of_partition = {value: send.partition for send in sends for value in send.values}
    assert sorted(value for batch in batches for value in batch.values) == sorted(of_partition)
    assert all({of_partition[value] for value in batch.values} == {batch.partition} for batch in batches)
    assert 1 < max(len(batch.values) for batch in batches) <= BATCH_MAX


def test_batch_is_sent_again_three_times_as_in_the_article() -> None:
    """R-130: message.send.max.retries is 3 by default."""
    producer, sender, *_ = clients_of(Asynchronous())
    perform_next(producer)

    assert perform_next(sender).retries == 3


def test_batch_that_is_given_up_is_logged_with_its_error() -> None:
    """R-130: "the user can only discover the problem through the log"; the producer goes on."""
    producer, sender = clients_of(Asynchronous(in_flight=1))
    perform_next(producer)
    batch = perform_next(sender, REFUSED)
    entry = perform_next(sender)

    assert (entry.f, entry.values, entry.logged) == ("log", batch.values, "NOT_ENOUGH_REPLICAS")
    assert sender.next(now_ms=0, phase="faults") == Sleep(20)
    assert perform_next(producer, now_ms=1000).f == "send"


def test_senders_end_when_nothing_waits() -> None:
    producer, sender = clients_of(Asynchronous(in_flight=1))
    perform_next(producer)

    assert perform_next(producer, now_ms=1000, phase="quiet").f == "produce"
    assert perform_next(sender, phase="final").f == "produce"
    assert sender.next(now_ms=0, phase="final") == Done()


# --- a run ---------------------------------------------------------------------------------------------------------------


PLAN = load_plan(ROOT / "corpus" / "plans" / "given-up-in-the-background.yaml")


def history_of(plan: Plan) -> History:
    run = SimBackend().perform(plan, Provenance(run_id="test", plan_digest=""))
    assert run.failure is None
    return run.history


def values(history: History, f: str, type_: OpType, error: str | None = None) -> set[str | None]:
    rows = (row for row in history.operations if (row.f, row.type) == (f, type_))
    return {row.value for row in rows if error is None or row.error == error}


def test_only_the_log_tells_of_records_that_are_lost() -> None:
    """R-130: refused before the append, so they are nowhere; no produce of a client that waits was answered with success."""
    history = history_of(PLAN)
    verdict = judge(history)
    lost = values(history, "log", OpType.INVOKE, "NOT_ENOUGH_REPLICAS")

    assert (verdict.validity.name, verdict.live, verdict.anomalies) == ("VALID", True, ())
    assert len(lost) > 20
    assert lost <= values(history, "send", OpType.OK)
    assert not lost & values(history, "produce", OpType.OK)
    assert not lost & values(history, "poll", OpType.OK)
    assert {row.attempts for row in history.operations if row.value in lost and row.type is OpType.FAIL} == {4}


def test_record_that_nobody_logs_is_an_anomaly() -> None:
    history = history_of(PLAN)
    silent = History(history.manifest, operations=[row for row in history.operations if row.f != "log"], events=history.events)

    assert {anomaly.kind for anomaly in judge(silent).anomalies} == {"unlogged-loss"}


@pytest.mark.parametrize(("name", "value"), [("producers", 0), ("retries", -1), ("in_flight", 0)])
def test_impossible_asynchronous_producers_are_refused(name: str, value: int) -> None:
    spec = replace(Asynchronous(), **{name: value})
    least = 0 if name == "retries" else 1

    with pytest.raises(UsageError, match=re.escape(f"{name} must be at least {least}, not {value}")):
        checked(replace(PLAN, workload=replace(PLAN.workload, asynchronous=spec)))


def test_a_billion_clients_are_refused() -> None:
    with pytest.raises(UsageError, match="make more than 10000 clients"):
        checked(replace(PLAN, workload=replace(PLAN.workload, asynchronous=Asynchronous(in_flight=1_000_000_000))))
    with pytest.raises(UsageError, match="producers must be at most 10000, not 1000000"):
        checked(replace(PLAN, workload=replace(PLAN.workload, producers=1_000_000)))


@pytest.mark.parametrize("workload", ["transactions", "read-process-write", "zombies"])
def test_asynchronous_beside_transactions_is_refused(workload: str) -> None:
    """What they send belongs to no transaction, and would be taken for a record of nobody."""
    plan = load_plan(ROOT / "corpus" / "real" / f"{workload}.yaml")

    with pytest.raises(UsageError, match="asynchronous producers would write among the records"):
        checked(replace(plan, workload=replace(plan.workload, asynchronous=Asynchronous())))
