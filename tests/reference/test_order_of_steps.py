"""The order of reads, writes and commands in the procedures of V3 and KIP-236, as one broker performs them."""

import pytest
from msgspec.structs import replace

from reference.config import SAFE, VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.api import AnyOp, Create, Delete, Exists, GetChildren, GetData, SetData
from reference.effects import Send
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    Fetch,
    LeaderAndIsr,
    LeaderAndIsrReply,
    Metadata,
    MetadataReply,
    ProduceReply,
    StopReplica,
    UpdateMetadata,
)
from reference.replica.partition import Follower, brokers_of
from reference.types import Address, BrokerId, topic_of, topic_partition
from tests.reference.lab import T0, carries
from tests.reference.moving import broker_ids, reassign, reassignment_of, request_rollback, stuck_move, write
from tests.reference.recorded import STATE, LateAnswers, Recorded, settled_cluster
from tests.reference.v3 import crash_and_expire

# --- elections -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", [2, 3])
def test_command_follows_the_write_that_it_tells_of(dead: int) -> None:
    """R-076, V3 §A step 4: while the controller's write is on its way, no broker hears of it, though all channels are free."""
    lab = settled_cluster("safe")
    lab.delays_write = lambda i, _: i == 1
    crash_and_expire(lab, dead)
    lab.wait(500)
    idle = [c.broker for c in lab.nodes[1].state.controller.channels if c.in_flight is None]
    early = lab.sent(LeaderAndIsr)
    lab.release_writes()
    lab.settle()
    epochs = {to: [state.leader_epoch for state in message.states] for _, to, message in lab.sent(LeaderAndIsr)}

    others = [i for i in (2, 3, 4) if i != dead]
    assert (idle, early) == ([1, *others], [])
    assert epochs == {f"b{i}": [lab.state().leader_epoch] for i in others}


def test_new_leader_refuses_produces_until_it_is_told() -> None:
    """R-075: ZooKeeper names it already, and its command is on its way; the client, refused, comes again."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsr)
    crash_and_expire(lab, 2)
    leader = lab.state().leader
    assert leader in (3, 4)
    lab.produce(leader, "x", acks=1, correlation=1)
    lab.is_held = lambda _: False
    lab.settle()
    lab.produce(leader, "x", acks=1, correlation=2)
    answers = {reply.correlation: reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)}

    assert answers == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.NONE}


def test_command_without_an_answer_runs_into_its_timeout() -> None:
    """R-077: after request_timeout_ms, and no earlier, the controller gives up waiting and sends the command again."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    crash_and_expire(lab, 4)
    timeout = lab.configs[1].request_timeout_ms
    lab.wait(timeout - 1)
    before = [to for _, to, message in lab.sent(LeaderAndIsr) if to == "b3"]
    lab.wait(1)

    assert (before, [to for _, to, message in lab.sent(LeaderAndIsr) if to == "b3"]) == (["b3"], ["b3", "b3"])


def test_command_without_an_answer_alerts_the_administrator() -> None:
    """R-077, V3 Discussion 6: the controller notes its timeout, once for each, and names the broker and the command."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsrReply, sender="b3")
    crash_and_expire(lab, 4)
    timeout = lab.configs[1].request_timeout_ms
    incarnation = lab.nodes[3].state.broker.incarnation
    lab.wait(timeout - 1)
    early = alerts(lab)
    lab.wait(1)
    alerts_sent = alerts(lab)
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(2 * timeout)

    assert (early, alerts_sent) == ([], [(1, 3, incarnation, "LeaderAndIsr")])
    assert alerts(lab) == alerts_sent


def test_init_without_an_answer_alerts_the_administrator() -> None:
    """R-077: the first command of a controller is one whose answer it waits for, too."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsrReply, sender="b3")
    crash_and_expire(lab, 1)
    lab.wait(lab.configs[2].request_timeout_ms)

    assert [(i, broker, command) for i, broker, _, command in alerts(lab)] == [(2, 3, "LeaderAndIsr")]


def test_stop_replica_without_an_answer_runs_into_its_timeout() -> None:
    """R-077: as any command."""
    lab = settled_cluster("safe")
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(3), BrokerId(2)),))))
    lab.is_held = carries(StopReplica, receiver="b3")
    write(lab, Create("/admin", b""), Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("u",))))
    lab.wait(lab.configs[1].request_timeout_ms)

    assert [to for _, to, message in lab.sent(StopReplica) if to == "b3"] == ["b3", "b3"]


def alerts(lab: Recorded) -> list[tuple[int, int | None, int | None, str | None]]:
    """Who alerts, and which broker, incarnation and command it names."""
    return [(i, note.broker, note.incarnation, note.detail) for i, note in lab.notes if note.kind == "command-unanswered"]


def test_silent_broker_holds_up_no_command_to_another() -> None:
    """R-082: each broker has its own queue; b3, which answers nothing, is told the latest when it answers again."""
    lab = settled_cluster("safe", brokers=5)
    lab.is_held = carries(receiver="b3")
    for i in (5, 4):
        crash_and_expire(lab, i)
    epoch = lab.partition(2).leader_epoch
    waiting = next(c for c in lab.nodes[1].state.controller.channels if c.broker == 3)
    assert waiting.in_flight is not None
    assert lab.partition(3).leader_epoch < epoch == lab.state().leader_epoch
    lab.is_held = lambda _: False
    lab.settle()

    assert lab.partition(3).leader_epoch == epoch


@pytest.mark.parametrize("kind", [LeaderAndIsr, UpdateMetadata])
def test_newest_state_is_told_after_a_timeout(kind: type[LeaderAndIsr | UpdateMetadata]) -> None:
    """R-082: what waits in the queue replaces what was sent without an answer, and not the other way round."""
    lab = settled_cluster("safe")
    before = lab.state().leader_epoch
    lab.is_held = carries(kind, receiver="b3")
    for i in (4, 2):
        crash_and_expire(lab, i)
    lab.fire(1, "channel:3")
    lab.settle()
    epochs = [state.leader_epoch for _, to, message in lab.sent(kind) if to == "b3" for state in message.states]

    assert epochs[0] < epochs[-1]
    assert epochs[-1] == before + 2


def leader_in_metadata(lab: Recorded, i: int) -> BrokerId | None:
    """The leader of t-0 that broker `i` names to clients."""
    lab.handle_event(i, Received(Address("c9"), Metadata(1)))
    reply = lab.client_replies[-1]
    assert isinstance(reply, MetadataReply)
    return reply.states[0].leader


def test_clients_are_routed_by_what_is_in_zookeeper() -> None:
    """R-066: "the published decisions are used by clients for request routing": no earlier, and from every broker."""
    lab = settled_cluster("safe", brokers=5)
    lab.delays_write = lambda i, _: i == 1
    crash_and_expire(lab, 2)
    lab.wait(500)
    early = [leader_in_metadata(lab, i) for i in (3, 5)]
    lab.release_writes()
    lab.settle()

    assert early == [2, 2]
    assert [leader_in_metadata(lab, i) for i in (3, 5)] == [lab.leader()] * 2


# --- watches of the controller -------------------------------------------------------------------------------------------------


def test_controller_watches_the_children_of_add() -> None:
    """R-083: the path itself stays the same when a request below it comes."""
    lab = settled_cluster("safe")
    write(lab, Create("/admin", b""), Create(paths.PARTITIONS_ADD, b""))
    for index in (1, 2):
        added = topic_partition("t", index)
        write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""))
        write(lab, Create(paths.partition_add_path(added), b"[3,2]"))

        assert lab.nodes[1].state.controller.assignments[added] == (3, 2)


def test_controller_watches_the_children_of_remove() -> None:
    """R-083: the path itself stays the same when a request below it comes."""
    lab = settled_cluster("safe")
    write(lab, Create("/admin", b""), Create(paths.PARTITIONS_REMOVE, b""))
    write(lab, Create(f"{paths.PARTITIONS_REMOVE}/t", b""))
    write(lab, Create(paths.partition_remove_path(T0), b""))

    assert lab.nodes[1].state.controller.assignments == {}


def test_controller_watches_the_children_of_moves() -> None:
    """R-049, R-083: the path itself stays the same when a request below it comes; so do the moves that are under way."""
    lab = settled_cluster("v3", brokers=5)
    later = [topic_partition(topic, index) for topic in "uw" for index in range(3)]
    for topic in "uw":
        write(lab, Create(paths.topic_path(topic), paths.topic_payload(((BrokerId(2),), (BrokerId(3),), (BrokerId(2),)))))
    root = admin_paths.PARTITIONS_REASSIGNED
    lab.is_held = carries(Fetch, sender="b5")
    write(lab, Create("/admin", b""), Create(root, b""))
    for tp in (T0, *later):
        write(lab, Create(f"{root}/{topic_of(tp)}", b""))
        write(lab, Create(admin_paths.partition_reassigned_path(tp), b"[4,5]"))

    assert sorted(lab.nodes[1].state.controller.agent.moves) == [T0, *later]
    asleep = settled_cluster("v3")
    write(asleep, Create("/admin", b""), Create(paths.topic_path("y"), paths.topic_payload((broker_ids(2), broker_ids(3)))))
    for above in (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE):
        write(asleep, Create(above, b""))
        write(asleep, Create(f"{above}/y", b""))
    write(asleep, Create(paths.partition_add_path(topic_partition("y", 2)), b"[2]"))
    write(asleep, Create(paths.partition_remove_path(topic_partition("y", 1)), b""))
    assert sorted(asleep.nodes[1].state.controller.assignments) == [T0, "y-0", "y-2"]


def test_request_that_comes_while_the_agent_reads_is_read_next() -> None:
    """R-049: the agent has listed what is asked for, and waits for the assignment of the partition that it found."""
    lab = LateAnswers(5, variant=VARIANTS["v3"])
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    root, later = admin_paths.PARTITIONS_REASSIGNED, topic_partition("u", 0)
    write(lab, Create(paths.topic_path("u"), paths.topic_payload((broker_ids(2),))), Create("/admin", b""), Create(root, b""))
    lab.is_held = carries(Fetch, sender="b5")
    lab.late, lab.answers = paths.topic_path("t"), []
    for tp in (T0, later):
        write(lab, Create(f"{root}/{topic_of(tp)}", b""))
        write(lab, Create(admin_paths.partition_reassigned_path(tp), b"[4,5]"))
    assert len(lab.answers) == 1
    lab.answer_now()

    assert sorted(lab.nodes[1].state.controller.agent.moves) == [T0, later]


# --- failover of the controller ----------------------------------------------------------------------------------------------


def test_init_repeats_commands_lost_with_the_controller() -> None:
    """R-042, R-044: b1 dies before b3 hears of the epoch that it wrote. The next one elects nobody; INIT alone tells b3."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsr, sender="b1")
    crash_and_expire(lab, 4)
    written = lab.state()
    assert lab.partition(3).leader_epoch < written.leader_epoch
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    lab.clear_record()
    crash_and_expire(lab, 1)

    assert lab.state() == written
    assert lab.partition(3).leader_epoch == written.leader_epoch
    assert isinstance(lab.partition(3).role, Follower)
    assert {to for _, to, message in lab.sent(LeaderAndIsr) if message.init} == {"b2", "b3"}


def test_init_repeats_the_first_command_of_a_partition() -> None:
    """R-044: b1 has created the state of u-0, in leader epoch 0, and dies before b2 and b3 hear of it."""
    lab = settled_cluster("safe")
    lab.is_held = carries(LeaderAndIsr, sender="b1")
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(3), BrokerId(2)),))))
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    crash_and_expire(lab, 1)

    assert lab.leader(topic_partition("u", 0)) == 3


def steps_of_failover(lab: Recorded) -> list[str]:
    """The steps of V3 §D that b2 performs after the deaths of the controller b1 and of b4, in its order."""
    lab.crash(1)
    lab.crash(4)
    write(lab, Create("/admin", b""), Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((3, 2)))))
    added, removed = topic_partition("t", 1), topic_partition("t", 2)
    for path in (paths.partition_add_path(added), paths.partition_remove_path(removed)):
        above, _, _ = path.rpartition("/")
        write(lab, Create(above.rpartition("/")[0], b""), Create(above, b""), Create(path, b"[2,3]"))
    lab.clear_record()
    lab.expire(4)
    lab.expire(1)
    lab.settle()
    return list(dict.fromkeys(word for i, step in lab.log if i == 2 and (word := _step_of_failover(step)) is not None))


def _step_of_failover(step: AnyOp | Send) -> str | None:
    match step:
        case Create(path=paths.CONTROLLER):
            return "1 create /controller"
        case GetData(path=path) if path == STATE:
            return "3 read the states"
        case Send(message=LeaderAndIsr(init=True)):
            return "4 send INIT"
        case SetData(path=path) if path == STATE:
            return "5 elect"
        case GetData(path=admin_paths.REASSIGN) | Exists(path=admin_paths.REASSIGN, watch=True):
            return "7 reassign"
        case GetChildren(path=paths.PARTITIONS_ADD):
            return "8 add"
        case GetChildren(path=paths.PARTITIONS_REMOVE):
            return "9 remove"
        case _:
            return None


def test_new_controller_sends_init_before_it_elects() -> None:
    """R-042, R-043: the states are read first, then INIT goes out, and only then a state is written."""
    steps = steps_of_failover(settled_cluster("safe"))
    early = ["1 create /controller", "3 read the states", "4 send INIT", "5 elect"]

    assert [step for step in steps if step in early] == early


def test_new_controller_reads_removals_before_it_sends_init() -> None:
    """B-62: the former controller may have deleted replicas of a partition that is still listed."""
    steps = steps_of_failover(settled_cluster("safe"))
    early = ["3 read the states", "9 remove", "8 add", "4 send INIT", "5 elect"]

    assert [step for step in steps if step in early] == early


def test_new_controller_takes_up_requests_in_the_order_of_v3() -> None:
    """R-043: partitions that move, then those to be added, then those to be removed, after the reads of the elections."""
    lab = settled_cluster("removals-last")
    steps_of_failover(lab)
    reads = [n for n, (i, step) in enumerate(lab.log) if i == 2 and step == GetData(STATE)]
    then = [word for i, step in lab.log[reads[1] :] if i == 2 and (word := _step_of_failover(step)) is not None]

    assert list(dict.fromkeys(then))[:4] == ["3 read the states", "7 reassign", "8 add", "9 remove"]


def test_new_controller_repairs_leaders_before_it_makes_new_ones() -> None:
    """R-043, V3 §D step 5, step 6: on_broker_change() for t-0, though the new topic's a-0 comes first by its name."""
    lab = settled_cluster("safe")
    lab.crash(1)
    write(lab, Create(paths.topic_path("a"), paths.topic_payload(((BrokerId(2), BrokerId(3)),))))
    lab.clear_record()
    lab.expire(1)
    lab.settle()
    new = paths.state_path(topic_partition("a", 0))
    reads = [op.path for i, op in lab.log if i == 2 and isinstance(op, GetData) and op.path in (STATE, new)]

    assert reads[:4] == [new, STATE, STATE, new]


# --- startup of a broker -------------------------------------------------------------------------------------------------------


def test_starting_broker_reads_in_the_order_of_v3() -> None:
    """R-045, V3 §E step 1, step 2: topics, their assignments, the states of its own partitions; it follows only then."""
    lab = settled_cluster("safe")
    other_topic = Create(paths.topic_path("other"), paths.topic_payload(((BrokerId(2), BrokerId(3)),)))
    write(lab, other_topic)
    crash_and_expire(lab, 4)
    new_replica = Create(paths.topic_path("new"), paths.topic_payload(((BrokerId(2), BrokerId(4)),)))
    write(lab, new_replica)
    lab.is_held = carries(receiver="b4")
    lab.clear_record()
    lab.start(4)
    lab.settle()
    reads = [op.path for i, op in lab.log if i == 4 and isinstance(op, GetData | GetChildren)]
    learned = [path for path in reads if path.startswith(paths.TOPICS)]

    topics_read = [paths.topic_path(topic) for topic in ("new", "other", "t")]
    assert learned == [paths.TOPICS, *topics_read, paths.state_path(topic_partition("new", 0)), STATE]
    assert reads.index(paths.broker_path(BrokerId(4))) < reads.index(paths.TOPICS)
    assert isinstance(lab.partition(4).role, Follower)


# --- the end of a move ---------------------------------------------------------------------------------------------------------


def recorded_move(**switches: object) -> Recorded:
    """A move of t-0 from b2, b3 and b4 to b5 and b6, recorded from its beginning."""
    lab = settled_cluster("safe", brokers=6)
    for i in lab.ids:
        lab.nodes[i].state.config = replace(lab.configs[i], variant=replace(SAFE, **switches))
    write(lab, Create("/admin", b""))
    reassign(lab, (5, 6))
    assert sorted(lab.isr()) == [5, 6]
    return lab


def test_move_ends_with_metadata_to_every_broker() -> None:
    """R-238, KIP-236 steps 5 to 7: the topic znode is written, then the entry goes, then UpdateMetadata tells every broker."""
    lab = recorded_move()
    narrowed = max(n for n, (_, op) in enumerate(lab.log) if isinstance(op, SetData) and op.path == paths.topic_path("t"))
    cleared = next(n for n, (_, op) in enumerate(lab.log) if isinstance(op, Delete) and op.path == admin_paths.REASSIGN)
    lab.log = lab.log[cleared:]
    states_by_receiver = {
        to: [(state.leader, state.replicas) for state in message.states] for _, to, message in lab.sent(UpdateMetadata)
    }

    assert narrowed < cleared
    assert states_by_receiver == {f"b{i}": [(5, (5, 6))] for i in lab.ids}
    rolled_back = stuck_move()
    rolled_back.before = {f"gone: {admin_paths.REASSIGN}": rolled_back.clear_record}
    request_rollback(rolled_back)
    told = {word for word in rolled_back.steps if word.startswith("metadata")}

    assert told == {f"metadata to b{i}: 1 of 1,2,3" for i in rolled_back.ids}


def test_move_of_an_offline_partition_is_in_the_metadata() -> None:
    """R-051: no state is written, because nobody can lead; the brokers must still learn where the replicas are."""
    lab = settled_cluster("safe", brokers=6)
    write(lab, Create("/admin", b""))
    for dead in (2, 3, 4):
        crash_and_expire(lab, dead)
    lab.clear_record()
    reassign(lab, (5, 6))
    states_by_receiver = {
        to: [(state.leader, state.replicas) for state in message.states] for _, to, message in lab.sent(UpdateMetadata)
    }

    assert states_by_receiver == {f"b{i}": [(None, (2, 3, 4, 5, 6))] for i in (1, 5, 6)}


def test_shrunk_isr_of_a_move_is_told_to_the_leader_only() -> None:
    """R-054, R-236, V3 §F step 3.2.3: without fenced fetches nobody else needs the command that takes the old replicas out."""
    lab = recorded_move(fetch_fencing=False)
    narrow = [to for _, to, message in lab.sent(LeaderAndIsr) for state in message.states if brokers_of(state.isr) == (5, 6)]

    assert narrow == ["b5"]


def test_shrunk_isr_of_a_move_is_told_to_all_if_fenced() -> None:
    """R-236: the write began a leader epoch, and a follower that did not know it could fetch no more."""
    lab = recorded_move()
    narrow = [to for _, to, message in lab.sent(LeaderAndIsr) for state in message.states if brokers_of(state.isr) == (5, 6)]

    assert narrow == ["b5", "b6"]
