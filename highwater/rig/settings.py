"""The settings of topics in ZooKeeper, as Kafka writes them: a znode for each topic with the settings that it has of its own."""

import msgspec
from msgspec import Struct

TOPICS = "/config/topics"
UNCLEAN = "unclean.leader.election.enable"


class _Config(Struct):
    version: int = 1
    config: dict[str, str] = {}


def settings_path(topic: str) -> str:
    """The path of the znode with a topic's settings."""
    return f"{TOPICS}/{topic}"


def settings_payload(settings: dict[str, str]) -> bytes:
    """The JSON of a topic's settings."""
    return msgspec.json.encode(_Config(config=settings))


def configured_topic(path: str) -> str | None:
    """The topic whose settings this znode holds; None for other paths."""
    above, _, topic = path.rpartition("/")
    return topic if above == TOPICS else None


def read_settings(data: bytes) -> dict[str, str]:
    """The settings in such a znode; none if it does not parse."""
    try:
        return msgspec.json.decode(data, type=_Config).config
    except msgspec.DecodeError:
        return {}
