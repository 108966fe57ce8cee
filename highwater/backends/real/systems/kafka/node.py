"""One Kafka broker of a run through all its restarts, which may be of several releases: its files, its JVM, its log."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from highwater.backends.real.means import means_of
from highwater.backends.real.node.plain import Prepared, Shape
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.site import Probe
from highwater.backends.real.systems.kafka import jvm, power, segments, settings
from highwater.backends.real.systems.kafka.log_lines import notes_of
from highwater.backends.real.systems.kafka.releases import protocol_of
from highwater.backends.real.systems.port import Wiring
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from nemesis import faults
from nemesis.faults import Roll
from reference.events import DirImage
from reference.types import TopicPartition, broker_address
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound

_META = "meta.properties"  # in each log directory
SESSION_SLACK_S = 1.0  # after its timeout, until ZooKeeper has ended the session of a broker that was killed


class KafkaNode(jvm.JvmNode):
    """One Kafka broker through all its restarts. Its log says when it truncated and led."""

    def __init__(self, folder: Path, runner: Runner, wiring: Wiring, shared: jvm.Shared) -> None:
        plan, self._wiring = shared.plan, wiring
        self._final = not shared.versions.mixed  # whether it speaks its own release's protocol
        self._needs = means_of(plan)
        self._ended = (0, 0.0)  # the life that the harness ended last, and when
        super().__init__(
            folder,
            broker_address(wiring.broker),
            runner,
            self._launch_of_jvm,
            shared,
            first=shared.versions.first(wiring.broker),
            shape=Shape(dirs=plan.cluster.log_dirs, needs=self._needs),
        )
        self._flushes = power.FlushRecord(self._folder, self.log_dirs) if _loses_power(plan) else None

    async def start(self) -> Probe:
        """Start the broker anew, once its last session is over: an old release gives up if its registration still stands."""
        process_number, ended_s = self._ended
        if process_number and self._release.mode == "zookeeper":
            rest_s = self._plan.cluster.session_timeout_ms / 1000 + SESSION_SLACK_S
            await asyncio.sleep(max(0.0, ended_s + rest_s - time.monotonic()))
        return await super().start()

    def change(self, roll: Roll) -> None:
        """Run another release from the next start on."""
        self.become(self._versions.after(roll, self._wiring.broker))
        self._final = self._final or roll.finalize

    async def kill(self) -> Probe:
        """Send the broker SIGKILL and wait for the end."""
        if self._ended[0] < self.life:
            self._ended = (self.life, time.monotonic())
        return await super().kill()

    def notes(self) -> list[NoteLine]:
        """What the broker's log says of its replicas. Not complete: no checker relies on it."""
        return notes_of(self.address, self._output, self._began)

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut the broker's segments back to what was flushed, or a drawn part of the rest; returns what was lost."""
        assert self._flushes is not None, "the plan has a power loss"
        try:
            # Undoing an unflushed truncation writes the truncated bytes again; a full directory has no room for them.
            with self._dirs.sound(dirs):
                return await asyncio.to_thread(self._flushes.lose_unflushed, dirs, how)
        except (OSError, ValueError) as error:
            raise HarnessError(f"removing the unflushed data of {self.address}: {error}") from error

    def disks(self) -> tuple[DirImage, ...]:
        """The logs in the broker's directories, with decoded records. It must be down."""
        return segments.look(self.log_dirs)

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The partitions of the workload with a log in this directory, sorted; empty if it cannot be read."""
        try:
            return tuple(map(segments.tp_of, segments.replica_folders(self.log_dirs[dir_])))
        except OSError:
            return ()

    def is_whole(self, dir_: int) -> bool:
        """Whether a log directory is there, as the broker formatted it."""
        try:
            return (self.log_dirs[dir_] / _META).is_file()
        except OSError:
            return False

    def _launch_of_jvm(self, prepared: Prepared) -> Launch:
        """Write the broker's settings, and give the command that starts its JVM."""
        settings_text = self._settings_text(prepared)
        hosts = settings.hosts(self.address, self._wiring.peers, self._wiring.ways)
        jvm.write_files(prepared.folder, self._release, hosts=hosts, settings_text=settings_text)
        command = self._command(prepared)
        recorded = {} if self._flushes is None else self._flushes.environment()
        return Launch(command=command, environment=recorded, permissions="permissions" in self._needs)

    def _settings_text(self, prepared: Prepared) -> str:
        """The broker's server.properties, with the plan's own settings last."""
        properties = settings.properties(self._plan, self._wiring, tuple(map(str, prepared.log_dirs)))
        properties |= settings.of_sessions(self._plan) | settings.of_compaction(self._plan)
        own = settings.with_zookeeper if self._release.mode == "zookeeper" else settings.with_quorum
        if self._release.mode == "zookeeper" and not self._final:
            properties |= settings.speaking(protocol_of(self._versions.oldest), self._release)
        return settings.overridden({**properties, **own(self._plan, self._wiring)}, self._plan)


def _loses_power(plan: Plan) -> bool:
    return any(isinstance(window.fault, faults.PowerLoss) for window in plan.schedule)
