"""What a fault hits: brokers, by id or by role, or the clients at one place. A backend looks roles up when the fault begins."""

from msgspec import Struct

INTERNAL = "__"  # internal topics begin so: Kafka keeps groups, transactions and share groups in them; the reference has none


class Target(Struct, frozen=True, kw_only=True, tag_field="target", forbid_unknown_fields=True):
    """Base class of targets of a fault; `tag` is the name used in plans."""


class OfPartition(Target, frozen=True, kw_only=True):
    """Base class of targets that a partition has: of a topic of the plan, or of an internal topic."""

    topic: str
    partition: int


class Named(Target, frozen=True, kw_only=True, tag="named"):
    """Hits these brokers, by id."""

    brokers: tuple[int, ...]


class LeaderOf(OfPartition, frozen=True, kw_only=True, tag="leader-of"):
    """Hits the leader in a partition's state znode; no broker if the partition has none."""


class IsrMember(OfPartition, frozen=True, kw_only=True, tag="isr-member"):
    """Hits a randomly drawn follower in the ISR of a partition; no broker if the ISR has none."""


class WholeIsr(OfPartition, frozen=True, kw_only=True, tag="whole-isr"):
    """Hits all members of the ISR of a partition; no broker if there is no such partition."""


class Controller(Target, frozen=True, kw_only=True, tag="controller"):
    """Hits the owner of /controller; no broker if the znode is missing."""


class Random(Target, frozen=True, kw_only=True, tag="random"):
    """Hits `count` randomly drawn brokers."""

    count: int = 1


class Minority(Target, frozen=True, kw_only=True, tag="minority"):
    """Hits a randomly drawn set of fewer than half of the brokers."""


class Everyone(Target, frozen=True, kw_only=True, tag="everyone"):
    """Hits all brokers."""


class ClientPlace(Target, frozen=True, kw_only=True, tag="client-place"):
    """Hits the clients at one place, numbered from 1: their links with all brokers, or with the fault's `peer` alone."""

    place: int


AnyTarget = Named | LeaderOf | IsrMember | WholeIsr | Controller | Random | Minority | Everyone | ClientPlace
