"""Rules of log directories: checkpoints, where replicas are created, what is said of failed ones (KIP-112)."""

from collections.abc import Iterable, Iterator

from monitors.engine import Never, Rule, Within
from monitors.patterns import Exchange, Key, Memory, did, noted, refused, replied
from reference.config import BrokerConfig
from reference.effects import CreateReplica, DeleteReplica, Halt, Note, WriteCheckpoint
from reference.errors import ErrorCode
from reference.events import Booted, Received
from reference.messages import EpochEnd, Fetch, LeaderAndIsr, ListOffsets, Produce

_DIRECTORIES = "kafka.server:name=OfflineLogDirectoryCount,type=LogManager"  # the gauges of KIP-112
_REPLICAS = "kafka.server:name=OfflineReplicaCount,type=ReplicaManager"


def _keeps_checkpoints(config: BrokerConfig) -> bool:
    return config.variant.hw_checkpoint == "merge"


def _values_other_than_hw(effect: WriteCheckpoint, memory: Memory) -> Iterator[Key]:
    """Entries of a checkpoint that are not the HW noted last: (partition, value, HW)."""
    for tp, value in effect.entries:
        hw = memory.of("hw", tp)
        if hw is not None and value != hw:
            yield tp, value, hw


def _deletions_left_in_checkpoint(effect: DeleteReplica, memory: Memory) -> Iterable[Key]:
    """A starting broker deletes logs that a later one replaced, before it writes any checkpoint."""
    if effect.tp in memory.of("checkpoint", effect.dir, (effect.tp,)) and not isinstance(memory.event, Booted):
        yield (effect.tp,)


def _creations_in_failed_dir(effect: CreateReplica, memory: Memory) -> Iterable[Key]:
    if memory.of("failed-dir", effect.dir):
        yield effect.tp, effect.dir


def _creations_of_old_replica(effect: CreateReplica, memory: Memory) -> Iterable[Key]:
    """A replica that is created while a directory has failed, and is not a new one: its log may lie in that directory."""
    event = memory.event
    command = event.message if isinstance(event, Received) else None
    is_new = isinstance(command, LeaderAndIsr) and effect.tp in command.new
    if memory.facts["failed-dir"] and not is_new:
        yield (effect.tp,)


def _peer_told_storage_error(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The peer that is told KAFKA_STORAGE_ERROR while no directory has failed."""
    request, reply = exchange.request, exchange.reply
    errors = (error for _, error in reply.errors) if isinstance(request, LeaderAndIsr) else (reply.error,)
    return [(exchange.peer,)] if not memory.facts["failed-dir"] and ErrorCode.KAFKA_STORAGE_ERROR in errors else ()


def _untrue_gauge(note: Note, memory: Memory) -> Iterable[Key]:
    """A gauge without a name of KIP-112, or with another count; of a failed directory not all replicas are known."""
    failed = memory.facts["failed-dir"]
    known = sum(1 for dir_ in memory.facts["dir"].values() if dir_ in failed)
    counts_dirs = note.detail == _DIRECTORIES and note.gauge == len(failed)
    counts_replicas = note.detail == _REPLICAS and (note.gauge or 0) >= known
    if not (counts_dirs or counts_replicas):
        yield note.detail, note.gauge


def _directories_gauge(note: Note, memory: Memory) -> Iterable[Key]:
    """One empty key for the gauge of failed directories, none for another gauge."""
    if note.detail == _DIRECTORIES:
        yield ()


def _last_dir_failed(note: Note, memory: Memory) -> Iterable[Key]:
    """One empty key if all other directories have failed before."""
    if {*memory.facts["failed-dir"], note.dir} == {*range(memory.config.log_dirs)}:
        yield ()


def _ends_while_good(effect: Halt, memory: Memory) -> Iterable[Key]:
    """(failed directories, all directories) of a process that ends though one is good; one that closes ends at once."""
    failed = len(memory.facts["failed-dir"])
    if not memory.of("shutting-down") and failed < memory.config.log_dirs:
        yield failed, memory.config.log_dirs


DISKS: tuple[Rule, ...] = (
    Never(
        name="ended-with-good-directory",
        clause="R-290, R-317",
        says="the process ended while {0} of its {1} log directories had failed",
        holds=lambda config: config.variant.log_dir_failure == "replicas",
        what=did(Halt, keys=_ends_while_good),
    ),
    Within(
        name="runs-without-directory",
        clause="R-292",
        says="the last log directory failed, and the process goes on",
        after=noted("dir-failed", keys=_last_dir_failed),
        then=did(Halt, keys=lambda effect, _: [()]),
    ),
    Within(
        name="failure-not-shown",
        clause="R-312",
        says="a log directory failed, and OfflineLogDirectoryCount was not told",
        holds=lambda config: config.variant.log_dir_failure == "replicas",
        after=noted("dir-failed", keys=lambda note, _: [()]),
        then=(*noted("gauge", keys=_directories_gauge), *did(Halt, keys=lambda effect, _: [()])),
    ),
    Never(
        name="another-checkpoint",
        clause="R-038",
        says="the checkpoint of {0} was written as {1}; its high watermark is {2}",
        holds=_keeps_checkpoints,
        what=did(WriteCheckpoint, keys=_values_other_than_hw),
    ),
    Never(
        name="deleted-replica-in-checkpoint",
        clause="R-039",
        says="the replica of {0} was deleted while the checkpoint of its directory named it",
        holds=_keeps_checkpoints,
        what=did(DeleteReplica, keys=_deletions_left_in_checkpoint),
    ),
    Never(
        name="created-in-failed-directory",
        clause="R-293",
        says="the replica of {0} was created in directory {1}, which has failed",
        what=did(CreateReplica, keys=_creations_in_failed_dir),
    ),
    Never(
        name="created-beside-failed-directory",
        clause="R-301, R-302",
        says="the replica of {0} was created, though a directory has failed and the command does not call it new",
        holds=lambda config: not config.variant.offline_replica_recreated,
        what=did(CreateReplica, keys=_creations_of_old_replica),
    ),
    Never(
        name="storage-error-without-failure",
        clause="R-294, R-301",
        says="{0} was answered KAFKA_STORAGE_ERROR, and no directory has failed",
        what=(
            *replied(LeaderAndIsr, keys=_peer_told_storage_error),
            *refused(Produce, Fetch, ListOffsets, EpochEnd, keys=_peer_told_storage_error),
        ),
    ),
    Never(
        name="untrue-gauge",
        clause="R-312",
        says="the gauge {0} was told as {1}",
        what=noted("gauge", keys=_untrue_gauge),
    ),
)
