"""Settings of librdkafka that a user gives the clients of a run, such as TLS and SASL."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from highwater.backends.real.site import HostPort
from highwater.errors import HarnessError
from reference.types import Address

Settings = Mapping[str, str | int | bool]
NONE: Settings = MappingProxyType({})
# What a run says of its calls depends on these.
_OWN = (
    *("acks", "allow.auto.create.topics", "auto.offset.reset", "bootstrap.servers", "broker.address.family", "check.crcs"),
    *("client.id", "debug", "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence", "enable.partition.eof"),
    *("fetch.error.backoff.ms", "fetch.wait.max.ms", "group.id", "group.instance.id", "group.protocol"),
    *("heartbeat.interval.ms", "isolation.level", "linger.ms", "log_level", "message.send.max.retries", "message.timeout.ms"),
    *("metadata.broker.list", "metadata.max.age.ms", "partition.assignment.strategy", "queue.buffering.max.ms"),
    *("reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.required.acks", "request.timeout.ms", "retries"),
    *("retry.backoff.ms", "session.timeout.ms", "socket.timeout.ms", "topic.metadata.refresh.fast.interval.ms"),
    *("transaction.timeout.ms", "transactional.id"),
)


def refused(settings: Settings) -> str | None:
    """Why clients cannot have these settings, in a sentence; None if they can. Nothing is sent."""
    own = [name for name in settings if name in _OWN]
    if own:
        return f"the harness sets {own[0]} itself"
    try:
        AdminClient({**settings, "log_level": 0})
    except KafkaException as error:
        return str(error.args[0].str())
    return None


def advertised(brokers: Mapping[Address, HostPort], settings: Settings, *, timeout_s: float) -> dict[int, HostPort]:
    """The addresses that the brokers tell clients with these settings, by id. HarnessError if none answers, with its reason."""
    errors = ["no answer"]
    addresses = ",".join(f"{host}:{port}" for host, port in brokers.values())

    def tell(error: KafkaError) -> None:
        errors.append(error.str())

    own: dict[str, Any] = {"bootstrap.servers": addresses, "log_level": 0, "error_cb": tell}
    client = AdminClient({**settings, **own})
    try:
        listed_brokers = client.list_topics(timeout=timeout_s).brokers
    except KafkaException:
        client.poll(0)  # calls `tell`
        raise HarnessError(f"clients get no answer at {addresses}: {errors[-1]}") from None
    return {broker.id: (str(broker.host), int(broker.port)) for broker in listed_brokers.values()}
