"""Lines that brokers of several releases printed become rows of the history."""

from pathlib import Path

import pytest

from highwater.backends.real.systems.kafka.log_lines import note_of, notes_of
from history.event import EventKind
from reference.types import Address

TRUNCATED = {
    "0.10.2.2": "Truncating log t-0 to offset 40. (kafka.log.Log)",
    "1.1.1": "[Log partition=t-0, dir=/x/b2/data-0/logs] Truncating to offset 40 (kafka.log.Log)",
    "3.9.1": "[UnifiedLog partition=t-0, dir=/x/b2/data-0/logs] Truncating to offset 40 (kafka.log.UnifiedLog)",
}
LED = (
    "[Broker id=2] Leader t-0 with topic id Some(fTNIMN6LSdKtx752vUlYxw) starts at leader epoch 1 from offset 40 with partition "
    "epoch 1, high watermark 30, ISR [2,3], adding replicas [] and removing replicas [] . Previous leader Some(1) and previous "
    "leader epoch was 0. (state.change.logger)"
)


@pytest.mark.parametrize("version", sorted(TRUNCATED))
def test_truncation_in_a_log_line_becomes_a_note(version: str) -> None:
    note = note_of(TRUNCATED[version])

    assert note is not None
    assert (note.kind, note.tp, note.offset) == (EventKind.TRUNCATE, "t-0", 40)


def test_truncation_row_quotes_the_broker_without_its_folders() -> None:
    note = note_of(TRUNCATED["1.1.1"])

    assert note is not None
    assert note.detail == "the broker's log: [Log partition=t-0, dir=…] Truncating to offset 40"


def test_new_leader_in_a_log_line_has_end_and_high_watermark() -> None:
    """What is acknowledged above that high watermark is what HW truncation loses."""
    note = note_of(LED)

    assert note is not None
    assert (note.kind, note.leader_epoch, note.leo, note.hw) == (EventKind.BECAME_LEADER, 1, 40, 30)


@pytest.mark.parametrize(
    "message",
    [
        "[UnifiedLog partition=t-0, dir=/x] Truncating to 0 has no effect as the largest offset in the log is -1 (kafka.log.Log)",
        LED.replace("t-0", "__consumer_offsets-0"),
        "[Partition t-0 broker=2] Log loaded for partition t-0 with initial high watermark 30 (kafka.cluster.Partition)",
    ],
)
def test_log_line_without_an_effect_on_the_workload_is_no_note(message: str) -> None:
    assert note_of(message) is None


def test_notes_know_the_life_and_order_of_their_lines(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    first = f"noise\n[2026-01-02 03:04:05,006] INFO {TRUNCATED['0.10.2.2']}\n"
    output.write_text(f"{first}[2026-01-02 03:04:06,007] INFO {LED}\n")

    notes = notes_of(Address("b2"), output, [0, len(first)])

    assert [(line.life, line.note.kind) for line in notes] == [(1, EventKind.TRUNCATE), (2, EventKind.BECAME_LEADER)]
    assert notes[1].wall_ns - notes[0].wall_ns == 1_001_000_000


def test_failed_directory_in_a_log_line_is_a_note() -> None:
    """The broker is restarted once the directory works again, since it does not look a second time (KIP-112)."""
    note = note_of("[ReplicaManager broker=1] Stopping serving replicas in dir /x/b1/data-1/logs (kafka.server.ReplicaManager)")

    assert note is not None
    assert (note.kind, note.tp, note.dir) == (EventKind.DIR_FAILED, None, 1)
