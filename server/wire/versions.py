"""The APIs between brokers: their keys and versions.

Fetch and OffsetForLeaderEpoch use Kafka's own APIs. The others have keys from FIRST_OWN_KEY on and one version for each layout:
the first versions follow a document to the letter, the last one has every field of the message. Nodes send the last version and
accept all. `server.wire.clients.apis` has the APIs for stock clients.
"""

from enum import IntEnum

FIRST_OWN_KEY = 1000
API_VERSIONS = 18
NEVER_FLEXIBLE = 1 << 15


class Api(IntEnum):
    """The APIs between brokers, by their keys."""

    FETCH = 1  # 15: topic by id; 12: topic by name
    OFFSET_FOR_LEADER_EPOCH = 23
    LEADER_AND_ISR = 1000  # 0: V3; 1: KIP-112; 2: all fields
    STOP_REPLICA = 1001  # 0: V3; 1: all fields
    UPDATE_METADATA = 1002  # 0: KIP-112; 1: all fields
    METADATA_HEARTBEAT = 1003  # 0: KIP-343, with all fields
    ISR_CHANGE = 1004  # 0: KIP-343; 1: all fields
    LOG_INFO = 1005  # 0: ours, in no document


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

# The first version of each API whose header and body have compact lengths and tagged fields (KIP-482). The layouts of the
# documents have neither.
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
    55: 0,  # DescribeQuorum
    60: 0,  # DescribeCluster
    Api.LEADER_AND_ISR: 2,
    Api.STOP_REPLICA: 1,
    Api.UPDATE_METADATA: 1,
    Api.METADATA_HEARTBEAT: NEVER_FLEXIBLE,
    Api.ISR_CHANGE: 1,
    Api.LOG_INFO: 0,
}


def is_flexible(api_key: int, api_version: int) -> bool:
    """True if header and body of this version have compact lengths and tagged fields; False for an unknown API."""
    return api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE)
