"""What may happen next in an explored world: one action is one step of a schedule, and a tuple of them is a path.

Actions name what they touch (a broker, the kind of a message) and not where it lies in a state, so that a path can be written
down in a plan, read by a person, and performed again on a world that was built anew.
"""

from typing import assert_never

from msgspec import Struct


class Action(Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    """Base of all actions."""


class Deliver(Action, frozen=True, kw_only=True, tag="deliver"):
    """A message in flight arrives. `nth` tells several of this kind on this link apart, in order of their bytes."""

    message: str
    source: str
    to: str
    nth: int = 0


class Lose(Action, frozen=True, kw_only=True, tag="lose"):
    """A message in flight is lost."""

    message: str
    source: str
    to: str
    nth: int = 0


class Produce(Action, frozen=True, kw_only=True, tag="produce"):
    """A client sends the next record to a broker that takes itself for the leader, with acks=all."""

    node: str


class Fire(Action, frozen=True, kw_only=True, tag="fire"):
    """An armed timer of a broker runs out."""

    node: str
    timer: str


class Crash(Action, frozen=True, kw_only=True, tag="crash"):
    """A process ends; its page cache and its ZooKeeper session live on."""

    node: str


class Restart(Action, frozen=True, kw_only=True, tag="restart"):
    """The process is started again on what its disk holds."""

    node: str


class Expire(Action, frozen=True, kw_only=True, tag="expire"):
    """ZooKeeper ends the session of a broker, which does not hear of it."""

    node: str


class Notice(Action, frozen=True, kw_only=True, tag="notice"):
    """A broker reaches ZooKeeper again and learns that its session is over."""

    node: str


class ZkPerform(Action, frozen=True, kw_only=True, tag="zk-perform"):
    """ZooKeeper performs the oldest request of a broker that is under way."""

    node: str


class ZkHear(Action, frozen=True, kw_only=True, tag="zk-hear"):
    """A broker hears the oldest of what ZooKeeper has sent it."""

    node: str


AnyAction = Deliver | Lose | Produce | Fire | Crash | Restart | Expire | Notice | ZkPerform | ZkHear
Path = tuple[AnyAction, ...]


def words(action: AnyAction) -> str:
    """The action in a few words."""
    match action:
        case Deliver(message=message, source=source, to=to):
            return f"{to} gets {message} of {source}" if source != to else f"{to} gets its own {message}"
        case Lose(message=message, source=source, to=to):
            return f"{message} from {source} to {to} is lost"
        case Produce(node=node):
            return f"a client produces to {node}"
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
        case _:
            assert_never(action)
