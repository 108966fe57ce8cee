"""Which APIs are spoken between nodes, under which keys and in which versions.

What Kafka has goes as Kafka's; a key from FIRST_OWN_KEY on is a frame of our own, with a version for each layout that a document
gives: the first ones are a document's letter, the last one has every field of the message. Nodes send the last version, and take
them all. What stock clients are served, and in which versions, is decided in `server.wire.clients`.
"""

from enum import IntEnum

FIRST_OWN_KEY = 1000
API_VERSIONS = 18
NEVER_FLEXIBLE = 1 << 15


class Api(IntEnum):
    """APIs between nodes, by their keys."""

    FETCH = 1  # 15 by the topic's id, 12 by its name
    OFFSET_FOR_LEADER_EPOCH = 23
    LEADER_AND_ISR = 1000  # 0: V3; 1: KIP-112; 2: all fields
    STOP_REPLICA = 1001  # 0: V3; 1: all fields
    UPDATE_METADATA = 1002  # 0: KIP-112; 1: all fields
    METADATA_HEARTBEAT = 1003  # 0: KIP-343, which has all fields
    ISR_CHANGE = 1004  # 0: KIP-343; 1: all fields
    LOG_INFO = 1005  # 0: in no document


VERSIONS: dict[Api, tuple[int, ...]] = {
    Api.FETCH: (12, 15),
    Api.OFFSET_FOR_LEADER_EPOCH: (4,),
    Api.LEADER_AND_ISR: (0, 1, 2),
    Api.STOP_REPLICA: (0, 1),
    Api.UPDATE_METADATA: (0, 1),
    Api.METADATA_HEARTBEAT: (0,),
    Api.ISR_CHANGE: (0, 1),
    Api.LOG_INFO: (0,),
}

# The first version of each API whose header and body have compact lengths and tagged fields (KIP-482). Documents know none.
FLEXIBLE_FROM: dict[int, int] = {
    0: 9,  # Produce
    1: 12,  # Fetch
    2: 6,  # ListOffsets
    3: 9,  # Metadata
    4: 4,  # LeaderAndIsr
    5: 2,  # StopReplica
    6: 6,  # UpdateMetadata
    7: 3,  # ControlledShutdown
    10: 3,  # FindCoordinator
    18: 3,  # ApiVersions
    19: 5,  # CreateTopics
    20: 4,  # DeleteTopics
    22: 2,  # InitProducerId
    23: 4,  # OffsetForLeaderEpoch
    32: 4,  # DescribeConfigs
    35: 2,  # DescribeLogDirs
    37: 2,  # CreatePartitions
    43: 2,  # ElectLeaders
    45: 0,  # AlterPartitionReassignments
    46: 0,  # ListPartitionReassignments
    60: 0,  # DescribeCluster
    Api.LEADER_AND_ISR: 2,
    Api.STOP_REPLICA: 1,
    Api.UPDATE_METADATA: 1,
    Api.METADATA_HEARTBEAT: NEVER_FLEXIBLE,
    Api.ISR_CHANGE: 1,
    Api.LOG_INFO: 0,
}


def is_flexible(api_key: int, api_version: int) -> bool:
    """Do header and body of this version have compact lengths and tagged fields? Those of an unknown API have not."""
    return api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE)
