"""A table-top cluster that writes down what happens, one line each, and holds or loses messages on demand.

A message, a watch and ZooKeeper's answer are written down when they arrive.
"""

from collections.abc import Callable
from typing import get_args

from history.event import EventKind
from reference.config import Variant
from reference.coordination import paths
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Check,
    Checked,
    Create,
    Created,
    Data,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    Unknown,
)
from reference.coordination.memory import Fired
from reference.effects import AnyEffect, CreateReplica, Disconnect, Halt, Note, Send, WriteCheckpoint, ZkRequest
from reference.events import AnyEvent, ZkReplied, ZkState, ZkWatch
from reference.messages import AnyMessage, Batch
from reference.replica.partition import Follower, Leader, Partition
from reference.sealed import in_the_clear
from reference.types import BrokerId, Incarnation, TopicPartition, topic_of
from tests.reference.lab import Envelope, Lab
from tests.reference.wording import (
    Registrations,
    content_in_words,
    exchange_in_words,
    fields_in_words,
    message_in_words,
)

HIDDEN = ("Fetch", "MetadataHeartbeat", "UpdateMetadata", "checkpoint", "gauge")  # kinds that are hidden at first
MESSAGES = tuple(kind.__name__ for kind in get_args(AnyMessage))
KINDS = (
    *(name for name in MESSAGES if not name.endswith("Reply")),
    *(str(kind) for kind in EventKind),
    *("checkpoint", "client", "create-replica", "halt", "session", "watch", "write"),
)
_READS = GetData | Exists | GetChildren


class Stage(Lab):
    """A cluster of which no broker runs yet. `lines` tells what happened, except for the kinds in `hidden`.

    Messages that `holds` match stay in flight. A request of a broker that writes below its path in `held_writes` stays on its
    way to ZooKeeper. Messages over a link in `cut` are lost.
    """

    def __init__(self, brokers: int, *, variant: Variant, replicas: tuple[int, ...], min_isr: int, log_dirs: int) -> None:
        self.lines: list[str] = []
        self.hidden = set(HIDDEN)
        self.reads: tuple[str, ...] = ()  # paths below which reads are told
        self.holds: list[Callable[[Envelope], bool]] = []
        self.held_writes: dict[int, str] = {}
        self.delayed_writes: list[tuple[int, ZkRequest]] = []
        self.cut: set[frozenset[str]] = set()
        self.missed_events: dict[int, list[AnyEvent]] = {}
        self.asked: dict[tuple[int, int], ZkRequest] = {}
        self.registrations: Registrations = {}
        super().__init__(
            brokers,
            variant=variant,
            replicas=replicas,
            min_isr=min_isr,
            log_dirs=log_dirs,
            start=False,
        )
        self.is_held = lambda envelope: any(hold(envelope) for hold in self.holds)

    def say(self, kind: str, who: str, line: str) -> None:
        """Write down a line, unless its kind is hidden."""
        if kind not in self.hidden:
            self.lines += [part.rstrip() for part in f"{who:<9}{line}".split("\n")]

    def release(self) -> None:
        """Hold nothing any more, and perform the writes that are on their way."""
        self.holds.clear()
        self.held_writes.clear()
        while self.delayed_writes:
            self.let_write()

    def let_write(self) -> None:
        """Perform the oldest write that is on its way."""
        super()._perform(*self.delayed_writes.pop(0))

    def cut_off(self, i: int) -> None:
        """Cut a broker off from ZooKeeper."""
        self.cut_off_from_zk.add(i)
        self.missed_events[i] = []
        self.handle_event(i, ZkState("disconnected", self.sessions[i]))

    def reconnect(self, i: int) -> None:
        """Reconnect a broker to ZooKeeper: deliver what it missed, then tell it whether its session is over."""
        self.cut_off_from_zk.discard(i)
        for event in self.missed_events.pop(i):
            self.handle_event(i, event)
        over = not self.zk.touch(self.sessions[i], now_ms=0)
        self.handle_event(i, ZkState("expired") if over else ZkState("connected", self.sessions[i]))

    # --- what happens ---------------------------------------------------------------------------------------------------------

    def handle_event(self, i: int, event: AnyEvent) -> None:
        match event:
            case ZkReplied(id=id_, answers=answers):
                request = self.asked.pop((i, id_))
                for op, answer in zip(request.ops, answers, strict=True):
                    self._say_answer(i, request, op, answer)
            case ZkWatch(path=path, change=change):
                self.say("watch", f"b{i}", f"watch {path} {change}")
            case ZkState(state=state):
                self.say("session", f"b{i}", f"session {state}")
            case _:
                pass
        super().handle_event(i, event)

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if isinstance(effect, ZkRequest):
            self.asked[i, effect.id] = effect
            held_path = self.held_writes.get(i)
            written = [op.path for op in effect.ops if not isinstance(op, _READS | Check)]
            if held_path is not None and any(path.startswith(held_path) for path in written):
                self.say("write", f"b{i}", f"on its way: {', '.join(written)}")
                self.delayed_writes.append((i, effect))
                return None
        error = super()._perform(i, effect)
        if error is None:
            self._say_effect(i, effect)
        return error

    def _do(self, i: int, effect: AnyEffect) -> None:
        match effect:
            case Send(to=to, message=message) if frozenset((f"b{i}", to)) in self.cut:
                self.say(kind_of(message), f"b{i} -x {to}", message_in_words(message, self.registrations))
            case ZkRequest(id=id_, ops=ops) if i in self.cut_off_from_zk:
                self.missed_events[i].append(ZkReplied(id_, (Unknown(),) * len(ops)))
            case _:
                super()._do(i, effect)

    def _hand_over(self, envelope: Envelope) -> None:
        source, to, message = envelope
        self.say(kind_of(message), f"{source} -> {to}", message_in_words(message, self.registrations))
        super()._hand_over(envelope)

    def deliver_watches(self, fired: Fired) -> None:
        for session, path, change in fired:
            for i in sorted(self.cut_off_from_zk & self.nodes.keys()):
                if self.sessions[i] == session:
                    self.missed_events[i].append(ZkWatch(path, change))
        super().deliver_watches(fired)

    def _say_effect(self, i: int, effect: AnyEffect) -> None:
        who = f"b{i}"
        match effect:
            case Send(to=to, message=message) if not to.startswith("b"):
                self.say("client", f"{who} -> {to}", message_in_words(message, self.registrations))
            case CreateReplica(tp=tp, dir=dir_):
                self.say("create-replica", who, f"create-replica {tp} dir={dir_}")
            case WriteCheckpoint(entries=entries):
                self.say("checkpoint", who, " ".join(["checkpoint", *(f"{tp}:{hw}" for tp, hw in entries)]))
            case Disconnect(peer=peer):
                self.say("client", who, f"disconnect {peer}")
            case Halt(reason=reason):
                self.say("halt", who, f"halt: {reason}")
            case Note(kind=kind):
                self.say(kind, who, fields_in_words(effect, self.registrations))
            case _:
                pass

    def _say_answer(self, i: int, request: ZkRequest, op: AnyOp, answer: AnyAnswer) -> None:
        if isinstance(answer, Checked) or (isinstance(answer, NodeExists) and isinstance(op, Create) and not op.data):
            return  # a parent that exists already
        if isinstance(op, Create) and isinstance(answer, Created) and op.path == paths.broker_path(BrokerId(i)):
            earlier = sum(1 for label in self.registrations.values() if label.startswith(f"{i}#"))
            self.registrations[Incarnation(self.zk.nodes[op.path].czxid)] = f"{i}#{earlier + 1}"
        words = [exchange_in_words(op, answer, self.registrations)]
        if isinstance(op, _READS):
            if any(op.path.startswith(path) for path in self.reads):
                self.say("read", f"b{i}", *words)
            return
        words += [f"{check.path} v{check.version}" for check in request.ops if isinstance(check, Check) and check is not op]
        self.say("write", f"b{i}", " if ".join(words))

    # --- how things stand -----------------------------------------------------------------------------------------------------

    def read(self, path: str) -> Data | None:
        """A znode as the administrator sees it."""
        (answer,), _ = self.zk.submit(self.admin, (GetData(path),))
        return answer if isinstance(answer, Data) else None

    def table(self, tp: TopicPartition) -> list[str]:
        """The partition in ZooKeeper and at each broker."""
        topic, state = self.read(paths.topic_path(topic_of(tp))), self.read(paths.state_path(tp))
        assigned = {} if topic is None else dict(paths.decode_topic(topic_of(tp), topic.data))
        words = [f"replicas={','.join(map(str, assigned.get(tp, ()))) or '-'}"]
        if state is not None:
            words += [content_in_words(paths.state_path(tp), state.data, self.registrations), f"zk_version={state.version}"]
        return [f"zk  {' '.join(words)}", *(f"b{i}  {self._replica(i, tp)}" for i in self.ids)]

    def _replica(self, i: int, tp: TopicPartition) -> str:
        if i not in self.nodes:
            return " ".join(["down", *(f"log={_log(d.logs[tp])}" for d in self.disks[i].dirs if tp in d.logs)])
        broker = self.nodes[i].state.broker
        replica = broker.partitions.get(tp)
        if replica is None:
            return "offline" if tp in broker.offline else "no replica"
        return f"{_role(replica)} leader_epoch={replica.leader_epoch} hw={replica.hw} log={_log(replica.log.batches)}"


def _role(replica: Partition) -> str:
    match replica.role:
        case Leader(isr=isr):
            return f"leader isr={','.join(str(m.broker) for m in isr)}"
        case Follower(leader=leader):
            return f"follower of b{leader}"
        case _:
            return "idle"


def _log(batches: list[Batch]) -> str:
    return " ".join(f"{value}@{batch.leader_epoch}" for batch in batches for value in in_the_clear(batch.values)) or "-"


def kind_of(message: AnyMessage) -> str:
    """The kind of a request and of its reply."""
    return type(message).__name__.removesuffix("Reply")
