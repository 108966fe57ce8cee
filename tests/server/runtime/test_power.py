"""Power loss on real files: all synced data stays, and the result is a state that the log had since its last flush."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.messages import Batch
from reference.sealed import count
from reference.types import Incarnation, Offset, TopicId, TopicPartition
from server.disk.log_dirs import Disk, look
from server.lab.flush_ledger import FlushLedger
from server.lab.power import Loss, Wound, lose_power
from tests.server.runtime.batches import batch, header_only

TP = TopicPartition("a.b-0")
BORN = Incarnation(7)
TOPIC = TopicId(77)
ALL = Loss(seed=1, lose_all=True)


class Machine:
    """One broker's log directory with its ledger, over several processes."""

    def __init__(self, root: Path, segment_bytes: int = 1 << 30) -> None:
        self.ledger = root / "ledger"
        self.path = root / "data"
        self._segment_bytes = segment_bytes
        self.start()

    def start(self) -> None:
        self._book = FlushLedger(self.ledger)
        self.disk = Disk([self.path], segment_bytes=self._segment_bytes, ledger=self._book)
        self.disk.recover()

    def kill(self) -> None:
        """Kill the process; the page cache survives."""
        self.disk.close()
        self._book.close()

    def lose_power(self, loss: Loss) -> list[Wound]:
        self.kill()
        return lose_power(self.ledger, [self.path], [0], loss)

    def batches(self) -> list[Batch]:
        (image,) = look([self.path])
        assert image.readable
        return [b for log in image.logs for b in log.batches]


def test_power_loss_leaves_synced_batches_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a", "b"), batch(2, "c")])
    machine.disk.flush_job(0)()
    machine.disk.append(0, TP, [batch(3, "d"), batch(4, "e")])
    wounds = machine.lose_power(ALL)
    assert machine.batches() == [header_only(batch(0, "a", "b")), header_only(batch(2, "c"))]
    assert wounds == [Wound(dir=0, tp=TP, topic_id=TOPIC, offset=Offset(3))]


def test_kill_loses_nothing_but_leaves_unsynced_data(tmp_path: Path) -> None:
    """SIGKILL, then a power loss in the next process before its first flush."""
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a")])
    machine.kill()
    machine.start()
    assert machine.batches() == [header_only(batch(0, "a"))]
    machine.lose_power(ALL)
    assert machine.batches() == []


def test_first_flush_after_a_restart_syncs_earlier_data(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a")])
    machine.kill()
    machine.start()
    machine.disk.flush_job(0)()
    assert machine.lose_power(ALL) == []
    assert machine.batches() == [header_only(batch(0, "a"))]


def test_data_that_survives_a_power_loss_is_durable(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a"), batch(1, "b"), batch(2, "c")])
    machine.lose_power(Loss(seed=3))
    remaining_batches = machine.batches()
    machine.start()
    assert machine.lose_power(ALL) == []
    assert machine.batches() == remaining_batches


def test_power_loss_undoes_an_unsynced_truncation(tmp_path: Path) -> None:
    """A follower truncates and appends other records without a flush: a power loss brings the old records back."""
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    old = [batch(0, "a"), batch(1, "b"), batch(2, "c")]
    machine.disk.append(0, TP, old)
    machine.disk.flush_job(0)()
    machine.disk.truncate(0, TP, Offset(1))
    machine.disk.append(0, TP, [batch(1, "x", epoch=1)])
    wounds = machine.lose_power(ALL)
    assert machine.batches() == [header_only(b) for b in old]
    assert wounds == [Wound(dir=0, tp=TP, topic_id=TOPIC, offset=Offset(1))]


def test_flush_does_not_make_a_later_truncation_durable(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    old = [batch(0, "a"), batch(1, "b")]
    machine.disk.append(0, TP, old)
    flush = machine.disk.flush_job(0)
    machine.disk.truncate(0, TP, Offset(1))
    flush()
    machine.lose_power(ALL)
    assert machine.batches() == [header_only(b) for b in old]


def test_power_loss_restores_a_replica_deleted_without_flush(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a")])
    machine.disk.flush_job(0)()
    machine.disk.delete(0, TP)
    assert machine.lose_power(ALL) == []
    assert machine.batches() == [header_only(batch(0, "a"))]
    machine.start()
    machine.disk.delete(0, TP)
    machine.disk.flush_job(0)()
    machine.lose_power(ALL)
    assert machine.batches() == []


def test_recreated_replica_never_gets_the_deleted_records(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a"), batch(1, "b")])
    machine.disk.flush_job(0)()
    machine.disk.delete(0, TP)
    machine.disk.create(0, TP, BORN, TopicId(78))
    machine.disk.append(0, TP, [batch(0, "new"), batch(1, "newer")])
    wounds = machine.lose_power(ALL)
    assert machine.batches() == []
    assert wounds == [Wound(dir=0, tp=TP, topic_id=TopicId(78), offset=Offset(0))]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("truncate"), st.integers(0, 12)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=14,
)


@given(STEPS, st.sampled_from([120, 250, 1 << 30]), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_power_loss_leaves_a_log_state_since_the_last_flush(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int]],
    segment_bytes: int,
    seed: int,
    torn: bool,
    lose_all: bool,
) -> None:
    """As in the simulator: only the last changes since the last flush are undone, as many as the seed draws."""
    machine = Machine(tmp_path_factory.mktemp("m"), segment_bytes)
    machine.disk.create(0, TP, BORN, TOPIC)
    model: list[Batch] = []
    states: list[list[Batch]] = [[]]  # the states since the last flush, after each step
    for number, (step, argument) in enumerate(steps):
        end = model[-1].base_offset + count(model[-1].values) if model else 0
        if step == "append":
            model = [*model, header_only(batch(end, *(f"{number}-{i}" for i in range(argument)), epoch=number))]
            machine.disk.append(0, TP, [batch(end, *(f"{number}-{i}" for i in range(argument)), epoch=number)])
            states.append(model)
        elif step == "truncate":
            boundary = max((b.base_offset for b in model if b.base_offset <= argument), default=0)
            model = [b for b in model if b.base_offset < boundary]
            machine.disk.truncate(0, TP, Offset(boundary))
            states.append(model)
        elif step == "flush":
            machine.disk.flush_job(0)()
            states = [model]
        else:
            machine.kill()
            machine.start()
    wounds = machine.lose_power(Loss(seed=seed, torn=torn, lose_all=lose_all))
    remaining_batches = machine.batches()

    assert remaining_batches in states
    different = [
        new.base_offset for new, old in zip(model, [*remaining_batches, *[None] * len(model)], strict=False) if new != old
    ]
    assert [wound.offset for wound in wounds] == different[:1]
    machine.start()
    assert machine.batches() == remaining_batches


def test_power_loss_reaches_every_possible_outcome(tmp_path_factory: pytest.TempPathFactory) -> None:
    lengths = set()
    for seed in range(40):
        machine = Machine(tmp_path_factory.mktemp("m"))
        machine.disk.create(0, TP, BORN, TOPIC)
        machine.disk.append(0, TP, [batch(0, "a"), batch(1, "b")])
        machine.disk.flush_job(0)()
        machine.disk.append(0, TP, [batch(2, "c")])
        machine.disk.truncate(0, TP, Offset(1))
        machine.disk.append(0, TP, [batch(1, "x", epoch=1), batch(2, "y", epoch=1)])
        machine.lose_power(Loss(seed=seed))
        lengths.add(tuple((b.base_offset, b.leader_epoch) for b in machine.batches()))
    x, y = (1, 1), (2, 1)
    assert lengths == {((0, 0), (1, 0)), ((0, 0), (1, 0), (2, 0)), ((0, 0),), ((0, 0), x), ((0, 0), x, y)}


def test_power_loss_command_prints_the_logs_with_lost_records(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.disk.create(0, TP, BORN, TOPIC)
    machine.disk.append(0, TP, [batch(0, "a")])
    machine.kill()
    command = [sys.executable, "-m", "server.lab.power", "--ledger", str(machine.ledger), "--dir", str(machine.path)]
    completed = subprocess.run([*command, "--seed", "1", "--all"], capture_output=True, text=True, check=False)
    assert completed.returncode == 0
    wounds = [msgspec.json.decode(line, type=Wound) for line in completed.stdout.splitlines()]
    assert wounds == [Wound(dir=0, tp=TP, topic_id=TOPIC, offset=Offset(0))]
    wrong = subprocess.run([*command, "--seed", "1", "--only", "3"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, "--only must be from 0 to 0, the directories given\n")
    machine.ledger.write_text("{}\n")
    broken = subprocess.run([*command, "--seed", "1"], capture_output=True, text=True, check=False)
    assert broken.returncode == 2
    assert broken.stderr.startswith(f"{machine.ledger}: ")
    assert broken.stderr.count("\n") == 1
