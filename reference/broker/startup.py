"""Startup of a broker: recover the logs, register, read the states of its partitions from ZooKeeper (V3 §E).

A registration is an ephemeral node of a session: a restarted broker cannot register before ZooKeeper has ended the session of its
former life. The czxid of the registration is the broker's incarnation (KIP-343, KIP-380).

    state                     event                         next                  effects                   by
    none, creating,           connected, or no answer       creating              create the znodes         register
      reading
    creating                  created, or there already     reading               read the registration     on_answer
    reading                   it is of this session         learning-topics       list the topics           learn
    reading                   V3: a new session, learned    registered                                      _on_registered
                              before
    learning-topics,          no answer                     learning-topics       list the topics           learn
      learning-assignments,
      learning-states
    learning-topics           they are listed               learning-assignments  read assignments          _read_assignments
    learning-assignments      they are read                 learning-states       read partition states     _read_states
    learning-states           they are read                 registered            create, follow, delete    _learn
    any                       the session ends              none                  resign, connect           on_expired
"""

from msgspec.structs import replace

from reference.broker import log_dirs, strays
from reference.broker.broker import LEARNING, Assigned, Broker, Registration, Strays, create_partition, start_timers
from reference.broker.commands import apply, delete_replica, delete_with_topic
from reference.config import sends_heartbeats
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Children, Create, Data, GetChildren, GetData, SessionExpired, Unknown
from reference.effects import CancelTimer, DeleteReplica, MarkClean, MarkDir, Note, Truncate, ZkConnect, ZkRequest
from reference.events import DirImage, LogImage
from reference.log.log import recover
from reference.machine import Turn
from reference.replica import follower
from reference.replica.partition import Idle, note_of
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Creation, Incarnation, Offset, TopicId, TopicPartition, topic_of


def boot(turn: Turn, broker: Broker, image: tuple[DirImage, ...]) -> None:
    """V3 §E step 3.1 for the logs in readable directories (R-301); then open a session."""
    for found in image:
        if not found.readable:
            log_dirs.take_offline(turn, broker, found.dir, "unreadable at startup")
    if broker.offline_dirs:
        if log_dirs.ends_the_process(turn, broker):
            return
        log_dirs.note_gauges(turn, broker)
    for found in image:
        # KAFKA-10471: remove the marker first, because a crash from here on is not a clean shutdown
        if found.clean and turn.config.variant.clean_marker == "early":
            turn.effects.append(MarkClean(found.dir, clean=False))
    # If a directory was marked when the broker had another number of directories, one was removed from the configuration, and its
    # replicas are created again in the others. Their logs must be younger than those that were counted on (R-303, DUR-6).
    broker.dir_births = tuple(found.born if found.dirs == turn.config.log_dirs else NO_INCARNATION for found in image)
    for found in image:
        high_watermarks = {tp: Offset(hw) for tp, hw in found.checkpoint}
        for log_image in found.logs:
            if is_left_over(log_image, found.dir, image):
                turn.effects.append(DeleteReplica(found.dir, log_image.tp))
                continue
            log, cut = recover(log_image, found.dir, trusted=found.clean)
            partition = create_partition(turn, broker, log_image.tp, log)
            partition.hw = high_watermarks.get(log_image.tp, Offset(0))
            if turn.config.variant.hw_clamp:
                partition.hw = min(partition.hw, log.leo)  # KAFKA-539: the checkpoint may be above the recovered log
            reason = "cut at a bad CRC" if cut else None
            turn.note(replace(note_of(partition, "recovered"), dir=log.dir, detail=reason))
            if cut:
                # Truncate the file too: otherwise new records would follow the bad batch, and the next start would drop them.
                turn.effects.append(Truncate(found.dir, log.tp, log.leo))
            if partition.before_ack:
                turn.needs_flush(found.dir)  # records that a crash left in the page cache are not durable yet
    start_timers(turn)
    turn.effects.append(ZkConnect())


def is_left_over(log: LogImage, dir_: int, image: tuple[DirImage, ...]) -> bool:
    """True if another directory holds a later log of the partition.

    This log was in a directory that failed, or was deleted, and a power loss undid the deletion. Both logs may have one birth, so
    the mark of their creation decides; logs from before the mark was stored have none. The leader epoch could not tell: it
    begins at 0 again for a partition that was removed and added (V3 §H).
    """
    same = [_age(other, image_dir.dir) for image_dir in image for other in image_dir.logs if other.tp == log.tp]
    return len(same) > 1 and _age(log, dir_) != max(same)


def _age(log: LogImage, dir_: int) -> tuple[TopicId, Creation, Incarnation, int]:
    return log.topic_id, log.created, log.born, -dir_


def register(turn: Turn, broker: Broker) -> None:
    """Create the registration, and its missing parent nodes.

    R-002, C-02: the broker creates it itself, because an ephemeral node of an administrator would end with the administrator's
    session.
    """
    config = turn.config
    registration = paths.broker_payload(heartbeats=sends_heartbeats(config), host=config.host, port=config.port)
    ops: list[AnyOp] = [Create(path, b"") for path in paths.PERSISTENT]
    ops.append(Create(paths.broker_path(config.broker), registration, ephemeral=True))
    broker.registration = Registration.CREATING
    _ask(turn, broker, tuple(ops))


def _ask(turn: Turn, broker: Broker, ops: tuple[AnyOp, ...]) -> None:
    broker.registration_request = turn.zk_id()
    turn.effects.append(ZkRequest(broker.registration_request, ops))


def on_answer(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...], session: int) -> bool:
    """ZooKeeper answered the startup step in progress. Returns True when the broker has just registered."""
    broker.registration_request = 0
    if any(isinstance(a, (Unknown, SessionExpired)) for a in answers):
        turn.retry("register")
        return False
    match broker.registration:
        case Registration.CREATING:
            broker.registration = Registration.READING
            _ask(turn, broker, (GetData(paths.broker_path(turn.config.broker)),))
        case Registration.READING:
            found = answers[0]
            if isinstance(found, Data) and found.owner == session:
                _on_registered(turn, broker, Incarnation(found.czxid))
                return True
            turn.retry("register")  # the registration of a former life: wait until its session ends
        case Registration.LEARNING_TOPICS:
            _read_assignments(turn, broker, answers[0])
        case Registration.LEARNING_ASSIGNMENTS:
            _read_states(turn, broker, answers)
        case Registration.LEARNING_STATES:
            _learn(turn, broker, answers)
    return False


def on_timer(turn: Turn, broker: Broker) -> None:
    """Try again to register the starting broker, or to read which replicas are assigned to it."""
    if broker.registration in (Registration.CREATING, Registration.READING):
        register(turn, broker)
    elif broker.registration in LEARNING:
        learn(turn, broker)


def _on_registered(turn: Turn, broker: Broker, incarnation: Incarnation) -> None:
    """The broker's znode exists: take its czxid as incarnation, mark new directories with it, and read the assignments."""
    broker.incarnation = turn.incarnation = incarnation  # the czxid of the registration
    turn.note(Note(kind="registered", incarnation=incarnation))
    for dir_, born in enumerate(broker.dir_births):
        if born == NO_INCARNATION and dir_ not in broker.offline_dirs:
            turn.effects.append(MarkDir(dir_, incarnation, turn.config.log_dirs))
    broker.dir_births = tuple(incarnation if born == NO_INCARNATION else born for born in broker.dir_births)
    log_dirs.notify(turn, broker)
    if broker.learned and not turn.config.variant.broker_incarnation:
        broker.registration = Registration.REGISTERED  # the letter of V3: only a starting broker performs §E, not a new session
        return
    learn(turn, broker)


def learn(turn: Turn, broker: Broker) -> None:
    """V3 §E step 1: read the assignment of all topics. ZooKeeper holds every change that was missed (R-066, R-070)."""
    broker.registration = Registration.LEARNING_TOPICS
    broker.before_learning = tuple(broker.partitions)
    _ask(turn, broker, (GetChildren(paths.TOPICS),))


def _read_assignments(turn: Turn, broker: Broker, answer: AnyAnswer) -> None:
    """Read the topic znodes that were listed; with no topics go on to the partition states."""
    topics = answer.names if isinstance(answer, Children) else ()
    broker.learning_topics = topics
    broker.registration = Registration.LEARNING_ASSIGNMENTS
    if topics:
        _ask(turn, broker, tuple(GetData(paths.topic_path(topic)) for topic in topics))
    else:
        _read_states(turn, broker, ())


def _read_states(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §E step 2: read the leader and the ISR of each partition assigned to this broker."""
    mine = []
    broker.learning_ids = {}
    for topic, answer in zip(broker.learning_topics, answers, strict=True):
        if isinstance(answer, Data):
            assigned = paths.decode_topic(topic, answer.data)
            topic_id = broker.learning_ids[topic] = TopicId(answer.czxid)
            mine += [Assigned(tp, replicas, topic_id) for tp, replicas in assigned if turn.config.broker in replicas]
    broker.learning = mine
    broker.registration = Registration.LEARNING_STATES
    if mine:
        _ask(turn, broker, tuple(GetData(paths.state_path(assigned.tp)) for assigned in mine))
    else:
        _learn(turn, broker, ())


def _learn(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §E step 3.2, step 3.3 and step 4: a starting broker creates or deletes replicas by what it read in ZooKeeper.

    Step 3.2, becoming leader from the state read, needs `startup_leads`: a controller may have elected another leader since, and
    the log may be shorter than when the state was written. A replica that is missing may have been deleted with its topic, whose
    znodes are still there (B-62): with `removals_first` the controller alone says what to create.
    """
    topic_ids = {found.tp: found.topic_id for found in broker.learning}
    for tp in broker.before_learning:
        # V3 §E step 4, before the states of another topic of the same name are applied. A replica with a role got a
        # command meanwhile, which assigns it.
        if _is_stray(turn, broker, tp, topic_ids) and isinstance(broker.partitions[tp].role, Idle):
            if strays.is_gone(broker, broker.partitions[tp].log.topic_id, broker.learning_ids.get(topic_of(tp))):
                delete_with_topic(turn, broker, tp)
            else:
                delete_replica(turn, broker, tp)
    for found, answer in zip(broker.learning, answers, strict=True):
        is_there = found.tp in broker.partitions or not turn.config.variant.removals_first
        if not isinstance(answer, Data) or not is_there:
            continue
        state = replace(paths.decode_state(found.tp, found.replicas, answer), topic_id=found.topic_id)
        if state.leader != turn.config.broker or turn.config.variant.startup_leads:  # V3 §E step 3.2, step 3.3
            apply(turn, broker, state)
    if turn.config.variant.clean_marker == "late" and not broker.learned:
        turn.effects += [MarkClean(dir_, clean=False) for dir_ in range(turn.config.log_dirs)]
    broker.registration = Registration.REGISTERED
    broker.learned = True
    broker.learning = []
    broker.learning_topics = ()
    broker.learning_ids = {}
    broker.before_learning = ()
    strays.after_learning(turn, broker, tuple(tp for tp in broker.partitions if _is_stray(turn, broker, tp, topic_ids)))


def _is_stray(turn: Turn, broker: Broker, tp: TopicPartition, assigned: dict[TopicPartition, TopicId]) -> bool:
    """True for a log that is not assigned to this broker, or is of an earlier topic of that name (KIP-516; V3: U-14)."""
    partition = broker.partitions.get(tp)
    if tp not in assigned or partition is None:
        return partition is not None
    return turn.config.variant.topic_id and NO_TOPIC_ID != partition.log.topic_id < assigned[tp]


def on_expired(turn: Turn, broker: Broker) -> None:
    """The ZooKeeper session expired, and the broker's registration with it. `safe` resigns every role and waits for commands."""
    broker.registration = Registration.NONE
    broker.registration_request = 0
    broker.settling = []
    broker.strays = Strays()
    turn.effects.append(CancelTimer("register"))
    if turn.config.variant.broker_incarnation:
        broker.incarnation = turn.incarnation = NO_INCARNATION
        for partition in broker.partitions.values():
            follower.resign(turn, partition)
    turn.effects.append(ZkConnect())
