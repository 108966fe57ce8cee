"""The steps that random schedules on the table-top cluster share.

The seed decides each step; messages stay in flight between steps.
"""

from history.seed import Rng
from reference.errors import ErrorCode
from reference.messages import ProduceReply
from tests.reference.lab import Lab


class Schedule:
    """One random run and the values that it produced."""

    def __init__(self, seed: int, lab: Lab) -> None:
        self.rng = Rng(seed)
        self.lab = lab
        self.sent: dict[int, str] = {}  # correlation -> value
        self.abandoned_sessions: list[int] = []  # sessions of dead processes whose broker was started again

    @property
    def acked(self) -> dict[int, str]:
        """Offset -> value of every acks=all produce that was acknowledged."""
        replies = (
            reply for reply in self.lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
        )
        return {reply.offset: self.sent[reply.correlation] for reply in replies if reply.offset is not None}

    def crash(self, i: int) -> None:
        """Kill a broker. In three of four cases its session expires at once."""
        self.lab.crash(i)
        if self.rng.ratio(3, 4):
            self.lab.expire(i)

    def start(self, i: int) -> None:
        """Start a new process. `start_everybody` expires the session of the old one."""
        self.abandoned_sessions.append(self.lab.sessions[i])
        self.lab.start(i)

    def produce(self, i: int) -> None:
        """Produce the next value with acks=all."""
        correlation = len(self.sent) + 1
        self.sent[correlation] = f"v{correlation}"
        self.lab.produce(i, f"v{correlation}", correlation=correlation)

    def fire(self, i: int) -> None:
        """Run one of the broker's timers before its deadline."""
        if self.lab.timers[i]:
            self.lab.fire(i, self.rng.pick(sorted(self.lab.timers[i])))

    def lose(self) -> None:
        """Lose one of the messages in flight."""
        self.lab.in_flight.remove(self.rng.pick(self.lab.in_flight))

    def double(self) -> None:
        """Duplicate one of the messages in flight."""
        self.lab.in_flight.append(self.rng.pick(self.lab.in_flight))

    def deliver(self) -> None:
        """Deliver one of the messages in flight, in any order."""
        chosen = self.rng.pick(self.lab.in_flight)
        self.lab.deliver(lambda envelope: envelope is chosen)

    def start_everybody(self) -> None:
        """Start every broker, expire all old sessions, and deliver all messages."""
        for i in self.lab.ids:
            if i not in self.lab.nodes:
                self.start(i)
        for session in self.abandoned_sessions:
            self.lab.deliver_watches(self.lab.zk.expire(session))
        self.lab.settle()

    def lost_by(self, leader: int | None) -> dict[int, str]:
        """The acknowledged values that are missing from their offset in this broker's log."""
        log = [] if leader is None else self.lab.values(leader)
        return {offset: value for offset, value in self.acked.items() if log[offset : offset + 1] != [value]}
