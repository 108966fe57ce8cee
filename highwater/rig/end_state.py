"""Rows of the final state of a run, from three sources: ZooKeeper's tree, the metadata that brokers send, the logs on the disks.

Every backend records these rows once, after the final reads; the checker `convergence` compares them. The harness asks ZooKeeper
and the brokers like any client, and reads the directories itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

import msgspec

from highwater.rig.evidence import names
from history.event import EventKind
from history.recorder import EventColumns, EventRow
from reference.coordination import paths
from reference.coordination.api import Data
from reference.events import DirImage, LogImage
from reference.log.log import end_of
from reference.messages import PartitionState
from reference.sealed import in_the_clear
from reference.types import NO_TOPIC_ID, Address, BrokerId, TopicId, broker_address, index_of, topic_of

_encode = msgspec.msgpack.Encoder().encode


def zookeeper_rows(topics: Iterable[tuple[str, Data]], states: Mapping[str, Data]) -> Iterator[EventRow]:
    """ZooKeeper's final state: a row for each partition of each topic znode; `states` has at least the state znodes, by path."""
    for topic, znode in topics:
        for tp, replicas in paths.decode_topic(topic, znode.data):
            data = states.get(paths.state_path(tp))
            state = None if data is None else paths.decode_state(tp, replicas, data)
            yield (
                EventKind.ZK_STATE,
                {
                    "topic": topic,
                    "topic_id": str(znode.czxid),
                    "partition": index_of(tp),
                    "leader": None if state is None else _leader(state),
                    "leader_epoch": None if state is None else state.leader_epoch,
                    "zk_version": None if state is None else state.zk_version,
                    "isr": None if state is None else names(tuple(member.broker for member in state.isr)),
                    "elr": None if state is None else names(tuple(member.broker for member in state.elr)),
                    "replicas": names(replicas),
                },
            )


def metadata_rows(node: Address, states: Iterable[PartitionState]) -> Iterator[EventRow]:
    """A broker's final metadata answer: a row for each partition in it."""
    for state in states:
        yield (
            EventKind.METADATA_VIEW,
            {
                "node": node,
                "topic": topic_of(state.tp),
                "topic_id": _id(state.topic_id),
                "partition": index_of(state.tp),
                "leader": _leader(state),
                "leader_epoch": None if state.leader_epoch < 0 else state.leader_epoch,  # before Kafka 2.1 metadata has none
                "isr": names(tuple(member.broker for member in state.isr)),
                "replicas": names(state.replicas),
            },
        )


def log_rows(broker: BrokerId, image: Iterable[DirImage], *, noted: bool = True) -> Iterator[EventRow]:
    """The final logs of a broker: a row for each log in its directories.

    If the broker has not noted its appends, there is also the high watermark of its checkpoint and a row for each record.
    """
    for directory in image:
        high_watermarks = {} if noted else dict(directory.checkpoint)
        for log in directory.logs:
            place: EventColumns = {
                "node": broker_address(broker),
                "topic": topic_of(log.tp),
                "partition": index_of(log.tp),
                "dir": directory.dir,
            }
            digest = _digest(log)
            leo = end_of(log.batches[-1]) if log.batches else 0
            yield (
                EventKind.LOG_ON_DISK,
                {**place, "topic_id": _id(log.topic_id), "leo": leo, "hw": high_watermarks.get(log.tp), "digest": digest},
            )
            for batch in () if noted else log.batches:
                for offset, value in enumerate(in_the_clear(batch.values), batch.base_offset):
                    yield (
                        EventKind.RECORD_ON_DISK,
                        {**place, "offset": offset, "leader_epoch": batch.leader_epoch, "value": value},
                    )


def _digest(log: LogImage) -> str | None:
    """The digest of all records of a log; None if its first ones were deleted: replicas need not delete them at once."""
    if log.batches and log.batches[0].base_offset > 0:
        return None
    return blake2b(_encode(log.batches), digest_size=8).hexdigest()


def _id(topic_id: TopicId) -> str | None:
    return None if topic_id == NO_TOPIC_ID else str(topic_id)


def _leader(state: PartitionState) -> str | None:
    return None if state.leader is None else broker_address(state.leader)
