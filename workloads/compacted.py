"""compacted: produce-consume on topics that are compacted; each record has a key.

The value of a record is "<key>=<value>", where the value is unique as in produce-consume: the clients of real brokers take what
is before the first "=" for the key of the record. Each record's key is drawn, of KEYS in each partition: "k0=p1-17". So a key is
written again soon, and a cleaner has something to remove while the run lasts.
"""

from workloads import produce_consume
from workloads.client import Process
from workloads.parameters import Parameters

KEYS = 12


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: producers, then consumers, then final readers of each partition."""
    return produce_consume.processes(draws, parameters, Producer)


class Producer(produce_consume.Producer):
    """A client that writes records with keys."""

    def _value(self, number: int) -> str:
        key = self._draws.below(f"workload key {self._name}", KEYS)
        return f"k{key}={super()._value(number)}"
