"""The timers of a broker process. Effects and events name a timer by its text: the kind, then after a colon what it is about.

The text is part of the key of every simulated draw about that timer: changing one changes the runs of all seeds
(tests/determinism/test_draw_keys.py).
"""

from enum import StrEnum

from reference.types import BrokerId, TopicPartition


class Timer(StrEnum):
    """The kinds of timers of a broker, such as the check for lagging followers or the next heartbeat."""

    FETCH = "fetch"  # of a partition: its follower fetches again
    PARK = "park"  # the earliest deadline of a parked request
    ISR = "isr"  # leaders look for followers that lag
    ASK_ISR = "ask-isr"  # of a partition: its leader asks the controller again for an ISR change
    HEARTBEAT = "heartbeat"  # the next heartbeat to the controller
    FENCE = "fence"  # no heartbeat was answered in time
    HAND_OVER = "hand-over"  # controlled shutdown goes on
    CHECKPOINT = "checkpoint"  # high watermarks are written to disk
    REGISTER = "register"  # the broker registers again
    STRAYS = "strays"  # the broker asks ZooKeeper again about replicas that may be stray
    DIR_EVENT = "dir-event"  # the broker notifies again of a failed directory
    SILENCE = "silent"  # of a broker: the controller has heard no heartbeat of it
    CONTROLLER_RETRY = "controller"  # the controller takes up the procedures whose answers were lost
    REASSIGN = "reassign"  # the reassignment agent wakes up (V3 §F)
    CHANNEL = "channel"  # of a broker: the controller sends its control request again


def name_of(timer: Timer, about: BrokerId | TopicPartition | None = None) -> str:
    """The name of a timer: its kind, then after a colon what it is about."""
    return str(timer) if about is None else f"{timer}:{about}"


def timer_named(name: str) -> tuple[Timer, str]:
    """Split a timer's name into its kind and what it is about ("" if about nothing). ValueError for no timer's name."""
    kind, _, about = name.partition(":")
    return Timer(kind), about
