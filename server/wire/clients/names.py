"""Names of topics as Kafka allows them (Topic.java), and of the partitions that clients ask for."""

import re

from reference.types import TopicPartition, topic_partition

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """May a topic be called so?"""
    return name not in (".", "..") and _TOPIC.fullmatch(name) is not None


def asked_partition(topic: str, index: int) -> TopicPartition:
    """The partition that is meant; a name that no partition has where there can be none. "t" and -1 are not the 1 of "t-"."""
    return topic_partition(topic, index) if index >= 0 else TopicPartition("")
