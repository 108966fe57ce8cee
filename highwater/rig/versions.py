"""Which version each broker of a run is: at first, and after each roll. What a version is, its system knows.

The version under test is the one that the plan's system names. Brokers may start as another one (`SystemSpec.starts`), and a
fault `Roll` starts a broker as the version under test, as any other one that it names, or as what the broker was first. While a
run has more than one version, all brokers speak what the oldest of them knows; `Roll.finalize` ends that.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

from nemesis.faults import Roll
from nemesis.schedule import Window, rolls_of
from reference.types import BrokerId

V = TypeVar("V")


class Versions(Struct, Generic[V], frozen=True, kw_only=True):
    """The versions of a run: the one under test, what the brokers are at first (one for all, or one for each from b1 on), and
    those that rolls name, by their words. `age` orders them, the oldest first.
    """

    tested: V
    starts: tuple[V, ...]
    named: Mapping[str, V]
    age: Callable[[V], Any]

    def first(self, broker: BrokerId) -> V:
        """What a broker is at its first start."""
        return self.starts[broker - 1] if len(self.starts) > 1 else self.starts[0]

    def after(self, roll: Roll, broker: BrokerId) -> V:
        """What a roll makes of a broker."""
        if roll.back:
            return self.first(broker)
        return self.named[roll.to] if roll.to else self.tested

    @property
    def every(self) -> tuple[V, ...]:
        """The versions of the run, each once: the one under test, those that brokers start as, those that rolls name."""
        return tuple(dict.fromkeys((self.tested, *self.starts, *self.named.values())))

    @property
    def oldest(self) -> V:
        """The oldest version of the run."""
        return min(self.every, key=self.age)

    @property
    def mixed(self) -> bool:
        """Whether the brokers of a run may be of two versions."""
        return len(self.every) > 1


def named_by_rolls(schedule: Iterable[Window]) -> tuple[str, ...]:
    """The words of the versions to which the rolls of a schedule lead by name."""
    return tuple(roll.to for roll in rolls_of(schedule) if roll.to)
