"""Checks of topic names (Kafka's Topic.java) and of partition indexes in requests of clients."""

import re

from reference.types import TopicPartition, topic_partition

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """True if Kafka allows a topic of this name."""
    return name not in (".", "..") and _TOPIC.fullmatch(name) is not None


def asked_partition(topic: str, index: int) -> TopicPartition:
    """The name of a partition, such as "t-0"; "" for a negative index, because "t--1" could name a partition of topic "t-"."""
    return topic_partition(topic, index) if index >= 0 else TopicPartition("")
