"""What every random schedule on the table-top cluster does: a draw decides, and nothing comes to rest before the end."""

from history.seed import Rng
from reference.errors import ErrorCode
from reference.messages import ProduceReply
from tests.reference.lab import Lab


class Schedule:
    """One run: what was acknowledged, by offset."""

    def __init__(self, seed: int, lab: Lab) -> None:
        self.rng = Rng(seed)
        self.lab = lab
        self.sent: dict[int, str] = {}  # correlation -> value
        self.orphans: list[int] = []  # sessions of processes that are gone and have been started again

    @property
    def acked(self) -> dict[int, str]:
        """Offset -> value of every acks=all produce that was acknowledged."""
        replies = (m for m in self.lab.inbox if isinstance(m, ProduceReply) and m.error is ErrorCode.NONE)
        return {m.offset: self.sent[m.correlation] for m in replies if m.offset is not None}

    def crash(self, i: int) -> None:
        """In three of four cases ZooKeeper notices at once."""
        self.lab.crash(i)
        if self.rng.ratio(3, 4):
            self.lab.expire(i)

    def start(self, i: int) -> None:
        """A new process, beside the session of the old one."""
        self.orphans.append(self.lab.sessions[i])
        self.lab.start(i)

    def produce(self, i: int) -> None:
        """Another value, with acks=all."""
        correlation = len(self.sent) + 1
        self.sent[correlation] = f"v{correlation}"
        self.lab.produce(i, f"v{correlation}", correlation=correlation)

    def fire(self, i: int) -> None:
        """One of its timers, before its time."""
        if self.lab.timers[i]:
            self.lab.fire(i, self.rng.pick(sorted(self.lab.timers[i])))

    def lose(self) -> None:
        """One of the letters on their way."""
        self.lab.letters.remove(self.rng.pick(self.lab.letters))

    def double(self) -> None:
        """One of them comes twice."""
        self.lab.letters.append(self.rng.pick(self.lab.letters))

    def deliver(self) -> None:
        """One of them, whichever was sent first."""
        chosen = self.rng.pick(self.lab.letters)
        self.lab.deliver(lambda letter: letter is chosen)

    def start_everybody(self) -> None:
        """Every process runs, every old session is over, every letter arrives."""
        for i in self.lab.ids:
            if i not in self.lab.nodes:
                self.start(i)
        for session in self.orphans:
            self.lab.watches(self.lab.zk.expire(session))
        self.lab.settle()

    def lost_by(self, leader: int | None) -> dict[int, str]:
        """What was acknowledged and is not at its offset in this broker's log."""
        log = [] if leader is None else self.lab.values(leader)
        return {offset: value for offset, value in self.acked.items() if log[offset : offset + 1] != [value]}
