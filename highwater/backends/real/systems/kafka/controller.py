"""One controller of Kafka apart from the brokers (KRaft, process.roles=controller), through all its restarts."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from highwater.backends.real.node.plain import Prepared
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.systems.kafka import jars, jvm, settings
from highwater.backends.real.systems.kafka.releases import Release
from highwater.backends.real.systems.port import ControllerWiring
from highwater.plans.plan import Plan
from highwater.rig.versions import Versions


class Controller(Struct, frozen=True, kw_only=True):
    """One controller of a plan: its addresses, the releases of the run, and the jars of each by its version."""

    wiring: ControllerWiring
    plan: Plan
    versions: Versions[Release]
    builds: Mapping[str, jars.Build]


class ControllerNode(jvm.JvmNode):
    """One controller. Its directory has the metadata log alone. It starts as the oldest release that a broker starts as."""

    def __init__(self, folder: Path, runner: Runner, controller: Controller) -> None:
        self._controller = controller
        versions = controller.versions
        super().__init__(
            folder,
            controller.wiring.controller,
            runner,
            self._launch_of_jvm,
            versions=versions,
            first=min(versions.starts, key=versions.age),
            builds=controller.builds,
        )

    def upgrade(self) -> None:
        """Run the release under test from the next start on."""
        self.become(self._versions.tested)

    def _launch_of_jvm(self, prepared: Prepared) -> Launch:
        """Write the controller's settings, and give the command that starts its JVM."""
        controller, wiring = self._controller, self._controller.wiring
        properties = settings.of_sessions(controller.plan) | settings.of_compaction(controller.plan)
        properties |= settings.of_controller(controller.plan, wiring, str(prepared.log_dirs[0]))
        hosts = settings.hosts(self.address, wiring.quorum[self.address], wiring.ways)
        text = settings.overridden(properties, controller.plan)
        jvm.write_files(prepared.folder, self._release, hosts=hosts, settings_text=text)
        changing = settings.voters_change(controller.plan)
        voters = ("--initial-controllers", settings.first_voters(wiring.quorum)) if changing else ()
        return Launch(command=self._command(prepared, *voters))
