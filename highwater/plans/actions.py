"""The actions of the explorer: each is one step of a schedule, such as "a message arrives" or "a broker crashes".

An action names a broker, a timer or the kind of a message, not a position in a state. So a path can be stored in a plan, read,
and performed again on a new world.
"""

from typing import assert_never

from msgspec import Struct


class Action(Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """Base class of the explorer's actions, each one step of a schedule: a message arrives, a timer fires, a broker crashes."""


class Deliver(Action, frozen=True, kw_only=True, tag="deliver"):
    """Explorer's action: a message in flight arrives. `nth` selects among messages of this kind on this link."""

    message: str
    source: str
    to: str
    nth: int = 0


class Lose(Action, frozen=True, kw_only=True, tag="lose"):
    """Explorer's action: a message in flight is lost."""

    message: str
    source: str
    to: str
    nth: int = 0


class Double(Action, frozen=True, kw_only=True, tag="double"):
    """Explorer's action: a message in flight is doubled, so that it may arrive twice."""

    message: str
    source: str
    to: str
    nth: int = 0


class Produce(Action, frozen=True, kw_only=True, omit_defaults=True, tag="produce"):
    """Explorer's action: a client sends the next record with acks=all to a broker that acts as leader of the partition."""

    node: str
    partition: int = 0


class Fire(Action, frozen=True, kw_only=True, tag="fire"):
    """Explorer's action: an armed timer of a broker runs out."""

    node: str
    timer: str


class Crash(Action, frozen=True, kw_only=True, tag="crash"):
    """Explorer's action: a broker process ends; its page cache and its ZooKeeper session remain."""

    node: str


class Restart(Action, frozen=True, kw_only=True, tag="restart"):
    """Explorer's action: a broker process starts again with the data on its disk."""

    node: str


class Expire(Action, frozen=True, kw_only=True, tag="expire"):
    """Explorer's action: ZooKeeper ends the session of a broker, which is not told."""

    node: str


class Notice(Action, frozen=True, kw_only=True, tag="notice"):
    """Explorer's action: a broker reconnects to ZooKeeper and learns that its session has expired."""

    node: str


class ZkPerform(Action, frozen=True, kw_only=True, tag="zk-perform"):
    """Explorer's action: ZooKeeper performs the oldest pending request of a broker."""

    node: str


class ZkHear(Action, frozen=True, kw_only=True, tag="zk-hear"):
    """Explorer's action: a broker receives the oldest pending event from ZooKeeper."""

    node: str


class Move(Action, frozen=True, kw_only=True, tag="move"):
    """Explorer's action: an administrator asks the controller to move a partition to these brokers."""

    partition: int
    replicas: tuple[int, ...]


AnyAction = Deliver | Lose | Double | Produce | Fire | Crash | Restart | Expire | Notice | ZkPerform | ZkHear | Move
Path = tuple[AnyAction, ...]


def words(action: AnyAction) -> str:
    """Describe an action of the explorer as a clause, for the printed steps of a counterexample."""
    match action:
        case Deliver(message=message, source=source, to=to):
            return f"{to} gets {message} of {source}" if source != to else f"{to} gets its own {message}"
        case Lose(message=message, source=source, to=to):
            return f"{message} from {source} to {to} is lost"
        case Double(message=message, source=source, to=to):
            return f"{message} from {source} to {to} is doubled"
        case Produce(node=node, partition=0):
            return f"a client produces to {node}"
        case Produce(node=node, partition=partition):
            return f"a client produces to partition {partition} of {node}"
        case Fire(node=node, timer=timer):
            return f"the timer {timer} of {node} runs out"
        case Crash(node=node):
            return f"{node} crashes"
        case Restart(node=node):
            return f"{node} starts again"
        case Expire(node=node):
            return f"ZooKeeper ends the session of {node}"
        case Notice(node=node):
            return f"{node} learns that its session is over"
        case ZkPerform(node=node):
            return f"ZooKeeper performs a request of {node}"
        case ZkHear(node=node):
            return f"{node} hears from ZooKeeper"
        case Move(partition=partition, replicas=replicas):
            return f"an administrator moves partition {partition} to {','.join(f'b{broker}' for broker in replicas)}"
        case _:
            assert_never(action)
