"""The models of objects for linearizability, by name."""

from collections.abc import Hashable

from checkers.linearizability.collections import FifoQueue, GrowSet, Mutex, PartitionLog, UnorderedQueue
from checkers.linearizability.model import Model
from checkers.linearizability.registers import CasRegister, KeyValue, MultiRegister, Register, VersionedNode

NAMES: tuple[str, ...] = (
    "register",
    "cas-register",
    "multi-register",
    "mutex",
    "kv",
    "set",
    "fifo-queue",
    "unordered-queue",
    "partition-log",
    "versioned-node",
)
WITH_INITIAL = ("register", "cas-register", "multi-register", "kv")


def model_named(name: str, *, initial: Hashable = None, nil_is_a_value: bool = True) -> Model:
    """Return the object model with this name. Raises KeyError for an unknown name.

    `initial` is used by the models in `WITH_INITIAL` only.
    """
    match name:
        case "register":
            return Register(initial, nil_is_a_value=nil_is_a_value)
        case "cas-register":
            return CasRegister(initial, nil_is_a_value=nil_is_a_value)
        case "multi-register":
            return MultiRegister(initial, nil_is_a_value=nil_is_a_value)
        case "kv":
            return KeyValue("" if initial is None else initial)
        case "mutex":
            return Mutex()
        case "set":
            return GrowSet()
        case "fifo-queue":
            return FifoQueue()
        case "unordered-queue":
            return UnorderedQueue()
        case "partition-log":
            return PartitionLog()
        case "versioned-node":
            return VersionedNode()
        case _:
            raise KeyError(name)
