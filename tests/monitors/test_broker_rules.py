"""Rules of what a broker takes, serves and stores: turns that break each, and turns beside them that its clause allows."""

from typing import Any

import pytest
from msgspec.structs import replace

from monitors.disks import DISKS
from monitors.fetches import FETCHES
from monitors.obedience import OBEDIENCE
from reference.config import VARIANTS, TopicSpec
from reference.effects import CreateReplica, DeleteReplica, Flush, Halt, WriteCheckpoint
from reference.errors import ErrorCode
from reference.events import Flushed
from reference.messages import (
    Batch,
    FetchReply,
    LeaderAndIsr,
    Metadata,
    MetadataReply,
    PartitionState,
    ProduceReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import Incarnation, LeaderEpoch, Offset, TopicId
from tests.monitors.scene import (
    B1,
    B2,
    B3,
    BAD_DIR,
    DELETED,
    EPOCH,
    FOLLOWS,
    GAUGE,
    HELD,
    LEADS,
    NONE,
    REGISTERED,
    SHUTS_DOWN,
    TP,
    acknowledged,
    commanded,
    fetch,
    fetched,
    obeyed,
    produce,
    state,
)
from tests.monitors.turns import CONFIG, Turn, broken, note, send, turn_on_message, turn_with

OUT_OF_RANGE, STORAGE = ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR
OK = (TP, NONE)
RECOVERED = turn_with(note("recovered", tp=TP, dir=0, hw=3, leo=5))


def first_command(*states: PartitionState, effects: tuple[Any, ...] = ()) -> Turn:
    """The first command of a controller to b1."""
    return turn_on_message("b2", LeaderAndIsr(1, B2, EPOCH, Incarnation(10), init=True, states=states), *effects)


def creating_command(*new: str, effects: tuple[Any, ...] = (CreateReplica(1, TP),)) -> Turn:
    """A command by which b1 creates a replica."""
    command = LeaderAndIsr(1, B2, EPOCH, Incarnation(10), init=False, states=(state(),), new=tuple(TP for _ in new))
    return turn_on_message("b2", command, *effects)


def metadata_told(number: int, *states: PartitionState, full: bool = True) -> Turn:
    """b1 is told metadata."""
    command = UpdateMetadata(number, B2, EPOCH, Incarnation(10), (B1, B2, B3), states, full=full, number=number)
    return turn_on_message("b2", command, send("b2", UpdateMetadataReply(number, NONE)))


def metadata_asked(*states: PartitionState) -> Turn:
    """A client asks b1 for metadata."""
    return turn_on_message("c1", Metadata(9), send("c1", MetadataReply(9, (B1, B2, B3), states, controller=B2)))


def from_leader(hw: int, *effects: Any, records: int = 0, number: int = 5) -> Turn:
    batches = (Batch(Offset(5), LeaderEpoch(7), ("v",) * records),) if records else ()
    return turn_on_message("b2", FetchReply(number, TP, NONE, LeaderEpoch(7), Offset(hw), batches), *effects)


ASKS = turn_with(send("b2", fetch(B1, offset=5)))
HW = note("hw", tp=TP, hw=5)

BAD: dict[str, tuple[Turn, ...]] = {
    "command-ignored": (REGISTERED, FOLLOWS, commanded("b2", obeyed("b2", NONE, OK), leader_epoch=8)),
    "role-taken-again": (FOLLOWS, FOLLOWS),
    "unlisted-replica-kept": (REGISTERED, HELD, first_command()),
    "listed-replica-deleted": (REGISTERED, first_command(state(), effects=(note("replica-deleted", tp=TP, topic_id=9),))),
    "codes-mixed-up": (REGISTERED, commanded("b2", obeyed("b2"))),
    "untold-metadata": (metadata_told(1, state(7)), metadata_asked(state(6))),
    "answered-from-elsewhere": (LEADS, turn_on_message("c1", fetch(offset=2), fetched(records=2))),
    "offset-in-range-refused": (RECOVERED, LEADS, turn_on_message("c1", fetch(offset=4), fetched(OUT_OF_RANGE))),
    "fetched-beyond-the-end": (RECOVERED, LEADS, turn_on_message("c1", fetch(offset=6), fetched())),
    "hw-not-followed": (RECOVERED, FOLLOWS, ASKS, from_leader(5)),
    "acknowledgement-waits": (LEADS, turn_on_message("c1", produce(1))),
    "another-checkpoint": (RECOVERED, turn_with(WriteCheckpoint(0, ((TP, Offset(4)),)))),
    "deleted-replica-in-checkpoint": (
        HELD,
        turn_on_message("c1", fetch(), WriteCheckpoint(0, ((TP, Offset(0)),)), DeleteReplica(0, TP)),
    ),
    "created-in-failed-directory": (BAD_DIR, creating_command("new", effects=(CreateReplica(0, TP),))),
    "created-beside-failed-directory": (BAD_DIR, creating_command()),
    "storage-error-without-failure": (FOLLOWS, turn_on_message("c1", fetch(), fetched(STORAGE))),
    "failure-not-shown": (turn_with(note("dir-failed", dir=0)),),
    "ended-with-good-directory": (BAD_DIR, turn_with(Halt("log directory 0 failed"))),
    "runs-without-directory": (BAD_DIR, turn_with(note("dir-failed", dir=1), note("gauge", gauge=2, detail=GAUGE))),
    "fetched-before-flush": (RECOVERED, FOLLOWS, turn_with(send("b2", fetch(B1, offset=5)))),
    "untrue-gauge": (BAD_DIR, turn_with(note("gauge", gauge=2, detail=GAUGE))),
}

GOOD: dict[str, tuple[Turn, ...]] = {
    "role taken": (
        *(REGISTERED, FOLLOWS),
        commanded("b2", note("became-follower", tp=TP, leader=B2, leader_epoch=8), obeyed("b2", NONE, OK), leader_epoch=8),
    ),
    "role refused": (
        *(REGISTERED, FOLLOWS),
        commanded("b2", obeyed("b2", NONE, (TP, ErrorCode.FENCED_LEADER_EPOCH)), leader_epoch=8),
    ),
    "command of another registration refused": (
        *(REGISTERED, FOLLOWS),
        commanded("b2", obeyed("b2", ErrorCode.STALE_BROKER_EPOCH), leader_epoch=8),
    ),
    "command of the same epoch changes nothing": (REGISTERED, FOLLOWS, commanded("b2", obeyed("b2", NONE, OK), leader_epoch=7)),
    "broker that closes takes no role": (REGISTERED, FOLLOWS, SHUTS_DOWN, commanded("b2", leader_epoch=8)),
    "role of a later epoch": (FOLLOWS, turn_with(note("became-follower", tp=TP, leader=B2, leader_epoch=8))),
    "role taken again by the replica of the next topic": (FOLLOWS, turn_with(DELETED), FOLLOWS),
    "role taken again after it was given up": (FOLLOWS, turn_with(note("resigned", tp=TP)), FOLLOWS),
    "unlisted replica deleted": (REGISTERED, HELD, first_command(effects=(DELETED,))),
    "unlisted replica in a failed directory": (REGISTERED, HELD, BAD_DIR, first_command()),
    "listed replica of an earlier topic deleted": (
        REGISTERED,
        first_command(state(), effects=(note("replica-deleted", tp=TP, topic_id=TopicId(8)),)),
    ),
    "a code for each partition": (REGISTERED, commanded("b2", obeyed("b2", NONE, OK))),
    "metadata told": (metadata_told(1, state(7)), metadata_asked(state(7))),
    "later state of a partition told": (
        metadata_told(1, state(7)),
        metadata_told(2, state(8), full=False),
        metadata_asked(state(8)),
    ),
    "late copy of metadata": (metadata_told(2, state(8)), metadata_told(1, state(7)), metadata_asked(state(8))),
    "partition that full metadata leave out": (metadata_told(1, state(7)), metadata_told(2), metadata_asked()),
    "records from the offset asked for": (LEADS, turn_on_message("c1", fetch(offset=1), fetched(records=2))),
    "offset beyond the end refused": (RECOVERED, LEADS, turn_on_message("c1", fetch(offset=6), fetched(OUT_OF_RANGE))),
    "fetch at the end of the log": (RECOVERED, LEADS, turn_on_message("c1", fetch(offset=5), fetched())),
    "higher high watermark taken": (RECOVERED, FOLLOWS, ASKS, from_leader(5, HW)),
    "high watermark beyond the own log": (
        *(turn_with(note("recovered", tp=TP, dir=0, hw=5, leo=5)), FOLLOWS, ASKS),
        from_leader(9),
    ),
    "answer to an earlier fetch": (
        RECOVERED,
        FOLLOWS,
        ASKS,
        turn_with(note("became-leader", tp=TP, leader_epoch=8, hw=3)),
        from_leader(5),
    ),
    "acks=1 answered": (LEADS, turn_on_message("c1", produce(1), acknowledged(3))),
    "acks=1 refused": (LEADS, turn_on_message("c1", produce(1), send("c1", ProduceReply(6, TP, ErrorCode.UNKNOWN_TOPIC_ID)))),
    "acks=all waits": (LEADS, turn_on_message("c1", produce(-1))),
    "checkpoint of the high watermark": (RECOVERED, turn_with(WriteCheckpoint(0, ((TP, Offset(3)),)))),
    "deleted replica has left the checkpoint": (
        HELD,
        turn_on_message("c1", fetch(), WriteCheckpoint(0, ()), DeleteReplica(0, TP)),
    ),
    "log that a later one replaced": (turn_with(DeleteReplica(0, TP)),),
    "new replica in a good directory": (BAD_DIR, creating_command("new")),
    "replica created while all directories are good": (creating_command(),),
    "storage error in a failed directory": (HELD, BAD_DIR, turn_on_message("c1", fetch(), fetched(STORAGE))),
    "gauge of the failed directories": (BAD_DIR,),
    "process that ends with its last directory": (BAD_DIR, turn_with(note("dir-failed", dir=1), Halt("no directory is left"))),
    "fetch after the flush": (RECOVERED, FOLLOWS, turn_with(Flush(0, 1)), (Flushed(0, 1), [send("b2", fetch(B1, offset=5))])),
    "fetch of what is left of a flushed log": (
        *(RECOVERED, FOLLOWS, turn_with(Flush(0, 1)), (Flushed(0, 1), [])),
        turn_with(note("truncate", tp=TP, offset=4), send("b2", fetch(B1, offset=4))),
    ),
    "process that closes ends at a failed directory": (SHUTS_DOWN, turn_with(note("dir-failed", dir=0), Halt("one failed"))),
}

JUDGED = (*OBEDIENCE, *FETCHES, *DISKS)
INIT_DELETES = replace(CONFIG, variant=VARIANTS["v3"])
SPEC = TopicSpec(name="t", partitions=1, replication_factor=3, min_insync_replicas=1, flush="before_ack")
FLUSHED_FIRST = replace(CONFIG, topics=(SPEC,))


@pytest.mark.parametrize("name", BAD)
def test_rule_of_brokers_is_broken(name: str) -> None:
    config = {"unlisted-replica-kept": INIT_DELETES, "fetched-before-flush": FLUSHED_FIRST}.get(name, CONFIG)
    assert broken(*BAD[name], rules=JUDGED, config=config)[-1:] == [name]


@pytest.mark.parametrize("name", GOOD)
def test_what_a_broker_may_do_breaks_nothing(name: str) -> None:
    config = INIT_DELETES if name.startswith("unlisted") else FLUSHED_FIRST if name.startswith("fetch ") else CONFIG
    assert broken(*GOOD[name], rules=JUDGED, config=config) == []


def test_acks_1_waits_for_the_disk_where_the_topic_says_so() -> None:
    assert broken(LEADS, turn_on_message("c1", produce(1)), rules=FETCHES, config=FLUSHED_FIRST) == []


def test_fetch_that_names_its_last_epoch_may_be_beyond_the_end() -> None:
    fetch_beyond_end = replace(fetch(B2, offset=6), last_epoch=LeaderEpoch(7))

    reply = FetchReply(5, TP, NONE, LeaderEpoch(7), Offset(3))

    assert broken(RECOVERED, LEADS, turn_on_message("b2", fetch_beyond_end, send("b2", reply)), rules=FETCHES) == []
