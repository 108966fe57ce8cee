"""Scripted administration: beside any workload, an administrator that asks for given things at given times.

For plans that must do one thing at one moment, such as the system tests of KIP-112, which make a topic after a directory has
failed. Each step is asked for once, in its order, as soon as it is due and the one before it has ended; what comes of it is in
the history. Steps that are late are asked for when phase "quiet" begins. In phase "final" the administrator looks what is still
asked for (docs/promise.md LIVE-4).

What it makes is written by a producer of its own, with the workload's acks, from the moment it is there until it is asked to go,
and read to its end by a final reader.
"""

from typing import assert_never

from history.op import OpType
from history.seed import Draws
from workloads.admin_storm import Looker
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName, Step
from workloads.produce_consume import FinalReader, Producer


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The producer and the reader of what is made, then the administrator; nobody without a script."""
    if not parameters.script:
        return ()
    there: list[PartitionName] = []
    # Beyond the numbers of the workload's producers, and of the one that writes what the workload itself makes.
    producer = Producer(parameters.producers + 1, Draws(draws), parameters, partitions=there)
    return (producer, FinalReader(there), Administrator(parameters.script, there))


class Administrator:
    """Asks for one step after the other. `there` holds what was made, while it certainly is there."""

    def __init__(self, script: tuple[Step, ...], there: list[PartitionName]) -> None:
        self._left = list(script)
        self._there = there
        self._going: list[PartitionName] = []  # asked to go, by the step at hand
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next step when it is due."""
        match phase:
            case "final":
                return self._looker.next()
            case _ if not self._left:
                return Done()
            case "faults" if self._left[0].at_ms > now_ms:
                return Sleep(self._left[0].at_ms - now_ms)
            case "faults" | "quiet":
                return self._ask(self._left.pop(0))
            case _:
                assert_never(phase)

    def _ask(self, step: Step) -> Invocation:
        named = [p for p in self._there if p.topic == step.topic]
        if step.do == "delete-topic":
            self._going = named
        elif step.do == "remove-partition":
            self._going = [p for p in named if p.partition == step.partition]
        self._there[:] = [partition for partition in self._there if partition not in self._going]
        return Invocation(f=step.do, topic=step.topic, partition=step.partition, assignment=step.replicas)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """What is certainly there is written from now on."""
        done = completion.type is OpType.OK
        self._there.extend([] if done else self._going)  # if it is still there it is to be read
        self._going = []
        match invocation.f:
            case "admin-pending":
                self._looker.completed(completion)
            case "create-topic" if done:
                self._there.extend(PartitionName(invocation.topic, i) for i in range(len(invocation.assignment)))
            case "add-partition" if done:
                self._there.append(PartitionName(invocation.topic, invocation.partition))
            case _:
                pass
