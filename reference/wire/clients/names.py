"""Names of topics as Kafka allows them (Topic.java)."""

import re

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """May a topic be called so?"""
    return name not in (".", "..") and _TOPIC.fullmatch(name) is not None
