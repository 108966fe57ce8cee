"""The APIs between brokers: their keys and versions.

Fetch and OffsetForLeaderEpoch use Kafka's own APIs. The others have keys from FIRST_OWN_KEY on and one version for each layout:
the first versions follow a document to the letter, the last one has every field of the message. Nodes send the version of their
inter-broker protocol and accept all that their release knows (docs/decisions/0060-inter-broker-protocol.md).
`server.wire.clients.apis` has the APIs for stock clients.
"""

from enum import IntEnum

from reference.config import NEWEST, RELEASES, Protocol, Release

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

_OF_EVERY_VERSION: dict[Api, int] = {Api.OFFSET_FOR_LEADER_EPOCH: 4, Api.LOG_INFO: 0}
_OF_TODAY = {**_OF_EVERY_VERSION, Api.LEADER_AND_ISR: 2, Api.STOP_REPLICA: 1, Api.UPDATE_METADATA: 1}
_KIP_343 = {Api.METADATA_HEARTBEAT: 0, Api.ISR_CHANGE: 1}
# The API version that each version of the inter-broker protocol sends. It has no such request without an entry.
SENT: dict[Protocol, dict[Api, int]] = {
    "v3": {**_OF_EVERY_VERSION, Api.LEADER_AND_ISR: 0, Api.STOP_REPLICA: 0, Api.UPDATE_METADATA: 0},
    "kip112": {**_OF_EVERY_VERSION, Api.LEADER_AND_ISR: 1, Api.STOP_REPLICA: 1, Api.UPDATE_METADATA: 0},
    "kip343_v0": {
        **_OF_EVERY_VERSION,
        Api.LEADER_AND_ISR: 1,
        Api.STOP_REPLICA: 1,
        Api.UPDATE_METADATA: 0,
        Api.METADATA_HEARTBEAT: 0,
        Api.ISR_CHANGE: 0,
    },
    "legacy": _OF_TODAY,
    "kip343": {**_OF_TODAY, **_KIP_343},
}


def sent_by(protocol: Protocol, api: Api) -> int:
    """The version in which a broker that speaks this inter-broker protocol sends a request; not for Fetch, which has two.

    The newest one where the protocol has no such request, and a mistake sends it nevertheless (B-68).
    """
    return SENT[protocol].get(api, VERSIONS[api][-1])


def is_known(release: Release, api_key: int, api_version: int) -> bool:
    """Whether the code of this release reads requests between brokers in this API version."""
    api = next((api for api in VERSIONS if api == api_key), None)
    if api is None or api_version not in VERSIONS[api]:
        return False
    if release == NEWEST or api is Api.FETCH:
        return True
    older = RELEASES[: RELEASES.index(release) + 1]
    return any(api_version <= SENT[each][api] for each in older if api in SENT[each])


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
    57: 0,  # UpdateFeatures
    60: 0,  # DescribeCluster
    64: 0,  # UnregisterBroker
    66: 0,  # ListTransactions
    80: 0,  # AddRaftVoter
    81: 0,  # RemoveRaftVoter
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
