"""A broker of the reference, whose processes a runner runs."""

from pathlib import Path

from msgspec.structs import replace

from highwater.backends.real.node.folder import NodeFolder, Start
from highwater.backends.real.node.runner import BrokerProcess, Launch, Runner
from highwater.backends.real.site import Probe
from nemesis.faults import Roll


class ReferenceNode(NodeFolder, BrokerProcess):
    """One broker of the reference, through all its restarts, in a folder of its own below `folder`."""

    def __init__(self, folder: Path, start: Start, runner: Runner) -> None:
        NodeFolder.__init__(self, folder, start)
        BrokerProcess.__init__(self, runner, self._folder)

    async def start(self) -> Probe:
        """Start the broker's process anew."""
        probe = await super().start()
        await self.tell_faults(self.is_running)
        return self._probe_of_roll(probe, self.says_version) if self.has_rolled else probe

    def change(self, roll: Roll) -> None:
        """Run another release, or with another inter-broker protocol, from the next start on."""
        self.roll(roll)

    def _launch(self) -> Launch:
        """The command that starts the next life of the broker, under libfaketime if the plan has wrong clocks."""
        python = self.runner.python
        settings = self.begin_life(end_with_stdin=python.watches_stdin)
        launch = replace(
            python,
            command=(*python.command, "-m", "server.runtime", "--config", str(settings)),
            permissions="permissions" in self._needs,
        )
        if self._clock is None:
            return launch
        faketime = self.runner.faketime
        assert faketime is not None, "a plan with wrong clocks is refused where libfaketime is missing"
        return replace(launch, environment={**launch.environment, **self._clock.environment(faketime)}, fake_clock=True)
