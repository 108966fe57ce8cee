"""The brokers that a fault hits, by id or by role. A backend resolves the target when the window opens, from ZooKeeper's tree."""

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True, tag_field="target", forbid_unknown_fields=True):
    """Base class of targets of a fault; `tag` is the name used in plans."""


class Named(Target, frozen=True, kw_only=True, tag="named"):
    """These brokers, by id."""

    brokers: tuple[int, ...]


class LeaderOf(Target, frozen=True, kw_only=True, tag="leader-of"):
    """The leader of a partition in its state znode; no broker where the partition has none."""

    topic: str
    partition: int


class IsrMember(Target, frozen=True, kw_only=True, tag="isr-member"):
    """A drawn follower in the ISR of a partition; no broker where the ISR has none."""

    topic: str
    partition: int


class Controller(Target, frozen=True, kw_only=True, tag="controller"):
    """The owner of /controller; no broker where the znode is missing."""


class Random(Target, frozen=True, kw_only=True, tag="random"):
    """`count` drawn brokers."""

    count: int = 1


class Minority(Target, frozen=True, kw_only=True, tag="minority"):
    """A drawn set of fewer than half of the brokers."""


class Everyone(Target, frozen=True, kw_only=True, tag="everyone"):
    """All brokers."""


AnyTarget = Named | LeaderOf | IsrMember | Controller | Random | Minority | Everyone
