"""Scripted administration: beside any workload, an administrator that sends given requests at given times.

It serves plans that must do one thing at one moment, such as the system tests of KIP-112, which create a topic after a directory
has failed. Each step is requested once, in order, when it is due and the step before it has ended; its result is in the history.
Steps that are late are requested when phase "quiet" begins. In phase "final" the administrator lists the requests that are still
pending (docs/promise.md LIVE-4).

A separate producer writes to what the script created, with the workload's acks, until its deletion is requested; a final reader
reads what remains.
"""

from typing import assert_never

from history.op import OpType
from history.seed import Draws
from workloads.admin_storm import Looker
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName, Step, word_of
from workloads.produce_consume import FinalReader, Producer


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The producer and reader of what the plan's script creates, then its administrator; none without a script."""
    if not parameters.script:
        return ()
    existing: list[PartitionName] = []
    # A number that neither the workload's producers have nor the producer of what the workload itself creates.
    producer = Producer(parameters.producers + 1, Draws(draws), parameters, partitions=existing)
    return (producer, FinalReader(existing), Administrator(parameters.script, existing))


class Administrator:
    """A client that sends a script's requests in order. `there` holds created partitions while they certainly exist."""

    def __init__(self, script: tuple[Step, ...], existing: list[PartitionName]) -> None:
        self._steps_left = list(script)
        self._existing = existing
        self._partitions_going: list[PartitionName] = []  # whose deletion the current step requests
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next admin request of the script, at its due time."""
        match phase:
            case "final":
                return self._looker.next()
            case _ if not self._steps_left:
                return Done()
            case "faults" if self._steps_left[0].at_ms > now_ms:
                return Sleep(self._steps_left[0].at_ms - now_ms)
            case "faults" | "quiet" | "audit":
                return self._request(self._steps_left.pop(0))
            case _:
                assert_never(phase)

    def _request(self, step: Step) -> Invocation:
        """The request of a scripted step; partitions that it deletes count as gone."""
        named = [p for p in self._existing if p.topic == step.topic]
        if step.do == "delete-topic":
            self._partitions_going = named
        elif step.do == "remove-partition":
            self._partitions_going = [p for p in named if p.partition == step.partition]
        self._existing[:] = [partition for partition in self._existing if partition not in self._partitions_going]
        return Invocation(
            f=step.do,
            topic=step.topic,
            partition=step.partition,
            assignment=step.replicas,
            edit=step.edit or None,
            settings=tuple((name, word_of(value)) for name, value in (step.settings or {}).items()),
        )

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Record by a request's result which created partitions certainly exist."""
        done = completion.type is OpType.OK
        self._existing.extend([] if done else self._partitions_going)  # a partition that may still exist must be read
        self._partitions_going = []
        match invocation.f:
            case "admin-pending":
                self._looker.completed(completion)
            case "create-topic" if done:
                self._existing.extend(PartitionName(invocation.topic, i) for i in range(len(invocation.assignment)))
            case "add-partition" if done:
                self._existing.append(PartitionName(invocation.topic, invocation.partition))
            case _:
                pass
