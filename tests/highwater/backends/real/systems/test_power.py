"""What a process did not flush is undone; the library that records flushes is loaded into Python here, as it is into a JVM."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.real.systems.kafka import power
from highwater.backends.real.systems.kafka.power import FlushRecord
from highwater.backends.real.systems.kafka.segments import look
from highwater.backends.real.systems.kafka.system import Kafka
from highwater.backends.real.systems.limits import too_many_wounds
from highwater.backends.real.systems.registry import bearable
from highwater.errors import HarnessError
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from nemesis.targets import AnyTarget, Everyone, LeaderOf, Named, Random
from reference.sealed import in_the_clear
from server.lab.power import Loss
from tests.highwater.backends.real.systems.test_segments import batch, messages
from tests.tidy.sources import ROOT

ALL = Loss(seed=1, lose_all=True)
# What each process does with its log: the words are commands, the rest are bytes in hexadecimal to append.
PROCESS = """
import os, sys
log = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND)
for word in sys.argv[2:]:
    if word == "fsync": os.fsync(log)
    elif word == "fdatasync": os.fdatasync(log)
    elif word.startswith("cut="): os.ftruncate(log, int(word[4:]))
    elif word == "anew":
        os.rename(sys.argv[1], sys.argv[1] + ".deleted")
        log = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND)
    else: os.write(log, bytes.fromhex(word))
os._exit(9)
"""

pytestmark = pytest.mark.skipif(power.missing() is not None, reason=str(power.missing()))
A, B, C, D = (batch(offset, [value]).hex() for offset, value in enumerate("abcd"))
SIZE = len(A) // 2


class Broker:
    """One broker with a log and the record of its flushes."""

    def __init__(self, folder: Path, replica: str = "t-0") -> None:
        self._path = folder / "data-0" / "logs"
        self.segment = self._path / replica / "00000000000000000000.log"
        self.segment.parent.mkdir(parents=True)
        self.flushes = FlushRecord(folder, [self._path])

    def lives(self, *words: str) -> None:
        """One process of the broker, which is killed after these commands."""
        command = [sys.executable, "-c", PROCESS, str(self.segment), *words]
        completed = subprocess.run(command, check=False, env={**os.environ, **self.flushes.environment()})
        assert completed.returncode == 9

    def loses_power(self, how: Loss = ALL) -> list[int]:
        """The first destroyed offset of each log that lost records."""
        return [wound.offset for wound in self.flushes.lose_unflushed([0], how)]

    def values(self) -> str:
        return "".join(
            value for log in look([self._path])[0].logs for this_batch in log.batches for value in in_the_clear(this_batch.values)
        )


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


@pytest.mark.parametrize("flush", ["fsync", "fdatasync"])
def test_flushed_records_survive_and_others_do_not(broker: Broker, flush: str) -> None:
    broker.lives(A, B, flush, C)

    assert broker.loses_power() == [2]
    assert broker.values() == "ab"


def test_log_that_was_never_flushed_is_empty_afterwards(broker: Broker) -> None:
    """Kafka flushes no segment in use by itself."""
    broker.lives(A, B)

    assert broker.loses_power() == [0]
    assert broker.values() == ""


def test_messages_of_an_old_format_are_lost_too(broker: Broker) -> None:
    broker.lives(messages(0, ["a", "b"]).hex(), "fsync", messages(2, ["c"]).hex())

    assert broker.loses_power() == [2]


def test_unflushed_truncation_is_undone(broker: Broker) -> None:
    broker.lives(A, B, C, "fsync", f"cut={SIZE}", D)

    assert broker.loses_power() == [3]
    assert broker.values() == "abc"


def test_truncated_log_without_a_flush_is_empty_afterwards(broker: Broker) -> None:
    broker.lives(A, B, C, f"cut={SIZE}", D)

    assert broker.loses_power() == [0]
    assert broker.values() == ""


def test_flushed_truncation_is_kept(broker: Broker) -> None:
    broker.lives(A, B, "fsync", f"cut={SIZE}", "fsync")

    assert broker.loses_power() == []
    assert broker.values() == "a"


def test_segment_of_a_reused_name_has_nothing_durable(broker: Broker) -> None:
    """Kafka renames a segment that it deletes, and may begin another one at the same offset."""
    broker.lives(A, B, "fsync", "anew", A)

    assert broker.loses_power() == [0]


def test_later_processes_add_to_the_record(broker: Broker) -> None:
    broker.lives(A, "fsync")
    broker.lives(B)
    first = broker.loses_power()
    broker.lives(B, "fsync", C)

    assert (first, broker.loses_power(), broker.values()) == ([1], [2], "ab")


def test_second_power_loss_of_a_stopped_broker_loses_nothing(broker: Broker) -> None:
    broker.lives(A, "fsync", B)

    assert (broker.loses_power(), broker.loses_power(), broker.values()) == ([1], [], "a")


@pytest.mark.parametrize("seed", range(3))
def test_drawn_part_of_the_unflushed_records_survives(broker: Broker, seed: int) -> None:
    broker.lives(A, "fsync", B, C, D)

    broker.loses_power(Loss(seed=seed, torn=True))

    assert broker.values() in ("a", "ab", "abc", "abcd")


def test_internal_topics_lose_records_without_wounds(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "__consumer_offsets-0")
    broker.lives(A)

    assert broker.loses_power() == []
    assert not broker.segment.stat().st_size


def test_process_without_the_library_is_a_harness_error(broker: Broker) -> None:
    """All its records would count as unflushed."""
    with pytest.raises(HarnessError, match=r"nothing in .* recorded what its JVM flushed"):
        broker.loses_power()


def test_power_loss_without_a_compiler_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = on_system(load_plan(ROOT / "corpus" / "real" / "kip966.yaml"), parsed_system("kafka:3.9.1"))
    monkeypatch.setenv("PATH", "/nowhere")

    message = Kafka(plan).refuse()

    assert message is not None
    assert "a power loss needs a C compiler, and there is no cc or gcc on the PATH" in message


def planned(*targets: AnyTarget) -> Plan:
    """KIP-966 on Kafka 3.9.1 with a power loss at each of these targets."""
    plan = on_system(load_plan(ROOT / "corpus" / "real" / "kip966.yaml"), parsed_system("kafka:3.9.1"))
    loss = plan.schedule[-1]
    windows = (replace(loss, id=f"loss-{number}", target=target) for number, target in enumerate(targets))
    return replace(plan, schedule=(plan.schedule[0], *windows))


@pytest.mark.parametrize(
    "targets",
    [(), (Named(brokers=(1,)), Named(brokers=(1,))), (LeaderOf(topic="t", partition=0),), (Random(),)],
)
def test_power_loss_of_one_broker_can_be_judged(targets: tuple[AnyTarget, ...]) -> None:
    plan = planned(*targets)

    assert too_many_wounds(plan, plan.schedule) is None
    assert bearable(plan, plan.schedule) == plan.schedule


@pytest.mark.parametrize(
    "targets",
    [(Named(brokers=(1, 2)),), (Named(brokers=(1,)), Random()), (Everyone(),), (Random(count=2),)],
)
def test_power_loss_of_min_insync_brokers_is_refused(targets: tuple[AnyTarget, ...]) -> None:
    """A derived plan is performed without it."""
    plan = planned(*targets)

    assert "at most 1 may, fewer than min.insync.replicas" in str(Kafka(plan).refuse())
    assert bearable(plan, plan.schedule) == plan.schedule[:1]
