"""The table-top cluster: real node machines and the in-memory ZooKeeper in one process, without IO.

Messages and timers move only when a test says so: `settle` delivers all messages in flight in order, `fire` runs one timer.
The clock advances only in `fire` and `wait`.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from monitors.engine import Watch
from monitors.watch import watch_of
from reference.config import SAFE, BrokerConfig, TopicSpec, Variant
from reference.coordination import paths
from reference.coordination.api import Create, Data, GetData
from reference.coordination.memory import Fired, MemoryZooKeeper
from reference.effects import (
    SHUT_DOWN,
    AnyEffect,
    Append,
    CancelTimer,
    CreateReplica,
    DeleteReplica,
    Disconnect,
    Flush,
    Halt,
    MarkClean,
    MarkDir,
    Note,
    OnDisk,
    Send,
    SetTimer,
    Truncate,
    WriteCheckpoint,
    ZkConnect,
    ZkRequest,
)
from reference.events import AnyEvent, Booted, DirImage, Flushed, LogImage, Received, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.log.log import end_of
from reference.machine import Now
from reference.messages import AnyMessage, Batch, PartitionState, Produce
from reference.node import Node
from reference.performing import perform
from reference.replica.partition import Leader, Partition
from reference.sealed import in_the_clear
from reference.types import (
    NO_CREATION,
    NO_INCARNATION,
    NO_TOPIC_ID,
    Address,
    BrokerId,
    Creation,
    Incarnation,
    Millis,
    TopicId,
    TopicPartition,
)

T0 = TopicPartition("t-0")
EVENTS_MAX = 1000  # handled at once; a cluster that works needs fewer than 60


class Envelope(NamedTuple):
    """A message in flight."""

    sender: Address
    receiver: Address
    message: AnyMessage


def carries(*kinds: type, sender: str | None = None, receiver: str | None = None) -> Callable[[Envelope], bool]:
    """Match envelopes with a message of one of these kinds, from this sender, to this receiver; what is left out may be any."""

    def matches(envelope: Envelope) -> bool:
        return (
            (not kinds or isinstance(envelope.message, kinds))
            and sender in (None, envelope.sender)
            and receiver in (None, envelope.receiver)
        )

    return matches


class Directory:
    """The content of one log directory. While `bad` is true, every access fails."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, list[Batch]] = {}
        self.born: dict[TopicPartition, Incarnation] = {}
        self.topic_ids: dict[TopicPartition, TopicId] = {}
        self.created: dict[TopicPartition, Creation] = {}
        self.mark = NO_INCARNATION
        self.dirs = 0
        self.clean = False
        self.checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
        self.bad = False

    def image(self, index: int) -> DirImage:
        if self.bad:
            return DirImage(index, False)
        logs = tuple(
            LogImage(
                tp,
                tuple(batches),
                self.born.get(tp, NO_INCARNATION),
                self.topic_ids.get(tp, NO_TOPIC_ID),
                self.created.get(tp, NO_CREATION),
            )
            for tp, batches in sorted(self.logs.items())
        )
        return DirImage(
            index, readable=True, logs=logs, checkpoint=self.checkpoint, born=self.mark, dirs=self.dirs, clean=self.clean
        )


class Disk:
    """The log directories of one broker. With a single directory, `logs` and its siblings read that directory."""

    def __init__(self, dirs: int = 1) -> None:
        self.dirs = [Directory() for _ in range(dirs)]

    @property
    def only(self) -> Directory:
        (directory,) = self.dirs
        return directory

    @property
    def logs(self) -> dict[TopicPartition, list[Batch]]:
        return self.only.logs

    @property
    def topic_ids(self) -> dict[TopicPartition, TopicId]:
        return self.only.topic_ids

    @property
    def clean(self) -> bool:
        return self.only.clean

    @property
    def checkpoint(self) -> tuple[tuple[TopicPartition, int], ...]:
        return self.only.checkpoint

    def image(self) -> tuple[DirImage, ...]:
        return tuple(directory.image(index) for index, directory in enumerate(self.dirs))


class Lab:
    """A cluster of n brokers, whose ids begin at `first`, with one topic `t` of one partition."""

    checks_rules: bool = True  # a turn that breaks a rule of `monitors/` fails the test
    checks_clones: bool = True  # also handle each event with a clone; tables of hundreds of clusters turn this off

    def __init__(
        self,
        brokers: int = 3,
        *,
        first: int = 1,
        variant: Variant = SAFE,
        replicas: tuple[int, ...] | None = None,
        min_isr: int = 1,
        before_ack: bool = False,
        start: bool = True,
        log_dirs: int = 1,
    ) -> None:
        self.zk = MemoryZooKeeper.boot()
        self.ids = tuple(range(first, first + brokers))
        replicas = replicas or self.ids
        flush: Literal["none", "before_ack"] = "before_ack" if before_ack else "none"
        topic = TopicSpec(name="t", partitions=1, replication_factor=len(replicas), min_insync_replicas=min_isr, flush=flush)
        self.configs = {
            i: BrokerConfig(broker=BrokerId(i), variant=variant, topics=(topic,), log_dirs=log_dirs) for i in self.ids
        }
        self.nodes: dict[int, Node] = {}
        self.watches: dict[int, Watch] = {}  # the rules over this life of each broker
        self.sessions: dict[int, int] = {}
        self.disks = {i: Disk(log_dirs) for i in self.ids}
        self.process_numbers = dict.fromkeys(self.ids, 0)
        self.timers: dict[int, dict[str, int]] = {i: {} for i in self.ids}
        self.in_flight: deque[Envelope] = deque()
        self.client_replies: list[AnyMessage] = []  # replies to clients
        self.disconnected: list[Address] = []  # peers whose connection a broker closed
        self.notes: list[tuple[int, Note]] = []
        self.now = 0
        self.events: deque[tuple[int, AnyEvent]] = deque()  # events to be handled
        self.is_handling = False
        self.is_held: Callable[[Envelope], bool] = lambda _: False
        self.halted: dict[int, str] = {}  # broker -> reason of its Halt, except for a controlled shutdown
        self.cut_off_from_zk: set[int] = set()  # brokers cut off from ZooKeeper
        self.held_flushes = False
        self.flushes: list[tuple[int, Flushed]] = []  # flushes that have not completed
        self.admin = self.zk.connect(timeout_ms=1000)
        assignment = (tuple(BrokerId(i) for i in replicas),)
        for path in paths.PERSISTENT:
            self.zk.submit(self.admin, (Create(path, b""),))
        self.zk.submit(self.admin, (Create(paths.topic_path("t"), paths.topic_payload(assignment)),))
        if start:
            for i in self.ids:
                self.start(i)
            self.settle()

    def start(self, i: int) -> None:
        """Start a new process of broker `i` on its disk."""
        self.process_numbers[i] += 1
        self.timers[i] = {}
        self.nodes[i] = Node.boot(self.configs[i], self.disks[i].image(), self.process_numbers[i])
        self.watches[i] = self.watch_of(i)
        self.handle_event(i, Booted())

    def watch_of(self, i: int) -> Watch:
        """The rules over a life of a broker."""
        return watch_of(self.configs[i])

    def crash(self, i: int) -> None:
        """Kill the process of broker `i` (kill -9). Its session lives on until `expire`."""
        del self.nodes[i]
        self.drop(carries(receiver=f"b{i}"))

    def expire(self, i: int) -> None:
        """Expire the broker's session in ZooKeeper, and tell the broker if it is connected."""
        fired = self.zk.expire(self.sessions[i])
        self.deliver_watches(fired)
        if i in self.nodes and i not in self.cut_off_from_zk:
            self.handle_event(i, ZkState("expired"))

    def handle_event(self, i: int, event: AnyEvent) -> None:
        """Queue one event for one node; handle all queued events in order and perform their effects."""
        self.events.append((i, event))
        if self.is_handling:
            return
        self.is_handling = True
        try:
            for _ in range(EVENTS_MAX):
                if not self.events:
                    return
                self._handle(*self.events.popleft())
            raise AssertionError(f"brokers and ZooKeeper answer one another {EVENTS_MAX} times without a message")
        finally:
            self.is_handling = False

    def _handle(self, i: int, event: AnyEvent) -> None:
        node = self.nodes.get(i)
        if node is None:
            return
        now = Now(Millis(self.now), Millis(self.now))
        clone = node.clone() if self.checks_clones else None
        effects = node.handle(event, now=now)
        assert clone is None or clone.handle(event, now=now) == effects, (
            "a decoded clone must return the same effects as its original"
        )
        broken = self.watches[i].turn(event, effects)
        # The rules that hold follow from the settings at the start; some tests exchange these later.
        if self.checks_rules and node.state.config == self.configs[i]:
            assert not broken, f"b{i} broke rules: {'; '.join(str(note.detail) for note in broken)}"
        failures = perform(
            effects,
            lambda effect: self._perform(i, effect),
            lambda index: tuple(self.disks[i].dirs[index].logs),
            lambda: i in self.nodes,
        )
        self.events.extendleft((i, failure) for failure in reversed(failures))

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        """Perform one effect. Returns the error if it writes to a bad directory."""
        if isinstance(effect, OnDisk):
            directory = self.disks[i].dirs[effect.dir]
            if directory.bad:
                return "EIO"
            self._write(i, directory, effect)
        else:
            self._do(i, effect)
        return None

    def _write(self, i: int, disk: Directory, effect: OnDisk) -> None:
        match effect:
            case CreateReplica(tp=tp, born=born, topic_id=topic_id, created=created):
                assert tp not in disk.logs
                disk.logs[tp] = []
                disk.born[tp] = born
                disk.topic_ids[tp] = topic_id
                disk.created[tp] = created
            case MarkDir(born=born, dirs=dirs):
                disk.mark, disk.dirs = born, dirs
            case MarkClean(clean=clean):
                disk.clean = clean
            case DeleteReplica(tp=tp):
                del disk.logs[tp]
            case Append(tp=tp, batches=batches):
                disk.logs[tp].extend(batches)
            case Truncate(tp=tp, to=to_offset):
                disk.logs[tp] = [b for b in disk.logs[tp] if end_of(b) <= to_offset]
            case Flush(dir=dir_, id=id_):
                if self.held_flushes:
                    self.flushes.append((i, Flushed(dir_, id_)))
                else:
                    self.handle_event(i, Flushed(dir_, id_))
            case WriteCheckpoint(entries=entries):
                disk.checkpoint = entries

    def _do(self, i: int, effect: AnyEffect) -> None:
        match effect:
            case Send(to=to, message=message):
                if to.startswith("b"):
                    self.in_flight.append(Envelope(Address(f"b{i}"), to, message))
                else:
                    self.client_replies.append(message)
            case Disconnect(peer=peer):
                self.disconnected.append(peer)
            case SetTimer(name=name, hi_ms=hi):
                self.timers[i][name] = self.now + hi
            case CancelTimer(name=name):
                self.timers[i].pop(name, None)
            case ZkConnect():
                self.sessions[i] = self.zk.connect(timeout_ms=6000)
                self.handle_event(i, ZkState("connected", self.sessions[i]))
            case ZkRequest(id=id_, ops=ops, atomic=atomic):
                if i in self.cut_off_from_zk:
                    return
                answers, fired = self.zk.submit(self.sessions[i], ops, atomic=atomic)
                self.handle_event(i, ZkReplied(id_, answers))
                self.deliver_watches(fired)
            case Note():
                self.notes.append((i, effect))
            case Halt(reason=reason):
                if reason != SHUT_DOWN:
                    self.halted[i] = reason
                self.crash(i)

    def deliver_watches(self, fired: Fired) -> None:
        """Deliver watch events to the connected brokers that own the sessions."""
        for session, path, change in fired:
            for i, session_of_broker in self.sessions.items():
                if session_of_broker == session and i in self.nodes and i not in self.cut_off_from_zk:
                    self.handle_event(i, ZkWatch(path, change))

    def release_flushes(self) -> None:
        """Complete the pending flushes, and complete later ones at once."""
        self.held_flushes = False
        flushes, self.flushes = self.flushes, []
        for i, flushed in flushes:
            if i in self.nodes:
                self.handle_event(i, flushed)

    def deliver(self, matches: Callable[[Envelope], bool]) -> int:
        """Deliver the messages that are in flight now and match; return their number."""
        matching = [envelope for envelope in self.in_flight if matches(envelope)]
        for envelope in matching:
            if envelope in self.in_flight:  # else the one before it ended its receiver, which loses what is in flight
                self.in_flight.remove(envelope)
                self._hand_over(envelope)
        return len(matching)

    def drop(self, matches: Callable[[Envelope], bool]) -> None:
        """Lose the messages in flight that match."""
        self.in_flight = deque(envelope for envelope in self.in_flight if not matches(envelope))

    def _hand_over(self, envelope: Envelope) -> None:
        receiver = int(envelope.receiver.removeprefix("b"))
        if receiver in self.nodes:
            self.handle_event(receiver, Received(envelope.sender, envelope.message))

    def settle(self, limit: int = 10_000) -> None:
        """Deliver messages in order until none is left, except for those that `is_held` matches."""
        for _ in range(limit):
            envelope = next((envelope for envelope in self.in_flight if not self.is_held(envelope)), None)
            if envelope is None:
                return
            self.in_flight.remove(envelope)
            self._hand_over(envelope)
        raise AssertionError("messages are still in flight after the limit of deliveries")

    def fire(self, i: int, name: str) -> None:
        """Advance the clock to the deadline of one timer and run it."""
        self.now = max(self.now, self.timers[i].pop(name))
        self.handle_event(i, TimerFired(name))

    def wait(self, ms: int) -> None:
        """Advance the clock by `ms`: run due timers in order, and deliver all messages after each."""
        end_ms = self.now + ms
        while True:
            timers = [(due_ms, i, name) for i in self.nodes for name, due_ms in self.timers[i].items()]
            if not timers:
                break
            due_ms, i, name = min(timers)
            if due_ms > end_ms:
                break
            self.fire(i, name)
            self.settle()
        self.now = end_ms

    def produce(self, i: int, *values: str, acks: int = -1, correlation: int = 1) -> None:
        """Send a produce request from a client to broker `i`."""
        self.handle_event(i, Received(Address("c1"), Produce(correlation, T0, acks, values, Millis(1000))))

    def partition(self, i: int) -> Partition:
        """The replica of t-0 on broker `i`."""
        return self.nodes[i].state.broker.partitions[T0]

    def values(self, i: int) -> list[str]:
        """The record values in the log of broker `i`."""
        return [value for batch in self.partition(i).log.batches for value in in_the_clear(batch.values)]

    def leaders(self, tp: TopicPartition = T0) -> list[int]:
        """The brokers that believe that they lead."""
        replicas = {i: self.nodes[i].state.broker.partitions.get(tp) for i in self.ids if i in self.nodes}
        return [i for i, replica in replicas.items() if replica is not None and isinstance(replica.role, Leader)]

    def leader(self, tp: TopicPartition = T0) -> int:
        """The leader in ZooKeeper, which must be the only broker that believes that it leads."""
        (leader,) = self.leaders(tp)
        assert leader == self.state(tp).leader
        return leader

    def followers(self, tp: TopicPartition = T0) -> list[int]:
        """The other members of the ISR."""
        return [i for i in self.isr(tp) if i != self.leader(tp)]

    def state(self, tp: TopicPartition = T0) -> PartitionState:
        """The partition state in ZooKeeper."""
        (answer,), _ = self.zk.submit(self.admin, (GetData(paths.state_path(tp)),))
        assert isinstance(answer, Data)
        return paths.decode_state(tp, (), answer)

    def isr(self, tp: TopicPartition = T0) -> list[int]:
        """The ISR in ZooKeeper."""
        return [member.broker for member in self.state(tp).isr]
