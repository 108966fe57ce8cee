"""The Docker engine; the only module that imports Docker's SDK.

Everything that is created for a run carries the labels `highwater.run` (its name) and `highwater.folder` (its folder). The labels
identify what belongs to a run, and the folder's lock (`run_folder`) shows whether the run still lives. The engine has to run on
this machine, because folders are shared with containers and containers are reached by their addresses. Calls block. A failure of
the engine becomes a HarnessError that says what was being attempted.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

import docker
import requests.exceptions
from docker.errors import APIError, BuildError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import IPAMConfig, LogConfig, Mount
from msgspec import Struct

from highwater.errors import HarnessError

RUN_LABEL = "highwater.run"
FOLDER_LABEL = "highwater.folder"
INPUTS_LABEL = "highwater.inputs"
_ANSWER_S_MAX = 60
_CONNECTIONS_MAX = 32
FREEZE_S_MAX = 10.0
_LOG_TAIL_LINES = 20
_LOG_BYTES_MAX = "16m"
_PROCESSES_MAX = 512

State = Literal["created", "running", "paused", "restarting", "removing", "exited", "dead"]


class Labels(Struct, frozen=True):
    """Labels that name the run to which a container, network or volume belongs."""

    run: str
    folder: Path

    def texts(self) -> dict[str, str]:
        """The labels as names and values, as the Docker engine stores them."""
        return {RUN_LABEL: self.run, FOLDER_LABEL: str(self.folder)}


class Service(Struct, frozen=True, kw_only=True):
    """The settings of one container. Host `folders` are mounted at the same paths, writable."""

    name: str
    labels: Labels
    image: str
    command: tuple[str, ...]
    entrypoint: str | None = None  # the image's if None
    user: str | None = None  # uid:gid; the image's if None
    environment: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    reads: tuple[tuple[Path, Path], ...] = ()  # folders of the host, and where they are mounted read-only
    host_name: str | None = None
    networks: tuple[str, ...] = ()  # ids
    shares_network_of: str | None = None  # the id of a container
    capabilities: tuple[str, ...] = ()
    memory_mb: int


class Network(Struct, frozen=True, kw_only=True):
    """A Docker bridge network; `gateway` is this machine's address in it."""

    id: str
    gateway: str


class Left(Struct, frozen=True, kw_only=True):
    """A container, network or volume that a run created and that still exists."""

    kind: Literal["container", "network", "volume"]
    id: str
    name: str
    labels: Labels


@contextmanager
def _attempting(what: str) -> Iterator[None]:
    """Turn an error of Docker into a HarnessError that says what was attempted."""
    try:
        yield
    except (DockerException, requests.exceptions.RequestException) as error:
        reason = error.explanation if isinstance(error, APIError) and error.explanation else error
        raise HarnessError(f"{what}: {reason}") from error


def missing() -> str | None:
    """Why no Docker engine can be used here, in a sentence; None if one answers."""
    try:
        Engine().close()
    except HarnessError as error:
        return str(error)
    return None


def _reach(docker_host: str) -> None:
    """Connect to a local engine's socket once: Docker's SDK leaves its own socket open if nobody listens. Raises OSError."""
    if docker_host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_S_MAX)
            probe.connect(docker_host.removeprefix("unix://"))


class Engine:
    """A connection to the engine that DOCKER_HOST names, or the local one. Raises HarnessError if none answers."""

    def __init__(self) -> None:
        docker_host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        try:
            _reach(docker_host)
            self._client = docker.from_env(timeout=_ANSWER_S_MAX, max_pool_size=_CONNECTIONS_MAX)
            self._client.ping()
        except (DockerException, requests.exceptions.RequestException, OSError) as error:
            raise HarnessError(
                f"no Docker engine answers at {docker_host}: start dockerd, or set DOCKER_HOST ({error})"
            ) from error
        if not self._client.api.base_url.startswith("http+docker://"):
            self.close()
            raise HarnessError(f"DOCKER_HOST must name an engine on this machine (unix://…), not {os.environ.get('DOCKER_HOST')}")

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the Docker engine."""
        self._client.close()

    # --- images ------------------------------------------------------------------------------------------------------------

    def image_id(self, tag: str) -> str | None:
        """The id of a Docker image; None if the engine does not have it."""
        with _attempting(f"looking for the image {tag}"):
            try:
                return self._client.images.get(tag).id
            except ImageNotFound:
                return None

    def inputs_of(self, tag: str) -> str | None:
        """The digest of what a Docker image of ours was built from; None if there is no such image or label."""
        with _attempting(f"looking for the image {tag}"):
            try:
                return self._client.images.get(tag).labels.get(INPUTS_LABEL)
            except ImageNotFound:
                return None

    def pull(self, reference: str) -> str | None:
        """Pull a Docker image; returns the reason if that fails, else None."""
        try:
            self._client.images.pull(reference)
        except (DockerException, requests.exceptions.RequestException) as error:
            return str(error.explanation if isinstance(error, APIError) and error.explanation else error)
        return None

    def import_root(self, tar: Path, tag: str) -> None:
        """Create a Docker image with one layer from a tar of a root file system."""
        with _attempting(f"importing {tag}"):
            self._client.api.import_image(src=str(tar), repository=tag, tag="latest")

    def build(self, tag: str, context: Path, *, dockerfile: str, arguments: dict[str, str], inputs: str) -> None:
        """Build a Docker image from a tar of its context. Raises HarnessError with the last lines of the build's log."""
        with _attempting(f"building {tag}"), context.open("rb") as tar:
            try:
                self._client.images.build(
                    fileobj=tar,
                    custom_context=True,
                    dockerfile=dockerfile,
                    tag=tag,
                    buildargs=arguments,
                    labels={INPUTS_LABEL: inputs},
                    rm=True,
                    forcerm=True,
                )
            except BuildError as error:
                words = "".join(str(line.get("stream") or line.get("error") or "") for line in error.build_log)
                raise HarnessError(f"building {tag}: {' / '.join(words.strip().splitlines()[-_LOG_TAIL_LINES:])}") from error

    # --- networks ----------------------------------------------------------------------------------------------------------

    def create_network(self, name: str, labels: Labels) -> Network:
        """Create a bridge network that only this machine reaches."""
        with _attempting(f"creating the network {name}"):
            network = self._client.networks.create(name, driver="bridge", ipam=IPAMConfig(), internal=True, labels=labels.texts())
            network.reload()
            config = network.attrs["IPAM"]["Config"][0]
            assert network.id is not None
            return Network(id=network.id, gateway=config["Gateway"])

    # --- containers --------------------------------------------------------------------------------------------------------

    def create(self, service: Service) -> str:
        """Create a container without starting it; returns its id.

        It has only the named capabilities, cannot gain privileges, and its root file system is read-only.
        """
        mounts = [Mount(str(path), str(path), type="bind") for path in service.folders]
        mounts += [Mount(str(there), str(path), type="bind", read_only=True) for path, there in service.reads]
        with _attempting(f"creating the container {service.name}"):
            container = self._client.containers.create(
                service.image,
                list(service.command),
                name=service.name,
                entrypoint=service.entrypoint,
                hostname=service.host_name,
                user=service.user,
                environment=list(service.environment),
                labels=service.labels.texts(),
                network=service.networks[0] if service.networks else None,
                network_mode=None if service.shares_network_of is None else f"container:{service.shares_network_of}",
                mounts=mounts,
                tmpfs={"/tmp": "size=16m", "/run": "size=1m"},
                read_only=True,
                cap_drop=["ALL"],
                cap_add=list(service.capabilities),
                security_opt=["no-new-privileges"],
                mem_limit=f"{service.memory_mb}m",
                memswap_limit=f"{service.memory_mb}m",
                pids_limit=_PROCESSES_MAX,
                log_config=LogConfig(type="json-file", config={"max-size": _LOG_BYTES_MAX}),
            )
            assert container.id is not None
            for network in service.networks[1:]:
                self._client.networks.get(network).connect(container.id)
            return container.id

    def start(self, container: str) -> None:
        """Start a container that was created or has ended; it gets a new network interface."""
        with _attempting("starting a container"):
            self._container(container).start()

    def kill(self, container: str, signal: str = "KILL") -> None:
        """Send SIG`signal` to the first process of a container; does nothing if none runs."""
        with _attempting(f"sending SIG{signal} to a container"):
            try:
                self._container(container).kill(signal)
            except APIError as error:
                if error.status_code != 409:  # not running
                    raise

    def wait(self, container: str, timeout_s: int) -> None:
        """Wait until the container's first process has ended."""
        with _attempting("waiting for the end of a container"):
            self._container(container).wait(timeout=timeout_s)

    def pause(self, container: str) -> None:
        """Freeze the cgroup of a container. Raises HarnessError if that takes longer than FREEZE_S_MAX."""
        end_s = time.monotonic() + FREEZE_S_MAX
        with _attempting("pausing a container"):
            while True:
                try:
                    return self._container(container).pause()
                except APIError as error:
                    # A task freezes when it is next scheduled. runc waits for about 0.2 s (a thousand looks), then gives up and
                    # thaws.
                    if "unable to freeze" not in str(error) or time.monotonic() > end_s:
                        raise

    def unpause(self, container: str) -> None:
        """Thaw the cgroup of a container."""
        with _attempting("continuing a container"):
            self._container(container).unpause()

    def state(self, container: str) -> State:
        """The state of a container in the engine's words."""
        with _attempting("looking at a container"):
            status: State = self._container(container).status  # type: ignore[assignment] # of the engine's documented words
            return status

    def addresses(self, container: str) -> dict[str, str]:
        """The addresses of a running container, by the ids of its networks."""
        with _attempting("looking at a container"):
            networks = self._container(container).attrs["NetworkSettings"]["Networks"]
        return {network["NetworkID"]: network["IPAddress"] for network in networks.values()}

    def pid(self, container: str) -> int:
        """The host pid of the container's first process; 0 if none runs."""
        with _attempting("looking at a container"):
            pid: int = self._container(container).attrs["State"]["Pid"]
        return pid

    def exit_code(self, container: str) -> int | None:
        """The exit code of the container's last process; None while the engine takes it to be running."""
        with _attempting("looking at a container"):
            state = self._container(container).attrs["State"]
        code: int = state["ExitCode"]
        return code if state["Status"] == "exited" else None

    def used_too_much_memory(self, container: str) -> bool:
        """Whether the kernel ended the container's last process because it needed more memory than it may use."""
        with _attempting("looking at a container"):
            return bool(self._container(container).attrs["State"]["OOMKilled"])

    def last_words(self, container: str) -> str:
        """The last line that a container printed; empty if none."""
        with _attempting("reading what a container printed"):
            lines = self._container(container).logs(tail=_LOG_TAIL_LINES).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def memory_bytes(self, container: str) -> int:
        """The memory use of a container's cgroup without reclaimable page cache."""
        with _attempting("reading the memory of a container"):
            found = self._container(container).stats(stream=False)
        assert isinstance(found, dict)
        stats = found["memory_stats"]
        details = stats.get("stats", {})
        reclaimable: int = details.get("total_inactive_file", details.get("inactive_file", 0))
        used: int = stats["usage"]
        return used - reclaimable

    # --- the end -----------------------------------------------------------------------------------------------------------

    def left(self, run: str | None = None) -> list[Left]:
        """All containers, networks and volumes of one run, or of all runs; containers first."""
        filters = {"label": RUN_LABEL if run is None else f"{RUN_LABEL}={run}"}
        with _attempting("looking for what runs left behind"):
            containers = self._client.api.containers(all=True, filters=filters)
            networks = self._client.api.networks(filters=filters)
            volumes = self._client.api.volumes(filters=filters)["Volumes"] or []
        return [
            *(Left(kind="container", id=c["Id"], name=c["Names"][0][1:], labels=_labels(c["Labels"])) for c in containers),
            *(Left(kind="network", id=n["Id"], name=n["Name"], labels=_labels(n["Labels"])) for n in networks),
            *(Left(kind="volume", id=v["Name"], name=v["Name"], labels=_labels(v["Labels"])) for v in volumes),
        ]

    def remove(self, left: Left) -> None:
        """Remove a container, network or volume; does nothing if it is gone already."""
        with _attempting(f"removing the {left.kind} {left.name}"):
            try:
                match left.kind:
                    case "container":
                        self._client.api.remove_container(left.id, force=True, v=True)
                    case "network":
                        self._client.api.remove_network(left.id)
                    case "volume":
                        self._client.api.remove_volume(left.id)
            except NotFound:
                return
            except APIError as error:
                if "is already in progress" not in str(error):
                    raise

    def _container(self, container: str) -> Container:
        return self._client.containers.get(container)


def _labels(texts: dict[str, str]) -> Labels:
    return Labels(texts[RUN_LABEL], Path(texts.get(FOLDER_LABEL, "/")))
