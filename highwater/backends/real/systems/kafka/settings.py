"""The settings and files of one Kafka broker: server.properties, the hosts file of its JVM, the configuration of its log.

Kafka advertises one address for each listener to everybody. So that each pair of brokers has a proxy of its own, brokers
advertise names ("b2.peers") to each other, and the hosts file of each JVM maps these names to that broker's own proxies. The
file replaces all look-ups of the JVM, so localhost and the names of the machine and of the broker's container are in it too.
"""

import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping

from highwater.backends.real.clients.members import HEARTBEAT_MS, MEMBER_MS
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.kafka.releases import Release, number_of
from highwater.backends.real.systems.port import ControllerWiring, Wiring
from highwater.plans.plan import Plan, system_of
from history.promise import SESSIONS_KEEP
from nemesis.faults import ZooKeeperDown
from reference.types import Address, broker_address
from workloads.registry import COMPACTED, OF_SESSIONS, SHARE_GROUPS

Properties = dict[str, str]
INTER_BROKER = "PEERS"
QUORUM = "QUORUM"
CONTROLLER_IDS = 100  # plus the number of a controller apart from the brokers: its node id
CLUSTER_ID = "aGlnaHdhdGVyLWtyYWZ0MQ"  # sixteen bytes in base64, the same for all nodes of a run
_DELIVERIES_MAX = 10  # of a record to a share group, which Kafka allows at most
_LOG_PATTERN = "[%d{ISO8601}] %p %m (%c)%n"


def properties(plan: Plan, wiring: Wiring, log_dirs: tuple[str, ...]) -> Properties:
    """The settings that are the same with ZooKeeper and KRaft; the plan's own come last and override them."""
    me = broker_address(wiring.broker)
    listeners = {INTER_BROKER: wiring.peers, **{place.upper(): bind for place, bind in wiring.doors.items()}}
    advertised = {
        INTER_BROKER: (name_of(me), wiring.peers[1]),
        **{place.upper(): wiring.advertised[place][me] for place in wiring.doors},
    }
    return {
        "listeners": listing(listeners),
        "advertised.listeners": listing(advertised),
        "listener.security.protocol.map": _unencrypted(listeners),
        "inter.broker.listener.name": INTER_BROKER,
        "log.dirs": ",".join(log_dirs),
        **_of_every_node(plan),
    }


def of_controller(plan: Plan, wiring: ControllerWiring, log_dir: str) -> Properties:
    """The settings of a controller apart from the brokers. Those of topics are read by controllers, too (KIP-966, KIP-919)."""
    listener = {QUORUM: wiring.quorum[wiring.controller]}
    return {
        "node.id": str(node_id_of(wiring.controller)),
        "process.roles": "controller",
        "listeners": listing(listener),
        "listener.security.protocol.map": _unencrypted(listener),
        "log.dirs": log_dir,
        **_of_every_node(plan),
        **_of_voters(plan, wiring.quorum),
        **_of_heartbeats(plan),
    }


def _unencrypted(listeners: Iterable[str]) -> str:
    return ",".join(f"{name}:PLAINTEXT" for name in listeners)


def _of_every_node(plan: Plan) -> Properties:
    cluster = plan.cluster
    return {
        "replica.lag.time.max.ms": str(cluster.replica_lag_time_max_ms),
        "replica.fetch.wait.max.ms": str(cluster.fetch_wait_max_ms),
        "replica.high.watermark.checkpoint.interval.ms": str(cluster.checkpoint_interval_ms),
        "unclean.leader.election.enable": "false",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(min(3, cluster.brokers)),
        "transaction.state.log.min.isr": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.enable": "false",
        "num.recovery.threads.per.data.dir": "1",
    }


def of_sessions(plan: Plan) -> Properties:
    """The settings of plans with sessions: what the coordinators acknowledge survives a broker, as by default."""
    if plan.workload.name not in OF_SESSIONS:
        return {}
    replicas, in_sync = (str(min(count, plan.cluster.brokers)) for count in (3, SESSIONS_KEEP))
    sessions_of_members: Properties = {
        "group.consumer.min.session.timeout.ms": str(MEMBER_MS),
        "group.consumer.session.timeout.ms": str(MEMBER_MS),
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    }
    of_shares: Properties = {
        "group.share.min.session.timeout.ms": str(MEMBER_MS),
        "group.share.session.timeout.ms": str(MEMBER_MS),
        "group.share.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.min.record.lock.duration.ms": str(MEMBER_MS),
        "group.share.record.lock.duration.ms": str(MEMBER_MS),
        "group.share.delivery.count.limit": str(_DELIVERIES_MAX),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
    return {
        # As long as without a share group: 30 s for a record that nobody acknowledges, 45 s for a member that is gone.
        **(of_shares if plan.workload.name == SHARE_GROUPS else {}),
        # Under KIP-848 the brokers say how long a member's session lasts: 45 s, if nobody asks for less.
        **(sessions_of_members if plan.workload.membership == "consumer" else {}),
        "offsets.topic.replication.factor": replicas,
        # That of the offsets topic, which has none of its own. The topics of the plan name theirs.
        "min.insync.replicas": in_sync,
        "transaction.state.log.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
    }


def of_compaction(plan: Plan) -> Properties:
    """The settings of plans whose topics are compacted: small segments, which the cleaner looks at often."""
    if plan.workload.name != COMPACTED:
        return {}
    return {
        "log.cleanup.policy": "compact",
        "log.cleaner.enable": "true",
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.roll.ms": "1000",
    }


def overridden(settings: Properties, plan: Plan) -> str:
    """The text of server.properties: these settings, overridden by those of the plan's system."""
    own = {key: _word(value) for key, value in system_of(plan).settings.items()}
    return "".join(f"{key}={value}\n" for key, value in {**settings, **own}.items())


def speaking(protocol: str, release: Release) -> Properties:
    """The settings that hold a broker with ZooKeeper to the protocol, and the format of records, that an older release knows."""
    settings = {"inter.broker.protocol.version": protocol}
    return settings | ({"log.message.format.version": protocol} if number_of(release) < (3,) else {})


def with_zookeeper(plan: Plan, wiring: Wiring) -> Properties:
    """The settings that only brokers with ZooKeeper have."""
    return {
        "broker.id": str(wiring.broker),
        "zookeeper.connect": ",".join(f"{host}:{port}" for host, port in wiring.zookeeper),
        "zookeeper.session.timeout.ms": str(plan.cluster.session_timeout_ms),
        "zookeeper.connection.timeout.ms": "30000",
        "controlled.shutdown.enable": "true",
    }


def with_quorum(plan: Plan, wiring: Wiring) -> Properties:
    """The settings that only brokers with KRaft have: each is one of the controllers, too, unless these are apart."""
    me = broker_address(wiring.broker)
    listeners = {INTER_BROKER: wiring.peers, **{place.upper(): bind for place, bind in wiring.doors.items()}}
    own_quorum = {QUORUM: wiring.quorum[me]} if me in wiring.quorum else {}
    return {
        "node.id": str(wiring.broker),
        "process.roles": "broker,controller" if own_quorum else "broker",
        "listeners": listing({**listeners, **own_quorum}),
        "listener.security.protocol.map": _unencrypted([*listeners, QUORUM]),
        "group.coordinator.threads": "1",
        **_of_voters(plan, wiring.quorum),
        **_of_heartbeats(plan),
    }


def _of_voters(plan: Plan, quorum: Mapping[Address, HostPort]) -> Properties:
    """Where the controllers are. Where none leaves, they are the voters for good; else the metadata log says who votes."""
    named: Properties = {"controller.listener.names": QUORUM}
    if voters_change(plan):
        servers = (f"{name_of(node)}:{port}" for node, (_, port) in quorum.items())
        return named | {"controller.quorum.bootstrap.servers": ",".join(servers)}
    voters = (f"{node_id_of(node)}@{name_of(node)}:{port}" for node, (_, port) in quorum.items())
    return named | {"controller.quorum.voters": ",".join(voters)}


def voters_change(plan: Plan) -> bool:
    """Whether a controller leaves the quorum in this plan."""
    return any(isinstance(window.fault, ZooKeeperDown) and window.fault.how == "leave" for window in plan.schedule)


def first_voters(quorum: Mapping[Address, HostPort]) -> str:
    """The first voters of a quorum that changes, as the directories of its controllers are formatted with them (KIP-853)."""
    words = (
        f"{node_id_of(node)}@{name_of(node)}:{port}:{urlsafe_b64encode(directory_of(node)).decode().rstrip('=')}"
        for node, (_, port) in quorum.items()
    )
    return ",".join(words)


def directory_of(controller: Address) -> bytes:
    """The id of a controller's directory: sixteen bytes."""
    return f"highwater-ctrl-{controller[1:]}".encode()


def controllers_at(addresses: str) -> dict[Address, HostPort]:
    """The controllers apart from the brokers that listen at "host:port,…", by their names; none for no address."""
    places = (where.rpartition(":") for where in addresses.split(",") if where)
    return {Address(f"z{number}"): (host, int(port)) for number, (host, _, port) in enumerate(places, 1)}


def _of_heartbeats(plan: Plan) -> Properties:
    """How long a broker may be silent, which its controller reads."""
    timeout_ms = plan.cluster.session_timeout_ms
    return {
        "broker.session.timeout.ms": str(timeout_ms),
        "broker.heartbeat.interval.ms": str(max(100, timeout_ms // 4)),
    }


def node_id_of(node: Address) -> int:
    """The id of a broker ("b1") or of a controller apart from the brokers ("z1") in the cluster."""
    return int(node[1:]) + (0 if node.startswith("b") else CONTROLLER_IDS)


def name_of(node: Address) -> str:
    """The host name by which brokers and controllers reach this one."""
    return f"{node}.peers"


def hosts(me: Address, listener: HostPort, ways: Mapping[Address, HostPort]) -> str:
    """The hosts file of a node's JVM: itself at its listener, each other one at the proxy to it."""
    addresses = {name_of(me): listener[0], **{name_of(peer): where[0] for peer, where in ways.items()}}
    lines = [f"{address} {name}\n" for name, address in addresses.items()]
    return "".join(lines) + f"127.0.0.1 localhost {me} {socket.gethostname()}\n"


def listing(listeners: Mapping[str, HostPort]) -> str:
    """Listeners as Kafka writes them: NAME://host:port,…"""
    return ",".join(f"{name}://{host}:{port}" for name, (host, port) in listeners.items())


def log4j(major: int) -> str:
    """The configuration of a broker's log, for this major version of log4j: everything from INFO on goes to stdout."""
    if major == 1:
        return (
            "log4j.rootLogger=INFO, out\n"
            "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
            f"log4j.appender.out.layout.ConversionPattern={_LOG_PATTERN}\n"
            "log4j.logger.org.apache.zookeeper=WARN\n"
        )
    return (
        "status = error\nrootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        "appender.out.type = Console\nappender.out.name = out\nappender.out.layout.type = PatternLayout\n"
        f"appender.out.layout.pattern = {_LOG_PATTERN.replace('%d{ISO8601}', '%d{yyyy-MM-dd HH:mm:ss,SSS}')}\n"
    )


def _word(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
