"""The table of errors: which errors are failures, and the next process number."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.op import ADMIN_REQUESTS, OpType
from reference.errors import ErrorCode
from workloads.client import RequestF
from workloads.completion import PRODUCE, completion_type, number_after


def test_every_protocol_error_has_a_completion_type() -> None:
    """A new error must get its row in the table instead of the default."""
    assert {name for name in PRODUCE if not name.startswith("_")} == {code.name for code in ErrorCode}


def test_librdkafka_errors_are_info_except_queue_full() -> None:
    """librdkafka does not tell whether it had sent a message that timed out."""
    own = {name: outcome for name, outcome in PRODUCE.items() if name.startswith("_")}

    assert {name for name, outcome in own.items() if outcome is not OpType.INFO} == {"_QUEUE_FULL"}
    assert {"_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_FATAL", "_PURGE_QUEUE", "_PURGE_INFLIGHT"} < set(own)
    assert own["_QUEUE_FULL"] is OpType.FAIL


def test_produce_fails_only_on_errors_before_the_append() -> None:
    """A wrong `fail` would report an aborted read when the record appears (requirements U-24)."""
    definite = {name for name, outcome in PRODUCE.items() if outcome is OpType.FAIL and not name.startswith("_")}

    sequences = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID"}
    bytes_refused = {"CORRUPT_MESSAGE", "INVALID_RECORD"}
    assert definite == {"NOT_ENOUGH_REPLICAS", "INVALID_REQUIRED_ACKS", "UNKNOWN_TOPIC_OR_PARTITION"} | sequences | bytes_refused


def test_retried_produce_fails_only_if_all_attempts_failed() -> None:
    """U-24, B-66: the record of an attempt that timed out may be in the log although the next attempt was refused."""
    refused = "NOT_ENOUGH_REPLICAS"

    assert completion_type("produce", refused, sent=True, earlier=("REQUEST_TIMED_OUT",)) is OpType.INFO
    assert completion_type("produce", refused, sent=True, earlier=(refused, refused)) is OpType.FAIL


@pytest.mark.parametrize("error", [6, 7, 13, 20, 56])
def test_errors_possible_after_an_append_are_info(error: int) -> None:
    assert completion_type("produce", ErrorCode(error).name, sent=True) is OpType.INFO


@given(st.text())
def test_unknown_error_of_a_produce_is_info(name: str) -> None:
    expected = PRODUCE.get(name, OpType.INFO)

    assert completion_type("produce", name, sent=True) is expected


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_operation_without_effect_fails_on_any_error(code: ErrorCode) -> None:
    assert completion_type("produce", code.name, sent=False) is OpType.FAIL
    assert completion_type("poll", code.name, sent=True) is OpType.FAIL
    assert completion_type("latest", code.name, sent=True) is OpType.FAIL


@pytest.mark.parametrize("error", [None, "NONE"])
def test_completion_without_error_is_ok(error: str | None) -> None:
    assert completion_type("produce", error, sent=True) is OpType.OK


@given(
    processes=st.integers(1, 8),
    endings=st.lists(st.tuples(st.integers(0, 7), st.sampled_from([OpType.OK, OpType.FAIL, OpType.INFO])), max_size=60),
)
def test_process_number_is_not_reused_after_unknown_outcome(processes: int, endings: list[tuple[int, OpType]]) -> None:
    """An operation of unknown outcome stays open; a second operation under its number would overlap with it."""
    numbers = list(range(processes))
    retired: set[int] = set()
    for client, ending in ((client % processes, ending) for client, ending in endings):
        if ending is OpType.INFO:
            retired.add(numbers[client])
        numbers[client] = number_after(numbers[client], ending, processes=processes)

        assert not retired & set(numbers)
        assert len(set(numbers)) == processes


def test_admin_requests_of_histories_are_those_of_clients() -> None:
    """A request that one of the lists lacks would not be judged (LIVE-5)."""
    assert set(get_args(RequestF)) == set(ADMIN_REQUESTS)
