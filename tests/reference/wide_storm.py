"""Storms for transcripts: of any protocol, over the wire, and with more that is asked, also what is wrong, late or impossible.

Beside what every storm does: messages of the past arrive once more, connections break, requests to ZooKeeper and flushes take
time, writes are torn, strangers fetch, a topic has four partitions, and a capital and a hyphen in its name, administrators write
nonsense, and programs ask (tests/reference/programs.py).
"""

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from highwater.admin import describe, reassign_tool
from history.seed import Rng
from reference import metrics
from reference.client.calls import EarliestCall, LatestCall, Misuse, PollCall, ProduceCall
from reference.client.commands import (
    AddPartition,
    AllowReassignments,
    CancelReassignments,
    Command,
    CreateTopic,
    DeleteTopic,
    DeposeController,
    EditZnode,
    ElectPreferred,
    ElectUnclean,
    ListPending,
    Reassign,
    RemovePartition,
    RequestReassignment,
    placed,
)
from reference.config import NEWEST, VARIANTS, Protocol
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import Create, Delete, SetData
from reference.coordination.memory import Fired
from reference.events import ConnectionLost, Received
from reference.messages import (
    EARLIEST,
    LATEST,
    AnyMessage,
    EpochEnd,
    Fetch,
    InitProducerId,
    ListOffsets,
    Metadata,
    MetadataReply,
    Produce,
)
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    NO_TOPIC_ID,
    Address,
    BrokerId,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
    index_of,
    topic_of,
)
from server.wire.clients.apis import ApiKey
from server.wire.clients.fetch import FetchPartition, FetchRequest, FetchTopic
from server.wire.clients.metadata import InitProducerIdRequest, MetadataRequest, MetadataRequestTopic
from server.wire.clients.offsets import (
    EpochPartition,
    EpochRequest,
    EpochTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from server.wire.clients.produce import PartitionData, ProduceRequest, TopicData
from server.wire.records import sealed
from tests.reference.lab import T0, Envelope
from tests.reference.programs import AdminProgram, ClientProgram, KafkaProgram
from tests.reference.suffering import Cluster
from tests.reference.test_any_storm import Storm
from tests.reference.wired import Recorder, WiredCluster

WIDE = "W-x"  # a topic of four partitions, sometimes more than it has brokers
MORE = 8  # one step in so many is one of those that only a wide storm has
_CLIENTS = (Address("c4"), Address("c5"))
_MISUSES: tuple[Misuse, ...] = ("", "", "", "gap", "behind", "epoch", "stranger")
_NONSENSE = (
    b"",
    b"{",
    b"[]",
    b'{"version":1}',
    b'{"version":1,"partitions":[{"topic":"t"},{"topic":"t","partition":0,"replicas":[8,8]}]}',
)


class _Cluster(WiredCluster):
    """Lets an administrator with a session of its own see its watches, and tears the last batch of some that lose power."""

    see: Callable[[Fired], None] = staticmethod(lambda fired: None)

    def deliver_watches(self, fired: Fired) -> None:
        self.see(fired)
        super().deliver_watches(fired)

    def lose_power(self, i: int) -> None:
        super().lose_power(i)
        for index, directory in enumerate(self.disks[i].dirs):
            for tp, log in directory.logs.items():
                if len(log) > self.durable.get((i, index, tp), 0) and self.rng.ratio(1, 2):
                    log[-1] = replace(log[-1], intact=False)


class WideStorm(Storm):
    """One run, told to `recorder`."""

    lab: WiredCluster

    def __init__(
        self, seed: int, protocol: str, recorder: Recorder, *, speaks: Protocol = NEWEST, dirs: int = 2, upgrades: bool = False
    ) -> None:
        self.recorder, self.upgrades = recorder, upgrades
        super().__init__(seed, protocol, dirs=dirs, speaks=speaks)
        self.client, self.kafka, self.admin = ClientProgram(self.lab), KafkaProgram(self.lab), AdminProgram(self.lab)
        assert isinstance(self.lab, _Cluster)
        self.lab.see = self.admin.see
        self.calls = 0

    def cluster(self, rng: Rng, dirs: int, speaks: Protocol) -> Cluster:
        return _Cluster(rng, self.protocol, dirs, speaks, recorder=self.recorder, upgrades=self.upgrades)

    def say(self, text: str) -> None:
        self.recorder("storm", "steps of the storm", text)

    def step(self) -> None:
        rng = self.rng
        if (self.client.inbox or self.lab.replies or self.lab.answers or self.admin.inbox) and rng.ratio(1, 2):
            self._hear()
        late = sorted(i for i, requests in self.lab.late.items() if requests)
        if late and rng.ratio(1, 10):
            self.lab.serve(rng.pick(late))
        if not rng.ratio(1, MORE):
            super().step()
            return
        match rng.below(26):
            case 0 | 1 | 2:
                self._ask_what_is_wrong()
            case 16 | 17 if self.lab.nodes:
                self._ask_in_bytes(rng.pick(sorted(self.lab.nodes)))
            case 18:
                self._look()
            case 19 | 20 | 21 if self.lab.nodes:
                self.lab.late.setdefault(self._any_or_controller(), deque())
            case 22 | 23 | 24:
                self._touch_a_state()
            case 25 if self.lab.late:
                self.lab.quicken(rng.pick(sorted(self.lab.late)))
            case 3 | 4:
                self._trouble()
            case 5 | 6 | 7 | 8:
                self._call()
            case 9 | 10:
                self.admin.start(self._command())
            case 11:
                self._use_the_tool()
            case 12 | 13:
                self._write_by_hand()
            case 14:
                self.client.fire()
            case 15 if rng.ratio(1, 3):
                self.admin.fire()
            case _:
                self._hear()

    def _any_or_controller(self) -> int:
        """A broker that runs; every second time a controller, whose reads and writes then lie apart."""
        nodes = self.lab.nodes
        controllers = [i for i in sorted(nodes) if nodes[i].state.controller.step == "active"]
        return self.rng.pick(controllers if controllers and self.rng.ratio(1, 2) else sorted(nodes))

    def _hear(self) -> None:
        for program in (self.client, self.kafka, self.admin):
            program.hear()

    def heal(self, rounds: int = 40) -> list[str]:
        self.lab.release_flushes()
        for i in sorted(self.lab.late):
            self.lab.quicken(i)
        for path in (paths.PREFERRED_ELECTION, admin_paths.REASSIGN_EXTRA):
            self.lab.ask(Delete(path))
        return super().heal(rounds)

    # --- what goes wrong ------------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        """Something that no other storm has."""
        lab, rng = self.lab, self.rng
        up = sorted(lab.nodes)
        match rng.below(8):
            case 0 | 1 | 2 if lab.past:
                lab.in_flight.append(Envelope(*rng.pick(lab.past)))
            case 3 if up:
                peers = [*(f"b{i}" for i in lab.ids), *_CLIENTS]
                lab.handle_event(rng.pick(up), ConnectionLost(Address(rng.pick(peers))))
            case 4:
                lab.held_flushes = True
            case 5 | 6:
                lab.release_flushes()
            case _ if rng.ratio(1, 3):
                self.admin.expire()

    def _touch_a_state(self) -> None:
        """Write a state as it is, so that its version moves: of a partition that a late write is about, if there is one."""
        lab, rng = self.lab, self.rng
        late = [op.path for i in sorted(lab.late) for request in lab.late[i] for op in request.ops if isinstance(op, SetData)]
        states = [path for path in late if path.endswith("/state")]
        path = rng.pick(states) if states else paths.state_path(self._partition())
        znode = lab.read(path)
        if znode is not None:
            lab.ask(SetData(path, znode.data))

    # --- what clients ask -----------------------------------------------------------------------------------------------------

    def _partition(self) -> TopicPartition:
        """One that is there, mostly."""
        known = sorted(self.lab.states()) or [T0]
        return TopicPartition("ghost-0") if self.rng.ratio(1, 20) else self.rng.pick(known)

    def _ask_what_is_wrong(self) -> None:
        """Ask a broker with another epoch, topic id, sequence, offset or sender than the right one, or with the right one."""
        lab, rng = self.lab, self.rng
        if not lab.nodes:
            return
        i = rng.pick(sorted(lab.nodes))
        tp = self._partition()
        broker = lab.nodes[i].state.broker
        replica = broker.partitions.get(tp)
        epoch = NO_EPOCH if replica is None else LeaderEpoch(replica.leader_epoch + rng.pick([-1, 0, 0, 0, 1]))
        topic_id = rng.pick([NO_TOPIC_ID, TopicId(99_999), *([replica.log.topic_id] * 4 if replica is not None else [])])
        offset = Offset(0 if replica is None else rng.below(replica.log.leo + 3))
        stranger = BrokerId(rng.pick([*lab.ids, 99]))
        incarnation = rng.pick([NO_INCARNATION, broker.incarnation, Incarnation(7)])
        wait_ms = Millis(rng.pick([0, 400]))
        self.produced += 1
        number = self.produced
        values = tuple(f"w{number}.{n}" for n in range(1 + rng.below(2)))
        identity = (ProducerId(rng.pick([7, 8])), rng.pick([0, 0, 1]), rng.below(6))
        asked: AnyMessage
        match rng.below(8):
            case 0:
                request = Fetch(number, tp, stranger, incarnation, epoch, offset, wait_ms, 1 + rng.below(4), topic_id, epoch)
                lab.handle_event(i, Received(Address(f"b{stranger}"), request))
                return
            case 1:
                ended = LeaderEpoch(max(0, epoch - rng.below(2)))
                lab.handle_event(i, Received(Address(f"b{stranger}"), EpochEnd(number, tp, stranger, epoch, ended, topic_id)))
                return
            case 2:
                asked = Fetch(
                    number, tp, None, NO_INCARNATION, epoch, offset, wait_ms, 2, topic_id, NO_EPOCH, rng.pick([None, 90])
                )
            case 3:
                asked = ListOffsets(number, tp, epoch, topic_id, rng.pick([LATEST, EARLIEST, 5]))
            case 4 | 5:
                acks = rng.pick([-1, -1, 0, 1, 5])
                asked = Produce(number, tp, acks, values, Millis(600), topic_id, *(identity if rng.ratio(2, 3) else ()))
            case 6:
                asked = InitProducerId(number)
            case _:
                asked = Metadata(number)
        lab.handle_event(i, Received(rng.pick(_CLIENTS), asked))

    def _ask_in_bytes(self, i: int) -> None:
        """Ask a broker in Kafka's protocol, in any version that is served."""
        rng = self.rng
        tps = dict.fromkeys((self._partition(), self._partition()))
        parts = [(topic_of(tp), index_of(tp)) for tp in tps]
        epoch, offset = rng.below(4) - 1, rng.below(8)
        self.produced += 1
        match rng.below(8):
            case 0 | 1 | 2:
                topics = tuple(MetadataRequestTopic(topic) for topic, _ in parts) if rng.ratio(1, 3) else None
                self.kafka.ask(i, ApiKey.METADATA, 4 + rng.below(5), MetadataRequest(topics=topics))
            case 3:
                batch = sealed([f"k{self.produced}"])
                data = tuple(TopicData(topic, (PartitionData(index, batch),)) for topic, index in parts)
                request = ProduceRequest(acks=rng.pick([-1, 1]), timeout_ms=500, topic_data=data)
                self.kafka.ask(i, ApiKey.PRODUCE, 3 + rng.below(6), request)
            case 4:
                limits = {"max_wait_ms": rng.pick([0, 300]), "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0}
                fetched = tuple(
                    FetchTopic(
                        topic,
                        (FetchPartition(partition=n, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=90),),
                    )
                    for topic, n in parts
                )
                self.kafka.ask(i, ApiKey.FETCH, 4 + rng.below(8), FetchRequest(replica_id=-1, topics=fetched, **limits))
            case 5:
                listed = tuple(
                    ListOffsetsTopic(topic, (ListOffsetsPartition(partition_index=n, timestamp=rng.pick([LATEST, EARLIEST])),))
                    for topic, n in parts
                )
                self.kafka.ask(i, ApiKey.LIST_OFFSETS, 1 + rng.below(5), ListOffsetsRequest(listed))
            case 6:
                ended = tuple(
                    EpochTopic(topic, (EpochPartition(partition=n, current_leader_epoch=epoch, leader_epoch=rng.below(3)),))
                    for topic, n in parts
                )
                self.kafka.ask(i, ApiKey.OFFSET_FOR_LEADER_EPOCH, 2 + rng.below(2), EpochRequest(topics=ended))
            case _:
                self.kafka.ask(i, ApiKey.INIT_PRODUCER_ID, rng.below(2), InitProducerIdRequest(None))

    def _look(self) -> None:
        """Read the metrics of all brokers, and what one of them would print for `kafka-topics --describe`."""
        lab = self.lab
        for i in sorted(lab.nodes):
            self.recorder(f"b{i}", "metrics", metrics.read(lab.nodes[i]))
            states = lab.nodes[i].state.broker.metadata
            reply = MetadataReply(0, (), tuple(states[tp] for tp in sorted(states)))
            self.recorder(f"b{i}", "descriptions", describe.text_of(describe.of_reply(reply)))

    def _call(self) -> None:
        """Let the client begin a call."""
        rng = self.rng
        self.calls += 1
        tp, id_ = self._partition(), self.calls
        produce = ProduceCall(id=id_, tp=tp, values=(f"p{id_}", f"q{id_}")[: 1 + rng.below(2)], acks=rng.pick([-1, -1, 0, 1]))
        idle = not any(getattr(p.call, "idempotent", False) for p in self.client.machine.pending.values())
        match rng.below(6):
            case 0 | 1:
                self.client.start(replace(produce, retries=rng.below(4)))
            case 2 if idle:
                misuse = rng.pick(_MISUSES)
                self.client.start(replace(produce, acks=-1, retries=rng.below(3), idempotent=True, misuse=misuse))
            case 3:
                self.client.start(PollCall(id=id_, tp=tp, offset=Offset(rng.below(12)), max_records=1 + rng.below(4)))
            case 4:
                self.client.start(LatestCall(id=id_, tp=tp))
            case _:
                self.client.start(EarliestCall(id=id_, tp=tp))

    # --- what administrators ask ------------------------------------------------------------------------------------------------

    def _command(self) -> Command:
        """A command of the administrator's program, on its own session."""
        rng = self.rng
        self.calls += 1
        tp, id_ = self._partition(), self.calls
        tps = tuple(dict.fromkeys((tp, self._partition())))
        added = TopicPartition(f"{WIDE}-{rng.below(4)}")
        commands: list[Command] = [
            CreateTopic(id=id_, topic=WIDE, assignment=self._spread(4)),
            CreateTopic(id=id_, topic=WIDE, assignment=self._spread(4)),
            DeleteTopic(id=id_, topic=rng.pick([WIDE, "u", "ghost"])),
            AddPartition(id=id_, tp=rng.pick([added, TopicPartition("t-1")]), replicas=self._replicas()),
            RemovePartition(id=id_, tp=rng.pick([added, TopicPartition("t-1")])),
            ElectPreferred(id=id_, tps=tps),
            ElectUnclean(id=id_, tps=tps),
            Reassign(id=id_, tp=tp, replicas=self._replicas(), extra=rng.ratio(1, 2)),
            RequestReassignment(id=id_, tp=tp, replicas=self._replicas()),
            CancelReassignments(id=id_),
            AllowReassignments(id=id_),
            AllowReassignments(id=id_),
            DeposeController(id=id_),
            ListPending(id=id_),
            EditZnode(id=id_, path=admin_paths.REASSIGN, data=rng.pick(_NONSENSE), over=rng.ratio(1, 2)),
            EditZnode(id=id_, path=admin_paths.REASSIGN, data=None, over=False),
        ]
        return rng.pick(commands)

    def _spread(self, partitions: int) -> tuple[tuple[BrokerId, ...], ...]:
        brokers = tuple(BrokerId(i) for i in self.lab.ids)
        return placed(brokers[self.rng.below(4) :], partitions=partitions, replication_factor=1 + self.rng.below(2))

    def _moves(self) -> dict[TopicPartition, Reassignment]:
        """One to three moves at once, of which some say where they come from, rightly or not."""
        tps = dict.fromkeys(self._partition() for _ in range(1 + self.rng.below(3)))
        states = self.lab.states()
        present = {tp: state.replicas for tp, state in states.items() if state is not None}
        return {tp: Reassignment(self._replicas(), self.rng.pick([(), present.get(tp, ()), self._replicas()])) for tp in tps}

    def _use_the_tool(self) -> None:
        """Run a command of `highwater admin reassign`."""
        rng, moves = self.rng, self._moves()
        topics = tuple(sorted({topic_of(tp) for tp in moves})) if rng.ratio(1, 2) else ()
        proposal_b = VARIANTS[self.protocol].reassignment == "B" and rng.ratio(2, 3)
        self.admin.run(
            rng.pick(
                [
                    reassign_tool.generate(topics, rng.pick([(), self._replicas()])),
                    (reassign_tool.request if proposal_b else reassign_tool.execute)(moves),
                    (reassign_tool.request if proposal_b else reassign_tool.execute_extra)(moves),
                    (reassign_tool.verify_requests if proposal_b else reassign_tool.verify)(moves),
                    reassign_tool.cancel(),
                    reassign_tool.remove_cancel(),
                    reassign_tool.remove_cancel(),
                ]
            )
        )

    def _write_by_hand(self) -> None:
        """Write a request of several entries, of V3's own path, or nonsense."""
        lab, rng = self.lab, self.rng
        tps = tuple(dict.fromkeys((self._partition(), self._partition(), TopicPartition("ghost-1"))))
        match rng.below(8):
            case 0 | 1 | 2 if VARIANTS[self.protocol].reassign_path == "v3":
                tp = rng.pick(tps)
                root = admin_paths.PARTITIONS_REASSIGNED
                lab.ask(Create(root, b""))
                lab.ask(Create(f"{root}/{topic_of(tp)}", b""))
                lab.ask(Create(f"{root}/{topic_of(tp)}/{index_of(tp)}", paths.replicas_payload(self._replicas())))
            case 0 | 1 | 2:
                lab.ask(Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(self._moves())))
            case 3:
                lab.ask(Create(paths.UNCLEAN_ELECTION, paths.preferred_payload(tps)))
            case 4:
                lab.ask(Create(paths.PREFERRED_ELECTION, rng.pick([paths.preferred_payload(tps), *_NONSENSE])))
            case 5:
                lab.ask(Create(paths.DELETE_TOPICS, rng.pick([paths.delete_topics_payload(("ghost", WIDE)), *_NONSENSE])))
            case 6:
                path = rng.pick([admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA])
                lab.ask(Create(path, rng.pick(_NONSENSE)))
            case _ if WIDE not in lab.topics():
                lab.ask(Create(paths.topic_path(WIDE), paths.topic_payload(self._spread(4))))
