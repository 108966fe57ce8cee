"""One controller of Kafka apart from the brokers (KRaft, process.roles=controller), through all its restarts."""

from pathlib import Path

from highwater.backends.real.node.plain import Prepared
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.systems.kafka import jvm, settings
from highwater.backends.real.systems.port import ControllerWiring


class ControllerNode(jvm.JvmNode):
    """One controller. Its directory has the metadata log alone. It starts as the oldest release that a broker starts as."""

    def __init__(self, folder: Path, runner: Runner, wiring: ControllerWiring, shared: jvm.Shared) -> None:
        self._wiring = wiring
        first = min(shared.versions.starts, key=shared.versions.age)
        super().__init__(folder, wiring.controller, runner, self._launch_of_jvm, shared, first=first)

    def upgrade(self) -> None:
        """Run the release under test from the next start on."""
        self.become(self._versions.tested)

    def _launch_of_jvm(self, prepared: Prepared) -> Launch:
        """Write the controller's settings, and give the command that starts its JVM."""
        plan, wiring = self._plan, self._wiring
        properties = settings.of_sessions(plan) | settings.of_compaction(plan)
        properties |= settings.of_controller(plan, wiring, str(prepared.log_dirs[0]))
        hosts = settings.hosts(self.address, wiring.quorum[self.address], wiring.ways)
        text = settings.overridden(properties, plan)
        jvm.write_files(prepared.folder, self._release, hosts=hosts, settings_text=text)
        changing = settings.voters_change(plan)
        voters = ("--initial-controllers", settings.first_voters(wiring.quorum)) if changing else ()
        return Launch(command=self._command(prepared, *voters))
