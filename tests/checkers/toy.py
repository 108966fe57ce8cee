"""A toy cluster that keeps the promise by construction, to draw healthy histories from: no messages, no time, one step at a time.

It knows nothing of the system under test. A step either moves data (produce, fetch, commit, read) or breaks something (crash,
power loss, restart, ISR change); elections take a living member of the ISR, or, when all that count are back, the longest
log among them.
"""

from history.history import History
from history.promise import Flush
from history.seed import Rng
from proof.manifests import promise
from tests.checkers.story import HistoryBuilder

NODES = ("b1", "b2", "b3")


class Replica:
    """One log: (value, record epoch)."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.flushed = 0
        self.hw = 0
        self.torn = False  # lost something since it joined the ISR


class Toy:
    """Partitions of one topic over three brokers; every step writes its rows into the builder of a history."""

    def __init__(self, rng: Rng, *, partitions: int = 1, m: int = 2, flush: Flush = "none", power: bool = True) -> None:
        self.rng, self.m, self.flush, self.power = rng, m, flush, power
        self.builder = HistoryBuilder(promise(m=m, flush=flush), partitions=partitions)
        self.partitions = [Partition(self, number) for number in range(partitions)]
        self.up = dict.fromkeys(NODES, True)
        self.incarnation = {node: number for number, node in enumerate(NODES, 11)}
        self.wounds = 0
        self.calls = 0
        for node in NODES:
            self.builder.registered(node, self.incarnation[node])
        for partition in self.partitions:
            partition.elect("b1")

    def run(self, steps: int, *, breaks: int = 20) -> History:
        """Run `steps` steps, one in `breaks` of which stops or starts a broker; then heal everything and read to the end."""
        for _ in range(steps):
            if self.rng.below(breaks) == 0:
                self.toggle(self.rng.pick(NODES))
            else:
                self.rng.pick(self.partitions).step()
        for node in NODES:
            if not self.up[node]:
                self.toggle(node)
        for partition in self.partitions:
            partition.settle()
        return self.builder.history(final_reads_at_ns=self.builder.time_ns)

    def toggle(self, node: str) -> None:
        """Stop a running broker (its session ends at once), or start a stopped one."""
        if self.up[node]:
            self.up[node] = False
            lost = self.power and self.rng.ratio(1, 2)
            for partition in self.partitions:
                partition.stop(node, lost=lost)
            self.builder.session_ended(node, self.incarnation[node])
        else:
            self.up[node] = True
            self.incarnation[node] += 10
            for partition in self.partitions:
                self.builder.on_partition(partition.number).recovered(node, len(partition.replicas[node].log))
            self.builder.registered(node, self.incarnation[node])
        for partition in self.partitions:
            partition.control()


class Partition:
    """One partition: the state that ZooKeeper and the replicas have."""

    def __init__(self, toy: Toy, number: int) -> None:
        self.toy, self.number = toy, number
        self.replicas = {node: Replica() for node in NODES}
        self.leader: str | None = None
        self.epoch = 0
        self.epoch_start = 0
        self.isr: tuple[str, ...] = NODES
        self.full: tuple[str, ...] = NODES  # the last ISR that had m members
        self.waiting: list[tuple[int, str, int]] = []  # (process, value, offset) not acknowledged yet
        self.position = 0

    @property
    def builder(self) -> HistoryBuilder:
        return self.toy.builder.on_partition(self.number)

    def write(self, isr: tuple[str, ...]) -> None:
        """Write a state with this ISR to ZooKeeper."""
        self.isr = isr
        if len(isr) >= self.toy.m:
            self.full = isr
        self.builder.state(self.leader, self.epoch, " ".join(isr))

    def elect(self, node: str | None, isr: tuple[str, ...] | None = None) -> None:
        """Begin the next leader epoch, with followers that are up; produces that wait get no answer."""
        self.epoch += 1
        self.leader = node
        self.write(isr or self.isr)
        for process, value, _ in self.waiting:
            self.builder.produce_info(process, value)
        self.waiting = []
        if node is None:
            return
        replica = self.replicas[node]
        self.epoch_start = len(replica.log)
        self.builder.leads(node, self.epoch, leo=len(replica.log), hw=replica.hw, isr=" ".join(self.isr))
        for follower in NODES:
            if follower != node and self.toy.up[follower]:
                self.follow(follower)

    def follow(self, node: str) -> None:
        """Let a replica follow the leader: it truncates where their logs part."""
        assert self.leader is not None
        self.builder.follows(node, self.epoch, self.leader)
        follower, leader = self.replicas[node], self.replicas[self.leader]
        common = 0
        while common < min(len(follower.log), len(leader.log)) and follower.log[common] == leader.log[common]:
            common += 1
        if common < len(follower.log):
            del follower.log[common:]
            follower.hw, follower.flushed = min(follower.hw, common), min(follower.flushed, common)
            self.builder.truncate(node, common)

    def control(self) -> None:
        """The controller: no leader, or a dead one, is replaced by a living member of the ISR, or by the recovery election."""
        living = tuple(node for node in self.isr if self.toy.up[node])
        if self.leader is not None and self.toy.up[self.leader]:
            if living != self.isr:
                self.elect(self.leader, living)  # a controller's write bumps the epoch
            for node in NODES:
                if node != self.leader and self.toy.up[node]:
                    self.follow(node)
            return
        eligible = self.eligible()
        whole = [node for node in living if node not in self.wounded()]
        if whole:
            self.elect(whole[0], living)
        elif all(self.toy.up[node] for node in eligible):
            longest = max(eligible, key=lambda node: len(self.replicas[node].log))
            self.elect(longest, (longest,))
        elif self.leader is not None:
            self.elect(None)

    def eligible(self) -> tuple[str, ...]:
        if len(self.isr) >= self.toy.m:
            return self.isr
        return self.isr + tuple(node for node in self.full if node not in self.isr)

    def wounded(self) -> set[str]:
        """Members of the ISR that lost something since they joined it: not electable as they stand."""
        return {node for node in self.isr if self.replicas[node].torn}

    def stop(self, node: str, *, lost: bool) -> None:
        """Let a replica lose what it has not flushed, a drawn part of it, if `lost`."""
        replica = self.replicas[node]
        if lost:
            keep = replica.flushed
            if keep < len(replica.log):
                keep += self.toy.rng.below(len(replica.log) - keep + 1)
            if keep < len(replica.log):
                del replica.log[keep:]
                replica.hw = min(replica.hw, keep)
                self.toy.wounds += 1
                replica.torn = True
                self.builder.wound(node, keep, self.toy.incarnation[node])

    def step(self) -> None:
        """Take one ordinary step."""
        if self.leader is None:
            return
        rng = self.toy.rng
        choice = rng.below(10)
        if choice < 4:
            self.produce()
        elif choice < 7:
            self.fetch(rng.pick(NODES))
        elif choice == 7:
            self.read()
        elif choice == 8:
            self.change_isr(rng.pick(NODES))
        else:
            self.flush(rng.pick(NODES))
        self.commit()

    def flush(self, node: str) -> None:
        self.replicas[node].flushed = len(self.replicas[node].log)

    def produce(self) -> None:
        """Append a new value to the leader's log; it is acknowledged once it is committed."""
        assert self.leader is not None
        self.toy.calls += 1
        process = 100 + self.toy.calls
        value = f"v{self.toy.calls}"
        log = self.replicas[self.leader].log
        self.builder.invoke_produce(process, value)
        self.builder.append(self.leader, len(log), value, self.epoch)
        self.waiting.append((process, value, len(log)))
        log.append((value, self.epoch))
        if self.toy.flush == "before_ack":
            self.flush(self.leader)

    def fetch(self, node: str) -> None:
        """Append up to five records of the leader to a follower's log, and take over its HW."""
        assert self.leader is not None
        if node == self.leader or not self.toy.up[node]:
            return
        follower, leader = self.replicas[node], self.replicas[self.leader]
        for value, epoch in leader.log[len(follower.log) : len(follower.log) + 5]:
            self.builder.event_append(node, len(follower.log), value, epoch)
            follower.log.append((value, epoch))
        if self.toy.flush == "before_ack":
            self.flush(node)
        hw = min(leader.hw, len(follower.log))
        if hw > follower.hw:
            follower.hw = hw
            self.builder.hw(node, hw, epoch=self.epoch, leo=len(follower.log), role="follower", life=self.toy.incarnation[node])

    def change_isr(self, node: str) -> None:
        """Take a member out of the ISR, at even odds, or one in that has caught up."""
        assert self.leader is not None
        replica = self.replicas[node]
        if node == self.leader or not self.toy.up[node]:
            return
        if node in self.isr:
            if len(self.isr) > self.toy.m and self.toy.rng.ratio(1, 2):
                self.sends(tuple(member for member in self.isr if member != node))
        elif len(replica.log) >= max(self.replicas[self.leader].hw, self.epoch_start):
            replica.torn = False
            self.sends((*self.isr, node))

    def sends(self, isr: tuple[str, ...]) -> None:
        self.builder.change_isr(self.leader or "", self.epoch, isr)
        self.write(isr)
        self.builder.change_isr(self.leader or "", self.epoch, isr, ended=True)

    def commit(self) -> None:
        """Raise the HW to what the whole ISR holds, and acknowledge the produces below it."""
        if self.leader is None or len(self.isr) < self.toy.m:
            return
        replica = self.replicas[self.leader]
        hw = min(len(self.replicas[node].log) for node in self.isr)
        if hw <= replica.hw or hw < self.epoch_start:
            return
        replica.hw = hw
        self.builder.hw(self.leader, hw, epoch=self.epoch, leo=len(replica.log), life=self.toy.incarnation[self.leader])
        for process, value, offset in [entry for entry in self.waiting if entry[2] < hw]:
            self.builder.produce_ok(process, value, offset, epoch=self.epoch)
        self.waiting = [entry for entry in self.waiting if entry[2] >= hw]

    def read(self) -> None:
        """Let the reader poll up to 50 records below the HW and ask for the end offset."""
        assert self.leader is not None
        replica = self.replicas[self.leader]
        if replica.hw < self.epoch_start:
            return
        self.position = min(self.position, replica.hw)
        batch = replica.log[self.position : replica.hw][:50]
        self.builder.poll(self.number, self.position, " ".join(value for value, _ in batch), epoch=self.epoch, hw=replica.hw)
        self.builder.latest(self.number, replica.hw, epoch=self.epoch)
        self.position += len(batch)

    def settle(self) -> None:
        """Let all replicas catch up, join and commit; a last reader reads everything."""
        if self.leader is None:
            return
        for node in NODES:
            while node != self.leader and len(self.replicas[node].log) < len(self.replicas[self.leader].log):
                self.fetch(node)
        for node in NODES:
            if node not in self.isr:
                self.sends((*self.isr, node))
        self.commit()
        self.position = 0
        while self.position < self.replicas[self.leader].hw:
            self.read()
