"""Whether a recorded history is one of the abstract model: trace validation of what brokers and ZooKeeper were seen to do.

Each row changes the picture of its partition a little; the change must be explained by actions of the model or by the named
actions of docs/model.md. Rows come in the order of recording. A follower's truncation is over when it first learns something by
a fetch.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from highwater.explore.abstract.pictures import AskedIsr, Picture, Record, ReplicaPicture, Unexplained, explain
from highwater.explore.abstract.rules import Rules
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History

_OUTSIDE = ReplicaPicture(up=True, log=(), hw=0, epoch=-1, leader=None)


class Unfit(Struct, frozen=True):
    """The first row of a partition that no action explains; later rows of the partition are not checked."""

    topic: str
    partition: int
    row: int
    wrong: str


class Trace(Struct, frozen=True, kw_only=True):
    """What the check of one history found; `explained` counts the rows that each action explains."""

    rows: int
    explained: dict[str, int]
    unfit: tuple[Unfit, ...]


def validate(history: History, rules: Rules) -> Trace:
    """Check the rows of each partition against the model with these rules."""
    partitions: dict[tuple[str, str, int], _Partition] = {}
    counts: Counter[str] = Counter()
    unfit: dict[tuple[str, str, int], Unfit] = {}
    deleted: set[tuple[str, str, int]] = set()  # replicas go one by one, and nothing is promised any more
    rows = 0
    for event in history.events:
        replica_keys = () if event.topic is None else ((event.topic, event.topic_id or "", event.partition or 0),)
        for key in replica_keys or (tuple(partitions) if event.kind is K.NODE_STOPPED else ()):
            partition = partitions.setdefault(key, _Partition(history.manifest.brokers))
            if event.kind is K.TOPIC_DELETED:
                deleted.add(key)
            if key in unfit or key in deleted:
                continue
            rows += 1
            try:
                for before, after in partition.steps(event):
                    counts.update(explain(rules, before, after))
            except Unexplained as error:
                unfit[key] = Unfit(key[0], key[2], event.index, str(error))
    return Trace(rows=rows, explained=dict(sorted(counts.items())), unfit=tuple(unfit.values()))


class _Unrecorded(tuple[str, int]):
    """A record that no row shows, because a crash fell between the append and its row.

    It equals every record of its epoch; if the epoch is -1, it is not known, and it equals every record.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self[1] in (-1, other[1])

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class _Partition:
    # The picture of one partition, folded over its rows.

    def __init__(self, brokers: Sequence[str]) -> None:
        self._index = {broker: index for index, broker in enumerate(brokers)}
        self._picture = Picture(
            replicas=tuple(_OUTSIDE for _ in brokers), leader=None, epoch=-1, isr=frozenset(range(len(brokers)))
        )
        self._created = False
        self._version = -1
        self._isrs: dict[tuple[int, int], frozenset[int]] = {}  # by epoch and version of the state
        self._isrs_asked: dict[tuple[int, int, int], set[frozenset[int]]] = {}  # by leader, epoch and version of the state
        self._hw_led: dict[tuple[int, int], int] = {}  # by leader and epoch: its HW
        self._stopped: dict[int, ReplicaPicture] = {}  # replicas of brokers as they were when they stopped

    def steps(self, event: ClusterEvent) -> Iterator[tuple[Picture, Picture]]:
        """The pictures before and after this row; several pairs if it stands for several steps."""
        if event.kind is K.STATE_WRITTEN:
            yield from self._steps_of_state_write(event)
        elif event.kind is K.WOUND and event.node in self._index:
            # A fault destroyed these bytes: no step of the protocol. An empty log has no row when its broker starts again.
            self._destroy(self._index[event.node], event.offset or 0)
        elif event.node in self._index:
            for changed in self._pictures_after_row(event, self._index[event.node]):
                before = replace(self._picture, told=self._isr_of_answer(event))
                self._set_replica(self._index[event.node], changed)
                yield before, self._picture

    def _set_replica(self, index: int, replica: ReplicaPicture) -> None:
        """Set a replica of the picture."""
        if replica.leader == index:
            self._hw_led[index, replica.epoch] = replica.hw
        replicas = list(self._picture.replicas)
        replicas[index] = replica
        self._picture = replace(self._picture, replicas=tuple(replicas))

    def _destroy(self, index: int, offset: int) -> None:
        was = self._picture.replicas[index]
        self._set_replica(index, replace(was, log=was.log[:offset]))

    def _with_unrecorded(self, index: int, leo: int) -> ReplicaPicture:
        """The replica with the records that it appended before a crash and that no row shows. That was no step of its own."""
        was = self._picture.replicas[index]
        stopped = self._stopped.get(index, _OUTSIDE)
        # A leader appends in its own epoch, so its record is none of a later leader at the same offset.
        epoch = stopped.epoch if stopped.leader == index else -1
        self._set_replica(index, replace(was, log=was.log + (_Unrecorded(("", epoch)),) * (leo - len(was.log))))
        return self._picture.replicas[index]

    def _steps_of_state_write(self, event: ClusterEvent) -> Iterator[tuple[Picture, Picture]]:
        """The step of a write of the partition's state."""
        before = replace(self._picture, asked=self._isrs_requested())
        self._version = -1 if event.zk_version is None else event.zk_version
        self._picture = replace(
            before,
            leader=self._index.get(event.leader or ""),
            epoch=-1 if event.leader_epoch is None else event.leader_epoch,
            isr=frozenset(self._index[member] for member in event.isr or ()),
            elr=frozenset(self._index[member] for member in event.elr or ()),
        )
        self._isrs[self._picture.epoch, self._version] = self._picture.isr
        if self._created:
            yield before, self._picture
        self._created = True

    def _isr_of_answer(self, event: ClusterEvent) -> frozenset[tuple[int, frozenset[int]]]:
        """What ZooKeeper had at the version that the answer to an ISR change names."""
        if event.kind is not K.ISR_CHANGE_ENDED or event.leader_epoch is None or event.zk_version is None:
            return frozenset()
        isr = self._isrs.get((event.leader_epoch, event.zk_version))
        return frozenset() if isr is None else frozenset({(event.leader_epoch, isr)})

    def _isrs_requested(self) -> frozenset[AskedIsr]:
        """The ISRs that the leader asked for on the state in ZooKeeper, each with the leader's HW."""
        # A row of a leader that has read the state may come before the row of its write.
        leader, epoch = self._picture.leader, self._picture.epoch
        if leader is None:
            return frozenset()
        requests = self._isrs_asked.get((leader, epoch, self._version), ())
        return frozenset(AskedIsr(isr, self._hw_led.get((leader, epoch), 0)) for isr in requests)

    def _pictures_after_row(self, event: ClusterEvent, index: int) -> Iterator[ReplicaPicture]:
        """The pictures of a replica after each step that a row tells."""
        was = self._picture.replicas[index]
        if not was.up and event.kind in (K.BECAME_LEADER, K.BECAME_FOLLOWER):  # a new replica on a restarted broker
            was = replace(was, up=True)
            yield was
        match event.kind:
            case K.NODE_STOPPED:
                self._stopped[index] = was
                yield replace(_OUTSIDE, up=False, log=was.log)
            case K.RECOVERED:
                was = self._with_unrecorded(index, event.leo or 0)
                yield from self._pictures_of_restart(was, replace(_OUTSIDE, log=was.log[: event.leo or 0], hw=event.hw or 0))
            case K.REPLICA_DELETED:  # like a disk that comes back empty
                yield from self._pictures_of_restart(was, _OUTSIDE)
            case K.BECAME_LEADER:
                isr = frozenset(self._index[member] for member in event.isr or ())
                yield replace(was, epoch=event.leader_epoch or 0, leader=index, truncating=False, isr=isr)
            case K.BECAME_FOLLOWER:
                leader = self._index[event.leader or ""]
                yield replace(was, epoch=event.leader_epoch or 0, leader=leader, truncating=True, isr=frozenset())
            case K.RESIGNED:
                yield replace(was, leader=None, truncating=False, isr=frozenset())
            case K.ISR_CHANGE_SENT:
                at = (
                    index,
                    -1 if event.leader_epoch is None else event.leader_epoch,
                    -1 if event.zk_version is None else event.zk_version,
                )
                self._isrs_asked.setdefault(at, set()).add(frozenset(self._index[member] for member in event.isr or ()))
            case K.ISR_CHANGE_ENDED if was.leader == index and was.epoch == event.leader_epoch:
                yield replace(was, isr=frozenset(self._index[member] for member in event.isr or ()))
            case K.TRUNCATE:
                yield replace(was, log=was.log[: event.offset or 0])
            case K.APPEND:
                yield from self._pictures_of_append(event, was)
            case K.HW:
                yield from self._picture_after_fetch(was, replace(was, hw=event.hw or 0))

    def _pictures_of_restart(self, was: ReplicaPicture, now: ReplicaPicture) -> Iterator[ReplicaPicture]:
        if was.up:
            yield replace(_OUTSIDE, up=False, log=was.log)
        yield now

    def _pictures_of_append(self, event: ClusterEvent, was: ReplicaPicture) -> Iterator[ReplicaPicture]:
        record: Record = (event.value or "", -1 if event.leader_epoch is None else event.leader_epoch)
        yield from self._picture_after_fetch(was, replace(was, log=(*was.log[: event.offset or 0], record)))

    def _picture_after_fetch(self, was: ReplicaPicture, now: ReplicaPicture) -> Iterator[ReplicaPicture]:
        """The pictures after a fetch: a follower that was still truncating has ended that first, in a step of its own."""
        if was.truncating:
            yield replace(was, truncating=False)
        yield replace(now, truncating=False)
