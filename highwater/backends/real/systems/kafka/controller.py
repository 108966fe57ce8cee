"""One controller of Kafka apart from the brokers (KRaft, process.roles=controller), through all its restarts."""

from pathlib import Path

from msgspec import Struct

from highwater.backends.real.node.plain import PlainNode, Prepared
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.systems.kafka import jars, jvm, settings
from highwater.backends.real.systems.kafka.releases import Release
from highwater.backends.real.systems.port import ControllerWiring
from highwater.plans.plan import Plan


class Controller(Struct, frozen=True, kw_only=True):
    """One controller of a plan: its addresses, its release, and the jars of that."""

    wiring: ControllerWiring
    plan: Plan
    release: Release
    build: jars.Build


class ControllerNode(PlainNode):
    """One controller. Its directory has the metadata log alone."""

    def __init__(self, folder: Path, runner: Runner, controller: Controller) -> None:
        self._controller = controller
        super().__init__(folder, controller.wiring.controller, runner, self._launch_of_jvm)
        self._class_path = [runner.reads(controller.build.folder) / name for name in controller.build.files]

    def last_words(self) -> str:
        """The line that says why a process ended, or the last one that it printed."""
        return jvm.last_words(self._output.read_text(errors="replace") if self._output.exists() else "")

    def _launch_of_jvm(self, prepared: Prepared) -> Launch:
        """Write the controller's settings, and give the command that starts its JVM."""
        controller, wiring = self._controller, self._controller.wiring
        properties = settings.of_sessions(controller.plan) | settings.of_compaction(controller.plan)
        properties |= settings.of_controller(controller.plan, wiring, str(prepared.log_dirs[0]))
        hosts = settings.hosts(self.address, wiring.quorum[self.address], wiring.ways)
        text = settings.overridden(properties, controller.plan)
        jvm.write_files(prepared.folder, controller.release, hosts=hosts, settings_text=text)
        changing = settings.voters_change(controller.plan)
        formatted = ("--initial-controllers", settings.first_voters(wiring.quorum)) if changing else ()
        return Launch(command=jvm.command(controller.release, prepared.folder, self._class_path, formatted=formatted))
