"""An administrator of a run on real nodes: the machine of `reference.client.admin`, over a ZooKeeper session of its own."""

from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Heard, heard
from reference.client.commands import Command
from server.runtime.admin_session import AdminSession


class Administrator:
    """One command at a time. Belongs to one asyncio loop."""

    def __init__(self, zookeeper: str, *, session_timeout_ms: int) -> None:
        self._session = AdminSession(zookeeper, session_timeout_ms)

    async def call(self, command: Command) -> Heard:
        """Ask, and wait until it is done, refused or given up."""
        return heard(await self._session.run(command, ADMIN_TIMEOUT_MS))

    async def close(self) -> None:
        """End the session."""
        self._session.close()
