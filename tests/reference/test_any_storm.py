"""Random schedules with all faults and admin requests together, to test how the features interact.

Messages arrive in any order, are lost, duplicated, or delayed into the next process of a broker. Timers fire early.
Brokers crash, stop gracefully, lose their sessions, or are cut off from ZooKeeper with requests whose outcome they never learn.
Directories go bad; one broker at a time loses unflushed records or a whole directory.
An administrator moves, cancels, deletes, recreates, adds and removes partitions, requests preferred leaders and deposes the
controller at any moment. Producers, some of which retry, and consumers ask any broker, too.

Every turn is judged by the rules of `monitors`, so a storm is evidence of all clauses at once, beside the tests that each cites.
"""

import pytest
from msgspec.structs import replace

from history.seed import Rng
from reference.config import NEWEST, VARIANTS, Protocol, asks_controller, sends_heartbeats
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, Delete, GetChildren
from reference.coordination.reassignment_requests import Request, request_payload
from reference.events import Received, ShutDown
from reference.messages import EARLIEST, LATEST, Fetch, ListOffsets, Metadata, PartitionState, Produce
from reference.replica.partition import Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    BrokerState,
    Millis,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
    index_of,
    topic_of,
    topic_partition,
)
from tests.reference.lab import T0
from tests.reference.suffering import Cluster

STEPS = 2500
SEEDS = 20
OTHERS: dict[str, tuple[str, Protocol]] = {  # right ones beside `safe`, of which the tests perform fewer seeds
    "an earlier protocol": ("safe", "legacy"),
    "proposal B": ("reassignment-by-requests", NEWEST),
    "truncation by fetch": ("truncate-on-fetch", NEWEST),
    "answered metadata": ("external-view", NEWEST),
}


class Storm:
    """One run."""

    def __init__(self, seed: int, protocol: str = "safe", *, dirs: int = 2, speaks: Protocol = NEWEST) -> None:
        self.rng = Rng(seed)
        self.protocol = protocol
        self.spread = self.rng.pick([150, 300, 800])  # with a smaller number, faults and requests are drawn more often
        self.lab = self.cluster(self.rng.fork("cluster"), dirs, speaks)
        self.produced = 0  # the last correlation of a client
        self.retried: dict[tuple[TopicId, TopicPartition], Produce] = {}  # the last batch of an idempotent producer
        self.wounded: int | None = None
        self.log: list[str] = []

    def cluster(self, rng: Rng, dirs: int, speaks: Protocol) -> Cluster:
        """The cluster of the run."""
        return Cluster(rng, self.protocol, dirs, speaks)

    def say(self, text: str) -> None:
        self.log.append(text)

    def step(self) -> None:
        lab, rng = self.lab, self.rng
        up = sorted(lab.nodes)
        match rng.below(self.spread):
            case 0 if len(up) > 2:
                self._crash(rng.pick(up))
            case 1 | 2 | 3 | 4 if len(up) < len(lab.ids):
                i = rng.pick([i for i in lab.ids if i not in lab.nodes])
                self.say(f"start {i}")
                lab.start(i)
            case 5 if up:
                i = rng.pick(up)
                self.say(f"expire {i}")
                lab.expire(i)
            case 12 | 13 | 14 | 15 | 16 if up:
                i = rng.pick(up)
                if lab.timers[i]:
                    name = rng.pick(sorted(lab.timers[i]))
                    lab.fire(i, name)
            case 17 if lab.in_flight:
                lab.in_flight.remove(rng.pick(lab.in_flight))
            case 18 if lab.in_flight:
                lab.in_flight.append(rng.pick(lab.in_flight))
            case 19 if len(lab.cut_off_from_zk) < 2 and up:
                i = rng.pick(up)
                if i not in lab.cut_off_from_zk:
                    self.say(f"mute {i}")
                    lab.cut_off(i)
            case 20 | 21 if lab.cut_off_from_zk:
                i = rng.pick(sorted(lab.cut_off_from_zk))
                self.say(f"unmute {i}")
                lab.reconnect(i)
            case 22 if len(up) > 3 and rng.ratio(1, 2):
                i = rng.pick(up)
                self.say(f"stop {i}")
                lab.handle_event(i, ShutDown())
            case 23 | 24 if len(lab.disks[lab.ids[0]].dirs) > 1:
                i = rng.pick(list(lab.ids))
                directory = rng.pick(lab.disks[i].dirs)
                directory.bad = not directory.bad and rng.ratio(1, 3)
                self.say(f"dirs {i} bad={[d.bad for d in lab.disks[i].dirs]}")
            case 25 if rng.ratio(1, 2):
                self._wound()
            case 26 | 27 | 28:
                self._administer()
            case 29 | 30 | 31 | 32 if up:
                self._consume(rng.pick(up))
            case 33 if up:
                self.say("depose the controller")
                lab.ask(Delete(paths.CONTROLLER))
            case _ if up and rng.ratio(1, 16):
                self._produce(rng.pick(up))
            case _ if lab.in_flight:
                chosen = rng.pick(lab.in_flight)
                lab.deliver(lambda envelope: envelope is chosen)
            case _:
                armed = sorted((at, i, name) for i in up for name, at in lab.timers[i].items())
                if armed:
                    lab.fire(*armed[0][1:])

    def _crash(self, i: int) -> None:
        self.lab.crash(i)
        over = self.rng.ratio(3, 4)
        self.say(f"crash {i} expired={over}")
        if over:
            self.lab.expire(i)

    def _produce(self, i: int) -> None:
        lab = self.lab
        led = [tp for tp, p in lab.nodes[i].state.broker.partitions.items() if isinstance(p.role, Leader)]
        if not led:
            return
        tp = self.rng.pick(sorted(led))
        topic_id = lab.nodes[i].state.broker.partitions[tp].log.topic_id
        self.produced += 1
        correlation = self.produced
        acks = -1 if self.rng.ratio(4, 5) else self.rng.pick([0, 1])
        values = tuple(f"v{correlation}.{n}" for n in range(1 + self.rng.below(3)))
        produce = Produce(correlation, tp, acks, values, Millis(1000), topic_id)
        last = self.retried.get((topic_id, tp))
        if last is not None and self.rng.ratio(1, 3):  # the answer is lost, and the producer sends the batch again
            produce = replace(last, correlation=correlation)
        elif self.rng.ratio(1, 2):
            sequence = 0 if last is None else last.base_sequence + len(last.values)
            produce = replace(produce, producer_id=ProducerId(7), base_sequence=sequence)
            self.retried[topic_id, tp] = produce
        lab.handle_event(i, Received(Address("c1"), produce))

    def _consume(self, i: int) -> None:
        """Ask a broker, whether it leads or not, for records, for offsets and for the leaders."""
        lab, rng = self.lab, self.rng
        self.produced += 1
        replicas = lab.nodes[i].state.broker.partitions
        tp = rng.pick(sorted(lab.states()) or [T0])
        leo = replicas[tp].log.leo if tp in replicas else Offset(0)
        offset = Offset(rng.below(leo + 2))
        fetch = Fetch(self.produced, tp, None, NO_INCARNATION, NO_EPOCH, offset, Millis(rng.pick([0, 500])), 1 + rng.below(3))
        offsets = ListOffsets(self.produced, tp, NO_EPOCH, timestamp=rng.pick([LATEST, EARLIEST]))
        choices: list[Fetch | ListOffsets | Metadata] = [fetch, offsets, Metadata(self.produced)]
        request = rng.pick(choices)
        lab.handle_event(i, Received(Address("c2"), request))

    def _wound(self) -> None:
        """DUR-4: lose data on one broker at a time; the next one only when the last is in every ISR again."""
        lab, rng = self.lab, self.rng
        if self.wounded is not None and not self._is_cured(self.wounded):
            return
        i = rng.pick(list(lab.ids))
        self.wounded = i
        if i in lab.nodes and rng.ratio(1, 2):
            lab.lose_power(i)
            self.say(f"power {i}")
        else:
            if i in lab.nodes:
                lab.crash(i)
            index = rng.below(len(lab.disks[i].dirs))
            lab.swap(i, index)
            self.say(f"swap {i}/{index}")
        if rng.ratio(1, 2):
            lab.expire(i)

    def _is_cured(self, i: int) -> bool:
        lab = self.lab
        own_incarnation = lab.nodes[i].state.broker.incarnation if i in lab.nodes else None
        held_states = [state for state in lab.states().values() if state is not None and i in state.replicas]
        gone = [state for state in lab.states().values() if state is None]
        return not gone and all(
            any(member.broker == i and member.incarnation == own_incarnation for member in state.isr) for state in held_states
        )

    # --- the administrator ---

    def _replicas(self) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(b) for b in self.rng.shuffled(list(self.lab.ids))[: 2 + self.rng.below(3)])

    def _administer(self) -> None:
        lab, rng = self.lab, self.rng
        tps = sorted(lab.states())
        match rng.below(14):
            case 0 | 1 | 2 | 3 if tps:
                tp = rng.pick(tps)
                replicas = self._replicas()
                if VARIANTS[self.protocol].reassignment == "B" and rng.ratio(3, 4):
                    self.say(f"request {tp} {replicas}")
                    lab.ask(Create(admin_paths.REQUESTS, b""))
                    lab.ask(Create(admin_paths.REQUEST, request_payload(Request({tp: replicas})), sequential=True))
                    return
                extra = [] if VARIANTS[self.protocol].reassignment == "B" else [admin_paths.REASSIGN_EXTRA]
                path = rng.pick([admin_paths.REASSIGN, *extra])
                self.say(f"{path} {tp} {replicas}")
                lab.ask(Create(path, admin_paths.reassignments_payload({tp: admin_paths.Reassignment(replicas)})))
            case 4:
                self.say("cancel")
                lab.ask(Create(admin_paths.REASSIGN_CANCEL, b""))
            case 5 | 6:
                self.say("uncancel")
                lab.ask(Delete(admin_paths.REASSIGN_CANCEL))
            case 7 | 8 if "u" not in lab.topics():
                replicas = self._replicas()
                self.say(f"make u {replicas}")
                lab.ask(Create(paths.topic_path("u"), paths.topic_payload((replicas,))))
            case 9 if "u" in lab.topics():
                self.say("delete u")
                lab.promises.ended.add(TopicId(lab.topics()["u"].czxid))
                lab.ask(Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("u",))))
            case 10 if tps:
                topic = topic_of(rng.pick(tps))
                tp, replicas = topic_partition(topic, 1), self._replicas()
                self.say(f"add {tp} {replicas}")
                root = paths.PARTITIONS_ADD
                lab.ask(Create(root, b""))
                lab.ask(Create(f"{root}/{topic}", b""))
                lab.ask(Create(paths.partition_add_path(tp), paths.replicas_payload(replicas)))
            case 11 | 12 if tps:
                self.say("preferred")
                lab.ask(Create(paths.PREFERRED_ELECTION, paths.preferred_payload(tuple(tps))))
            case 13 if any(index_of(tp) == 1 for tp in tps):
                tp = rng.pick([tp for tp in tps if index_of(tp) == 1])
                self.say(f"remove {tp}")
                lab.promises.removed.add((TopicId(lab.topics()[topic_of(tp)].czxid), tp))
                root = paths.PARTITIONS_REMOVE
                lab.ask(Create(root, b""))
                lab.ask(Create(f"{root}/{topic_of(tp)}", b""))
                lab.ask(Create(paths.partition_remove_path(tp), b""))
            case _:
                pass

    # --- healing ---

    def heal(self, rounds: int = 40) -> list[str]:
        """End all faults and start every broker. Returns what is still wrong after at most so many rounds of 2 s."""
        lab = self.lab
        for i in lab.ids:
            for directory in lab.disks[i].dirs:
                directory.bad = False
        for i in sorted(lab.cut_off_from_zk):
            lab.reconnect(i)
        for i in sorted(lab.nodes):
            if lab.nodes[i].state.broker.offline_dirs:
                lab.crash(i)
        lab.ask(Delete(admin_paths.REASSIGN_CANCEL))
        wrong: list[str] = []
        for _ in range(rounds):
            for i in lab.ids:
                if i not in lab.nodes:
                    lab.start(i)
            for session in lab.abandoned_sessions:
                lab.deliver_watches(lab.zk.expire(session))
            lab.abandoned_sessions = []
            lab.settle(100_000)
            lab.wait(2000)
            wrong = differences_from_promise(lab)
            if not wrong:
                break
        return wrong


def differences_from_promise(lab: Cluster) -> list[str]:
    """docs/promise.md LIVE-1, LIVE-2, LIVE-4: differences between metadata, ZooKeeper and disks, and requests that are left."""
    if any(i not in lab.nodes for i in lab.ids):
        return [f"up are {sorted(lab.nodes)}"]
    states, topics = lab.states(), lab.topics()
    waiting = {tp for tp, state in states.items() if state is not None and _waits_for_operator(lab, state)}
    wrong = _requests_left(lab, moves=bool(waiting))
    for tp, state in states.items():
        if tp in waiting:
            continue
        if state is None or state.leader is None:
            wrong.append(f"{tp} has no leader: {state}")
        else:
            state_with_topic_id = replace(state, topic_id=TopicId(topics[topic_of(tp)].czxid))
            wrong += _wrong_replicas(lab, state_with_topic_id) + _wrong_metadata(lab, state_with_topic_id)
    for i in lab.ids:
        wrong += _wrong_broker(lab, i)
        strays = [tp for directory in lab.disks[i].dirs for tp in directory.logs if tp not in states]
        strays += [tp for tp in lab.nodes[i].state.broker.metadata if tp not in states]
        wrong += [f"{tp} is known to b{i}" for tp in strays]
        if lab.nodes[i].state.broker.live_brokers != tuple(lab.ids):
            wrong.append(f"b{i} knows of {lab.nodes[i].state.broker.live_brokers}")
    active = [c for c in (lab.nodes[i].state.controller for i in lab.ids) if c.step == "active"]
    if len(active) != 1 or active[0].changes or active[0].agent.moves.keys() - waiting:
        wrong.append(f"controllers at work: {[(c.changes, c.agent.moves) for c in active]}")
    return wrong


def _waits_for_operator(lab: Cluster, state: PartitionState) -> bool:
    """SILENT-2: no log is left of those that count. So its move waits, too."""
    return state.leader is None and {member.broker for member in state.isr + state.elr} <= lab.emptied


def _requests_left(lab: Cluster, *, moves: bool) -> list[str]:
    """What should have been carried out or refused; `moves` may be left."""
    single = (
        paths.DELETE_TOPICS,
        paths.PREFERRED_ELECTION,
        *(() if moves else (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA)),
    )
    wrong = [f"{path} is there" for path in single if lab.read(path) is not None]
    above = (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE, paths.LOG_DIR_EVENTS, admin_paths.REQUESTS)
    for path in (*above, *(() if moves else (admin_paths.REASSIGNMENTS,))):
        (below,) = lab.ask(GetChildren(path))
        wrong += [f"{path}/{name} is there" for name in getattr(below, "names", ()) if not _is_empty_topic(lab, path, name)]
    return wrong


def _is_empty_topic(lab: Cluster, path: str, name: str) -> bool:
    """Whether a znode is that of a topic among requests, with no request below; it was created by the administrator."""
    (below,) = lab.ask(GetChildren(f"{path}/{name}"))
    return path in (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE) and not getattr(below, "names", ())


def _wrong_broker(lab: Cluster, i: int) -> list[str]:
    """What keeps a broker from serving for ever: it is fenced, a timer is not armed, a request waits, a replica is offline."""
    broker = lab.nodes[i].state.broker
    beats = sends_heartbeats(lab.configs[i])
    right = BrokerState.ACTIVE if beats else BrokerState.INITIAL
    timers = ("isr", "checkpoint", "heartbeat", "fence") if beats else ("isr", "checkpoint")
    wrong = [] if broker.membership.state is right else [f"b{i} is {broker.membership.state.name}"]
    wrong += [f"b{i} has no timer {name}" for name in timers if name not in lab.timers[i]]
    wrong += [f"b{i} keeps requests for {tp}" for tp, replica in broker.partitions.items() if replica.produces]
    return [*wrong, *(f"{tp} is offline at b{i}" for tp in broker.offline)]


def _wrong_replicas(lab: Cluster, state: PartitionState) -> list[str]:
    tp, wrong = state.tp, []
    logs = {i: [log for d in lab.disks[i].dirs for found, log in d.logs.items() if found == tp] for i in lab.ids}
    holders = [i for i in lab.ids if logs[i]]
    if not sorted(member.broker for member in state.isr) == sorted(state.replicas) == holders:
        wrong.append(f"{tp}: ISR {state.isr}, held by {holders}, assigned to {state.replicas}")
    if len({tuple(log) for i in holders for log in logs[i]}) != 1 or any(len(found) > 1 for found in logs.values()):
        wrong.append(f"{tp}: logs differ")
    batches = [(batch.producer_id, batch.base_sequence) for i in holders[:1] for batch in logs[i][0] if batch.producer_id >= 0]
    if len(set(batches)) < len(batches):
        wrong.append(f"{tp}: a batch that was sent again is there twice: {batches}")
    for i in holders:
        replica = lab.nodes[i].state.broker.partitions.get(tp)
        if replica is None or (replica.log.topic_id, replica.leader_epoch) != (state.topic_id, state.leader_epoch):
            wrong.append(f"{tp} at b{i} differs from the state in ZooKeeper")
        elif isinstance(replica.role, Leader) != (state.leader == i) or replica.hw != replica.log.leo:
            wrong.append(f"{tp} at b{i}: {replica.role}, HW {replica.hw}, LEO {replica.log.leo}, though {state.leader} leads")
        elif isinstance(replica.role, Leader) and replica.role.change is not None:
            wrong.append(f"{tp} at b{i}: an ISR change has not ended")
    return wrong


def _wrong_metadata(lab: Cluster, state: PartitionState) -> list[str]:
    states = {i: lab.nodes[i].state.broker.metadata.get(state.tp) for i in lab.ids}
    return [
        f"metadata of {state.tp} at b{i}: {message}"
        for i, message in states.items()
        if message is None or _fields_told(lab, message) != _fields_told(lab, state)
    ]


def _fields_told(lab: Cluster, state: PartitionState) -> tuple[object, ...]:
    """What clients are told; of an ISR that its leader wrote itself the controller does not hear."""
    isr = state.isr if asks_controller(lab.configs[lab.ids[0]]) else ()
    return state.topic_id, state.leader, state.leader_epoch, isr, state.replicas, state.offline


def run_storm(seed: int, protocol: str = "safe", *, dirs: int = 2, steps: int = STEPS, speaks: Protocol = NEWEST) -> Storm:
    storm = Storm(seed, protocol, dirs=dirs, speaks=speaks)
    for _ in range(steps):
        storm.step()
        if storm.lab.promises.broken:
            break
    return storm


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_cluster_with_admin_requests_survives_any_faults(seed: int) -> None:
    """DUR-1, DUR-3, DUR-4, ORD-1, VIS-2, LIVE-1, LIVE-2, LIVE-4.

    No election relies on a replica whose data is lost, and no request is left behind or half done.
    """
    storm = run_storm(seed)

    assert storm.heal() == []
    assert storm.lab.promises.broken == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS // 4))
@pytest.mark.parametrize("name", OTHERS)
def test_other_protocols_survive_any_faults(name: str, seed: int) -> None:
    protocol, speaks = OTHERS[name]
    storm = run_storm(seed, protocol, speaks=speaks)

    assert storm.heal() == []
    assert storm.lab.promises.broken == []


@pytest.mark.slow
def test_random_faults_catch_truncation_to_the_high_watermark() -> None:
    """The runs commit records, and lose some with the variant `truncate-to-hw`."""
    promised = sum(len(kept) for seed in range(4) for kept in run_storm(seed).lab.promises.kept.values())

    assert promised > 20
    assert any(run_storm(seed, "truncate-to-hw").lab.promises.broken for seed in range(60))
