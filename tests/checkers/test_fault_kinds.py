"""What judges conclude from a kind of fault: its family says it, whatever its name (`history.fault_kinds`)."""

from collections.abc import Callable

import pytest

from checkers.sketches import sketch
from history import fault_kinds
from history.fault_kinds import FAMILIES, family_of
from tests.checkers import test_brokers, test_clients, test_laggards, test_metadata, test_promptness

OF_ONE_BROKER = {"pause", "disk", "crash", "power"}
NEW = "pause-zookeeper-place"  # its words name several families


def excuses_every_step(fault: str) -> bool:
    return test_promptness.complaints(test_promptness.ASKED, f"{fault} node=b7") == []


def excuses_a_role_in_a_failed_directory(fault: str) -> bool:
    """Whether a broker may keep its role longer after a failed directory under this fault."""
    late_resignation = test_promptness.row_at("resigned node=b1", 40)
    return "role" not in " ".join(
        test_promptness.complaints(*test_promptness.PLACED, test_promptness.FAILED, f"{fault} node=b1", late_resignation)
    )


def excuses_a_leader_from_proposing(fault: str) -> bool:
    rows = *test_laggards.LED, test_laggards.ROW, f"{fault} node=b1 time_ns=2000000000", test_laggards.END
    return sketch("laggards", *rows) == []


def excuses_a_broker_from_fencing_itself(fault: str) -> bool:
    rows = test_brokers.ACTIVE, f"{fault} node=b1", "session-ended node=b1 incarnation=1"
    return sketch("brokers", *rows, "gauge node=b3 gauge=0 time_ns=9000000000") == []


def excuses_a_shorter_log(fault: str) -> bool:
    return sketch("brokers", test_brokers.LED, f"{fault} node=b1", "recovered node=b1 leo=8 hw=0") == []


def excuses_an_old_answer_of_another_broker(fault: str) -> bool:
    return test_metadata.complaints(f"{fault} node=b3", answer=test_metadata.RIGHT.replace("epoch=1", "epoch=0")) == []


def excuses_a_read_at_another_broker(fault: str) -> bool:
    """Whether a read at b1 may hang while this fault is in force at b2."""
    before = "invoke poll offset=0 process=0 time_ns=5000000000", "ok poll process=0 node=b1 time_ns=5100000000"
    hangs = test_clients._poll(0, 6, "error=REQUEST_TIMED_OUT node=b1")
    rows = (test_clients.LED, f"{fault} node=b2 time_ns=4000000000", *before, *hangs, test_clients.HEALED)
    return test_clients._complaints_with_places(*rows) == []


@pytest.mark.parametrize(
    ("excuses", "families"),
    [
        (excuses_every_step, {"zookeeper"}),
        (excuses_a_role_in_a_failed_directory, {"pause"}),
        (excuses_a_leader_from_proposing, {"pause", "clock"}),
        (excuses_a_broker_from_fencing_itself, {"pause", "clock"}),
        (excuses_a_shorter_log, {"disk", "power", "point"}),
        (excuses_an_old_answer_of_another_broker, {*FAMILIES} - OF_ONE_BROKER - {"place"}),
        (excuses_a_read_at_another_broker, {*FAMILIES} - OF_ONE_BROKER),
    ],
)
def test_new_kind_of_fault_is_judged_by_its_family(
    excuses: Callable[[str], bool], families: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for family in FAMILIES:
        monkeypatch.setitem(fault_kinds._BY_NAME, NEW, family)
        found |= {family} if excuses(f"fault-begun fault=f detail={NEW}") else set()

    assert found == families


def test_unlisted_fault_name_is_read_by_its_first_word() -> None:
    assert [family_of(name) for name in ("place-clog", "dir-gone", "cut", "pause", "lossy")] == [
        "place",
        "disk",
        "partition",
        "pause",
        None,
    ]
