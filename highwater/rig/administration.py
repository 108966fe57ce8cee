"""Requests of administrators that the reference does not know, so they are no commands of `reference.client.commands`."""

from msgspec import Struct

from reference.client.commands import Command


class AlterConfig(Struct, frozen=True, kw_only=True):
    """Set these settings of a topic, in the system's own words; its other settings stay."""

    id: int  # of the Answered
    topic: str
    settings: dict[str, str]


AdminCommand = Command | AlterConfig
