"""Rules that a plan's script of admin requests must meet before a run performs it (`workloads.script`).

A script may delete only what it created, since clients of the workload use the topics of the start until the end.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from workloads.parameters import Step

MAX_STEPS = 1000
MOVES = ("reassign", "reassign-extra", "reassign-request")
_OF_ALL = ("cancel-reassignments", "allow-reassignments")
_OF_THE_CLUSTER = ("depose-controller",)
_ALTERS = "alter-config"
MIN_ISR = "min.insync.replicas"


class Ground(Struct, frozen=True, kw_only=True):
    """The cluster for which a script is checked: brokers from 1, the partitions of each topic, topics to be created later."""

    brokers: int
    topics: Mapping[str, int]
    later: Mapping[str, tuple[int, int]]
    end_ms: int


def complaints(script: tuple[Step, ...], ground: Ground) -> Iterator[tuple[int, str]]:
    """The index of each invalid request of a script, and the reason."""
    before_ms = 0
    if len(script) > MAX_STEPS:
        yield MAX_STEPS, f"a script must have at most {MAX_STEPS} steps"
    for index, step in enumerate(script):
        what = f"step {index + 1} ({step.do})"
        if not before_ms <= step.at_ms < ground.end_ms:
            yield index, f"{what}: at_ms must be from {before_ms} (the step above) to {ground.end_ms - 1}, not {step.at_ms}"
        before_ms = max(before_ms, step.at_ms)
        for sentence in (*_subject(step, ground), *_replicas(step, ground)):
            yield index, f"{what}: {sentence}"


def _subject(step: Step, ground: Ground) -> Iterator[str]:
    """Errors in the topic and the partition that a step of an administrator's script names."""
    if step.do in (*_OF_ALL, *_OF_THE_CLUSTER):
        if step.topic or step.partition:
            what = "all pending reassignments" if step.do in _OF_ALL else "the cluster"
            yield f"it concerns {what}, so topic and partition must be left out"
        return
    if step.do == "edit-znode":
        if step.topic or step.partition:
            yield "it names a path, so topic and partition must be left out"
        if not step.edit or not step.edit.path.startswith("/admin/"):
            yield "edit must name a path below /admin"
        return
    if step.edit:
        yield "edit is for edit-znode only"
    if step.do == _ALTERS and not step.settings:
        yield "settings must name what is set, such as {min.insync.replicas: 1}"
    for name, value in (step.settings or {}).items():
        if not name or "=" in name or len(name.split()) != 1 or len(str(value).split()) > 1:
            yield f"settings are names and values without blanks, not {name!r}: {value!r}"
    least = (step.settings or {}).get(MIN_ISR, 1)
    if not str(least).isdecimal() or not int(least):
        yield f"{MIN_ISR} must be a number from 1 on, not {least}"
    if step.do != _ALTERS and step.settings:
        yield f"settings is for {_ALTERS} only"
    if step.topic not in ground.topics and step.topic not in ground.later:
        yield f"unknown topic {step.topic!r}; known topics: {', '.join((*ground.topics, *ground.later))}"
    elif step.do in ("create-topic", "delete-topic") and step.topic not in ground.later:
        yield f"topic {step.topic} exists from the start; name a topic of `later`"
    elif step.partition < 0:
        yield f"partition must be at least 0, not {step.partition}"
    elif step.do in ("add-partition", "remove-partition") and step.partition < ground.topics.get(step.topic, 0):
        yield f"partition {step.partition} of {step.topic} exists from the start; name one that the script adds"


def _replicas(step: Step, ground: Ground) -> Iterator[str]:
    """Errors in the replicas that a step of an administrator's script names."""
    replicas_min = 1 if step.do in (*MOVES, "add-partition") else 0
    copies = None
    if step.do == "create-topic":
        replicas_min, copies = ground.later.get(step.topic, (len(step.replicas), 0))
    if len(step.replicas) != replicas_min:
        yield f"`replicas` must list the replicas of {replicas_min} partitions, not of {len(step.replicas)}"
    for replicas in step.replicas:
        if not replicas or len(set(replicas)) < len(replicas) or not all(1 <= broker <= ground.brokers for broker in replicas):
            yield f"replicas must be different brokers from 1 to {ground.brokers}, not {list(replicas)}"
        elif copies and len(replicas) != copies:
            yield f"{step.topic} must have {copies} replicas, not {list(replicas)}"
