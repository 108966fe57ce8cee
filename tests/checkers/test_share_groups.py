"""A recorded share group of Kafka 4.2.0 under faults is VALID; with one thing changed it is not.

The run performed corpus/real/share-groups.yaml: members left and abandoned records while brokers were killed, cut off and hung.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients.share_groups import CHECKER, DELIVERIES_MAX
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.2.0-share-groups"
Rows = list[Operation]
Place = tuple[str, int]  # partition and offset


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def test_recorded_share_group_is_valid() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert verdict.counts["settled"] > 300
    assert verdict.counts["redelivered"] > 50


def answers(rows: Rows, f: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The answers to operations of this kind, with their places in `rows`."""
    for at, row in enumerate(rows):
        if row.f == f and row.type is not OpType.INVOKE and row.value:
            yield at, json.loads(row.value)


def without_record(rows: Rows, place: Place, *, behind: int = -1) -> Rows:
    """The rows, with a record taken out of all polls and acknowledgements behind a row."""
    changed = list(rows)
    for f, what in (("share-poll", "records"), ("share-acknowledge", "acknowledged")):
        for at, answer in answers(rows, f):
            if at > behind and place[0] in answer.get(what, {}):
                answer[what][place[0]] = [record for record in answer[what][place[0]] if record[0] != place[1]]
                changed[at] = replace(rows[at], value=json.dumps(answer))
    return changed


def first_settled(rows: Rows, kind: str) -> tuple[int, Place]:
    """The first record whose acknowledgement of this kind was confirmed, with the place of that in `rows`."""
    for at, answer in answers(rows, "share-acknowledge"):
        for key in answer["confirmed"]:
            for offset, what in answer["acknowledged"].get(key, ()):
                if what == kind:
                    return at, (key, offset)
    raise AssertionError(f"nobody confirmed {kind}")


def record_left_out(rows: Rows) -> Rows:
    return without_record(rows, first_settled(rows, "accept")[1])


def released_record_forgotten(rows: Rows) -> Rows:
    """The first record that was released for certain is given to nobody afterwards."""
    at, place = first_settled(rows, "release")
    return without_record(rows, place, behind=at)


def accepted_record_again(rows: Rows) -> Rows:
    """The last member is given a record that was accepted long ago."""
    return delivered_at_the_end(rows, first_settled(rows, "accept")[1])


def rejected_record_again(rows: Rows) -> Rows:
    return delivered_at_the_end(rows, first_settled(rows, "reject")[1])


def delivered_at_the_end(rows: Rows, place: Place) -> Rows:
    at, answer = list(answers(rows, "share-poll"))[-1]
    answer["records"].setdefault(place[0], []).append([place[1], "again", DELIVERIES_MAX])
    return [*rows[:at], replace(rows[at], value=json.dumps(answer)), *rows[at + 1 :]]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (record_left_out, "undelivered-record"),
        (released_record_forgotten, "undelivered-record"),
        (accepted_record_again, "redelivered-record"),
        (rejected_record_again, "redelivered-record"),
    ],
)
def test_changed_history_has_the_anomaly(change: Callable[[Rows], Rows], kind: str) -> None:
    history = recorded_history()
    verdict = judge(History(history.manifest, operations=change(list(history.operations)), events=history.events), (CHECKER,))

    assert verdict.validity is Validity.INVALID
    assert kind in {anomaly.kind for anomaly in verdict.anomalies}


GIVEN = 'ok share-poll value={"group":"g","records":{"t-0":[[7,"a",1]]},"lock_ms":1000}'
LATER = "time_ns=9000000000"
AGAIN = (f"invoke share-poll {LATER} process=2", f"{GIVEN} {LATER} process=2")
EMPTY = (f"invoke share-poll {LATER} process=2", f'ok share-poll value={{"group":"g","records":{{}}}} {LATER} process=2')


def acknowledged(what: str, *, confirmed: bool = True) -> str:
    by = '["t-0"]' if confirmed else "[]"
    value = f'{{"group":"g","acknowledged":{{"t-0":[[7,"{what}"]]}},"confirmed":{by}}}'
    return f"{'ok' if confirmed else 'info'} share-acknowledge value={value}"


def kinds(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge(history_of(*lines), (CHECKER,)).anomalies]


def test_accepted_record_is_not_fetched_again() -> None:
    """docs/promise.md SES-5."""
    assert kinds(GIVEN, acknowledged("accept"), *EMPTY, *AGAIN) == ["redelivered-record"]


def test_record_fetched_before_its_acceptance_may_come_late() -> None:
    """The member's next poll returns what it had fetched by then."""
    assert kinds(GIVEN, acknowledged("accept"), *AGAIN) == []


def test_poll_right_after_the_acceptance_proves_nothing() -> None:
    """A fetch may have been under way for as long as a client waits for an answer."""
    soon = "ok share-poll value={'group':'g','records':{}} process=2".replace("'", '"')

    assert kinds(GIVEN, acknowledged("accept"), soon, *AGAIN) == []


def test_unconfirmed_or_released_record_may_come_again() -> None:
    assert kinds(GIVEN, acknowledged("accept", confirmed=False), *EMPTY, *AGAIN) == []
    assert kinds(GIVEN, acknowledged("release"), *EMPTY, *AGAIN) == []


def test_group_that_was_not_drained_is_unjudged() -> None:
    verdict = judge(history_of(GIVEN, acknowledged("accept")), (CHECKER,))

    assert verdict.validity is Validity.UNKNOWN
    assert any("missing records were not judged" in line for line in verdict.unchecked)


def test_poll_of_another_form_is_named() -> None:
    verdict = judge(history_of('ok share-poll value={"group":"g","records":{"t-0":[7]}}'), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert "share-groups: 1 answers cannot be read" in verdict.unchecked


def test_destroyed_bytes_excuse_what_they_may_explain() -> None:
    verdict = judge(history_of("wound node=b1", "wound node=b2", GIVEN, acknowledged("accept"), *EMPTY, *AGAIN), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("faults destroyed bytes of b1, b2" in line for line in verdict.unchecked)


PRODUCED = "ok produce value=a offset=7"
VAIN = 'ok share-poll value={"group":"g","records":{}}'
TAIL = "time_ns=3600000000000 process=2"  # of the last member


def drained(*lines: str) -> list[str]:
    """The kinds, with a last member that is given nothing for long."""
    other = 'ok share-acknowledge value={"group":"g","acknowledged":{"t-0":[[9,"accept"]]},"confirmed":["t-0"]}'
    leaves = 'ok share-leave value={"group":"g"}'
    polls = (f"invoke share-poll {TAIL}", f"{VAIN} {TAIL}", "invoke share-poll process=2 time_ns=3600000100000")
    return kinds(*lines, other, leaves, "healed", *polls, f"{VAIN} process=2 time_ns=3700000000000")


def test_record_that_was_never_given_is_missed() -> None:
    assert drained(PRODUCED, GIVEN) == ["undelivered-record"]
    assert drained(PRODUCED, GIVEN, acknowledged("accept")) == []


def test_acknowledgement_of_unknown_content_may_be_of_any_record() -> None:
    """Its client died, or was told nothing: it may have accepted what it was given, and nothing else."""
    silent = "info share-acknowledge process=1"

    assert drained(PRODUCED, GIVEN, f'{silent} value={{"group":"g"}}') == ["undelivered-record"]
    assert drained(PRODUCED, GIVEN, 'invoke share-acknowledge process=1 value={"group":"g"}', silent) == []
    assert drained(PRODUCED, 'invoke share-acknowledge process=1 value={"group":"g"}', silent, GIVEN) == ["undelivered-record"]


def test_record_of_a_failed_poll_may_have_been_accepted() -> None:
    """A client that lost the answer of a poll has its records all the same, and may accept them."""
    failed, asked = 'info share-poll process=1 value={"group":"g"}', 'invoke share-acknowledge process=1 value={"group":"g"}'
    silent = "info share-acknowledge process=1"

    assert drained(PRODUCED, failed, GIVEN) == ["undelivered-record"]
    assert drained(PRODUCED, failed, asked, silent, GIVEN) == []


def test_record_acknowledged_after_the_last_polls_is_not_missed() -> None:
    polls = (f"invoke share-poll {TAIL}", f"{VAIN} {TAIL}", "invoke share-poll process=2 time_ns=3600000100000")
    lines = (GIVEN, 'ok share-leave value={"group":"g"}', "healed", *polls, f"{VAIN} process=2 time_ns=3700000000000")

    assert kinds(PRODUCED, *lines) == ["undelivered-record"]
    assert kinds(*lines, f"{PRODUCED} process=3") == []
