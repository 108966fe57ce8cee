"""Which scripts can be performed (`workloads.script`).

A script may delete only what it created, since clients of the workload use the topics of the start until the end.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from workloads.parameters import Step

MAX_STEPS = 1000
_MOVES = ("reassign", "reassign-extra", "reassign-request")
_OF_NOTHING = ("cancel-reassignments", "allow-reassignments")


class Ground(Struct, frozen=True, kw_only=True):
    """The cluster of a script: brokers from 1; `topics`: partitions of each; `later`: partitions and copies of those to
    create.
    """

    brokers: int
    topics: Mapping[str, int]
    later: Mapping[str, tuple[int, int]]
    end_ms: int


def complaints(script: tuple[Step, ...], ground: Ground) -> Iterator[tuple[int, str]]:
    """The index of each step that cannot be performed, and the reason."""
    before_ms = 0
    if len(script) > MAX_STEPS:
        yield MAX_STEPS, f"a script of more than {MAX_STEPS} steps"
    for index, step in enumerate(script):
        what = f"step {index + 1} ({step.do})"
        if not before_ms <= step.at_ms < ground.end_ms:
            yield index, f"{what}: {step.at_ms} ms is before the step above or not below the {ground.end_ms} ms of faults"
        before_ms = max(before_ms, step.at_ms)
        for sentence in (*_subject(step, ground), *_replicas(step, ground)):
            yield index, f"{what}: {sentence}"


def _subject(step: Step, ground: Ground) -> Iterator[str]:
    """Complaints about the topic and the partition of a step."""
    if step.do in _OF_NOTHING:
        if step.topic or step.partition:
            yield "it is about all that is pending, and names no topic"
        return
    if step.topic not in ground.topics and step.topic not in ground.later:
        yield f"unknown topic {step.topic!r}; there are {', '.join((*ground.topics, *ground.later))}"
    elif step.do in ("create-topic", "delete-topic") and step.topic not in ground.later:
        yield f"topic {step.topic} is there from the start; it can be one of `later`"
    elif step.partition < 0:
        yield "a partition has a number from 0 on"
    elif step.do in ("add-partition", "remove-partition") and step.partition < ground.topics.get(step.topic, 0):
        yield f"partition {step.partition} of {step.topic} is there from the start"


def _replicas(step: Step, ground: Ground) -> Iterator[str]:
    """Complaints about the replicas of a step."""
    wanted = 1 if step.do in (*_MOVES, "add-partition") else 0
    copies = None
    if step.do == "create-topic":
        wanted, copies = ground.later.get(step.topic, (len(step.replicas), 0))
    if len(step.replicas) != wanted:
        yield f"`replicas` lists those of {len(step.replicas)} partitions, not of {wanted}"
    for replicas in step.replicas:
        if not replicas or len(set(replicas)) < len(replicas) or not all(1 <= broker <= ground.brokers for broker in replicas):
            yield f"{list(replicas)} are not different brokers from 1 to {ground.brokers}"
        elif copies and len(replicas) != copies:
            yield f"{list(replicas)} are not the {copies} copies of {step.topic}"
