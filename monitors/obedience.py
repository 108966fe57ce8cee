"""Rules of a broker that is told something: it takes the role, answers for each partition, and tells clients what it was told."""

from collections.abc import Iterable, Iterator
from typing import Any

from monitors.engine import Never, Rule, Within
from monitors.patterns import Exchange, Heard, Key, Memory, heard, noted, replied
from reference.config import BrokerConfig
from reference.effects import Note
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import LeaderAndIsr, Metadata, StopReplica


def _compares_epochs(config: BrokerConfig) -> bool:
    return (config.variant.leader_change, config.variant.follower_change) == ("epoch", "epoch")


def _partitions_given_a_leader(event: Heard, memory: Memory) -> Iterator[Key]:
    """Partitions that a command gives a leader in a later epoch than that of the replica's role."""
    for state in event.message.states:
        has_role = memory.of("role", state.tp) is not None
        if has_role and state.leader is not None and state.leader_epoch > memory.of("epoch", state.tp):
            yield (state.tp,)


def _refused_partitions(exchange: Exchange, memory: Memory) -> Iterator[Key]:
    """The partitions of a LeaderAndIsr that the broker refused, or could not obey."""
    errors = dict(exchange.reply.errors)
    for state in exchange.request.states:
        if exchange.reply.error is not ErrorCode.NONE or errors.get(state.tp) is not ErrorCode.NONE:
            yield (state.tp,)


def _role_in_same_epoch(note: Note, memory: Memory) -> Iterable[Key]:
    """(partition, epoch) of a role that is taken in the epoch in which the replica has one."""
    if memory.of("role", note.tp) is not None and memory.of("epoch", note.tp) == note.leader_epoch:
        yield note.tp, note.leader_epoch


def _left_out_by_first_command(event: Heard, memory: Memory) -> Iterator[Key]:
    """Replicas in good directories that the first command of a controller (INIT) does not list."""
    command = event.message
    if not command.init:
        return
    listed = {state.tp for state in command.states}
    for tp, dir_ in memory.facts["dir"].items():
        if tp not in listed and not memory.of("failed-dir", dir_):
            yield (tp,)


def _all_if_refused(exchange: Exchange, memory: Memory) -> Iterator[Key]:
    """Every partition of this broker, if the command as a whole was refused."""
    if exchange.reply.error is not ErrorCode.NONE:
        for tp in memory.facts["dir"]:
            yield (tp,)


def _listed_replica(note: Note, memory: Memory) -> Iterable[Key]:
    """A replica that the first command of a controller lists under the same topic id."""
    event = memory.event
    command = event.message if isinstance(event, Received) else None
    if isinstance(command, LeaderAndIsr):
        for state in command.states:
            if (state.tp, state.topic_id) == (note.tp, note.topic_id):
                yield (note.tp,)


def _peer_given_wrong_codes(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The sender of a command whose answer has not one code for each partition, in their order."""
    request: Any = exchange.request
    partitions = request.states if isinstance(request, LeaderAndIsr) else request.partitions
    codes = [tp for tp, _ in exchange.reply.errors]
    if exchange.reply.error is ErrorCode.NONE and codes != [partition.tp for partition in partitions]:
        yield (exchange.peer,)


def _untold_states(exchange: Exchange, memory: Memory) -> Iterator[Key]:
    """Partitions whose state is not the one that the controller told last, and those that are missing or too many."""
    if exchange.reply.error is not ErrorCode.NONE:
        return
    metadata = memory.facts["metadata"]
    states = {state.tp: state for state in exchange.reply.states}
    for tp in [*states, *(tp for tp in metadata if tp not in states)]:
        if states.get(tp) != metadata.get(tp):
            yield tp, exchange.peer


OBEDIENCE: tuple[Rule, ...] = (
    Within(
        name="command-ignored",
        clause="R-031, R-032, R-080",
        says="a command gave the replica of {0} a role in a later epoch, and it neither took it nor was it refused",
        holds=_compares_epochs,
        after=heard(LeaderAndIsr, keys=_partitions_given_a_leader),
        then=(
            *noted("became-leader", "became-follower", "replica-deleted", keys=lambda note, _: [(note.tp,)]),
            *replied(LeaderAndIsr, keys=_refused_partitions),
        ),
    ),
    Never(
        name="role-taken-again",
        clause="R-080",
        says="the replica of {0} took a role again in epoch {1}",
        holds=_compares_epochs,
        what=noted("became-leader", "became-follower", keys=_role_in_same_epoch),
    ),
    Within(
        name="unlisted-replica-kept",
        clause="R-033",
        says="the first command of a controller does not list {0}, and its replica was not deleted",
        holds=lambda config: config.variant.init_deletes,
        after=heard(LeaderAndIsr, keys=_left_out_by_first_command),
        then=(
            *noted("replica-deleted", keys=lambda note, _: [(note.tp,)]),
            *replied(LeaderAndIsr, keys=_all_if_refused),
        ),
    ),
    Never(
        name="listed-replica-deleted",
        clause="R-033",
        says="a command gave the replica of {0} a role, and it was deleted",
        what=noted("replica-deleted", keys=_listed_replica),
    ),
    Never(
        name="codes-mixed-up",
        clause="R-013, R-015",
        says="the answer to {0} has not one code for each partition of the command, in its order",
        what=replied(LeaderAndIsr, StopReplica, keys=_peer_given_wrong_codes),
    ),
    Never(
        name="untold-metadata",
        clause="R-305, R-311",
        says="{1} was given another state of {0} than the controller told last",
        holds=lambda config: config.variant.controller_epoch and config.variant.controller_epoch_persist,
        what=replied(Metadata, keys=_untold_states),
    ),
)
