"""A broker of the reference as a process. It ends when its stdin closes, so none outlives the harness, however that ends."""

import subprocess
import sys
from pathlib import Path

import reference
from highwater.backends.real.node.clocks import library, record_faked_pid, remove_faketime_memory
from highwater.backends.real.node.directories import unprivileged_prefix
from highwater.backends.real.node.folder import NodeFolder, Start
from highwater.backends.real.processes.broker import BrokerProcess, Launch
from highwater.backends.real.site import Probe


class NodeProcess(NodeFolder, BrokerProcess):
    """One broker of the reference as a process of this machine, through all its restarts."""

    def __init__(self, folder: Path, start: Start) -> None:
        NodeFolder.__init__(self, folder, start)
        BrokerProcess.__init__(self, self._folder)

    async def start(self) -> Probe:
        """Start the broker's process anew."""
        probe = await super().start()
        assert self._process is not None
        if self._clock is not None:
            record_faked_pid(self._folder, self._process.pid)
        await self.tell_faults(self.is_running)
        return probe

    def _launch(self) -> Launch:
        settings = self.begin_life(end_with_stdin=True)
        # The node imports the packages from where the harness found them, installed or not.
        environment = {"PYTHONPATH": str(Path(next(iter(reference.__path__))).parent)}
        if self._clock is not None:
            found = library()
            assert found is not None
            environment |= self._clock.environment(found)
        obedient = (unprivileged_prefix() if self._needs.permissions else None) or []
        return Launch(
            command=(*obedient, sys.executable, "-m", "server.runtime", "--config", str(settings)),
            environment=environment,
        )

    def _over(self, process: "subprocess.Popen[bytes]") -> None:
        if self._clock is not None:
            remove_faketime_memory(process.pid)

    def close(self) -> None:
        """Kill the broker, unmount everything and make all its files removable."""
        self.end()
        self.release()
