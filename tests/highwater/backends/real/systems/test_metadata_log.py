"""The metadata log of real clusters, recorded in runs of corpus/real: KIP-966 on 4.1.0 and KIP-101 on 3.9.1."""

import struct
from pathlib import Path

import pytest

from highwater.backends.real.cluster_state import znodes_of
from highwater.backends.real.systems.kafka.metadata_log import FOLDER, as_commits, committed
from highwater.errors import HarnessError
from highwater.rig.evidence import CommitRows
from history.event import EventKind
from history.recorder import EventColumns
from reference.coordination import paths
from reference.types import TopicPartition

LOGS = Path(__file__).parent / "metadata_logs"
SEGMENT = "00000000000000000000.log"
FRAME = struct.Struct(">qi")


def nodes(folder: Path, *logs: bytes) -> list[Path]:
    """A log directory for each node, with its metadata log."""
    paths_found = []
    for number, data in enumerate(logs):
        (folder / str(number) / FOLDER).mkdir(parents=True)
        (folder / str(number) / FOLDER / SEGMENT).write_bytes(data)
        paths_found.append(folder / str(number))
    return paths_found


def rows(folder: Path, name: str) -> list[tuple[EventKind, EventColumns]]:
    """The rows of the workload's topic and of brokers that a recorded log gives."""
    data = (LOGS / name).read_bytes()
    commit_rows = CommitRows()
    commits = as_commits(committed(nodes(folder, data, data, data)))
    found = [row for commit in commits for row in commit_rows.of(commit, writer=None, life=None)]
    return [(kind, columns) for kind, columns in found if not (columns.get("topic") or "").startswith("__")]


def states(found: list[tuple[EventKind, EventColumns]]) -> list[tuple[object, ...]]:
    names = ("leader", "leader_epoch", "zk_version", "isr", "elr")
    return [tuple(columns.get(name) for name in names) for kind, columns in found if kind is EventKind.STATE_WRITTEN]


def test_states_of_a_partition_come_with_isr_and_elr(tmp_path: Path) -> None:
    assert states(rows(tmp_path, "kip966-4.1.0.log")) == [
        ("b1", 0, 0, ("b1", "b2", "b3"), ()),
        ("b1", 0, 1, ("b1",), ("b2", "b3")),  # the last replica standing
        ("b2", 1, 2, ("b2",), ("b1", "b3")),
        ("b2", 1, 3, ("b2", "b3"), ()),
        ("b2", 1, 4, ("b2", "b3", "b1"), ()),
    ]


def test_release_without_elr_writes_states_without_it(tmp_path: Path) -> None:
    assert states(rows(tmp_path, "kip101-3.9.1.log")) == [
        ("b1", 0, 0, ("b1", "b2", "b3"), ()),
        ("b1", 0, 1, ("b1", "b3"), ()),
        ("b3", 1, 2, ("b3",), ()),
        ("b3", 1, 3, ("b3", "b2"), ()),
        ("b3", 1, 4, ("b3", "b2", "b1"), ()),
    ]


def test_fenced_broker_has_no_session_until_it_registers_again(tmp_path: Path) -> None:
    kinds = (EventKind.REGISTERED, EventKind.SESSION_ENDED)
    found = [
        (kind, columns["node"], columns["incarnation"]) for kind, columns in rows(tmp_path, "kip966-4.1.0.log") if kind in kinds
    ]

    assert found == [
        (EventKind.REGISTERED, "b2", 8),
        (EventKind.REGISTERED, "b1", 12),
        (EventKind.REGISTERED, "b3", 17),
        (EventKind.SESSION_ENDED, "b1", 12),
        (EventKind.REGISTERED, "b1", 70),
    ]


def test_replicas_of_a_partition_are_assigned_once(tmp_path: Path) -> None:
    typed_dict_types = [columns for kind, columns in rows(tmp_path, "kip966-4.1.0.log") if kind is EventKind.ASSIGNED]

    assert [
        (typed_dict_type["topic"], typed_dict_type["topic_id"], typed_dict_type["partition"], typed_dict_type["replicas"])
        for typed_dict_type in typed_dict_types
    ] == [("t", "20", 0, ("b1", "b2", "b3"))]


def test_znodes_at_the_end_are_those_of_the_last_commits(tmp_path: Path) -> None:
    data = (LOGS / "kip966-4.1.0.log").read_bytes()

    topics, znodes = znodes_of(as_commits(committed(nodes(tmp_path, data))))

    assert [(name, znode.czxid) for name, znode in topics] == [("t", 20), ("__consumer_offsets", 25)]
    tp = TopicPartition("t-0")
    state = paths.decode_state(tp, (), znodes[paths.state_path(tp)])
    assert (state.leader, state.zk_version, [member.broker for member in state.isr]) == (2, 4, [2, 3, 1])


def test_records_that_only_a_minority_holds_are_not_committed(tmp_path: Path) -> None:
    whole = (LOGS / "kip966-4.1.0.log").read_bytes()
    half = cut_before(whole, 44)

    assert committed(nodes(tmp_path, whole, half, half))[-1].offset == 43
    assert committed(nodes(tmp_path / "2", whole, whole, half))[-1].offset > 44
    assert committed(nodes(tmp_path / "3", whole)) != []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_nodes_without_a_metadata_log_have_committed_nothing(tmp_path: Path, count: int) -> None:
    assert committed([tmp_path / str(number) for number in range(count)]) == []


def test_metadata_log_without_its_beginning_is_a_harness_error(tmp_path: Path) -> None:
    data = (LOGS / "kip966-4.1.0.log").read_bytes()
    (directory,) = nodes(tmp_path, data[len(cut_before(data, 44)) :])

    with pytest.raises(HarnessError, match="its first segment is gone"):
        as_commits(committed([directory]))


def cut_before(data: bytes, offset: int) -> bytes:
    """The batches of a log below this offset."""
    at = 0
    while FRAME.unpack_from(data, at)[0] < offset:
        at += FRAME.size + FRAME.unpack_from(data, at)[1]
    return data[:at]
