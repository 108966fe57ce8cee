"""Builds the images of a broker, of a ZooKeeper server and of the harness from `docker/`, with or without access to a registry.

    python -m highwater.backends.real.containers.images [harness]

    highwater-base       BASE_IMAGE, else a Debian that debootstrap makes here; plus Java, iptables, tc and libfaketime
    highwater-node       + `reference`, `server` and what they import
    highwater-zookeeper  + the jars that ship with PySpark
    highwater            + the packages of the wheel and what they import, without Spark; no run needs it, so it is built apart

The files come from this machine, so only the build of the base needs a network. A label on each image holds the digest of its
inputs; an image is built again only when that digest changes.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import reference
from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.zookeeper.local import server_jars
from highwater.errors import HarnessError, HighwaterError
from history.packages import PACKAGES as WHEEL
from pipeline.stamp import present_stamp

NODE = "highwater-node:latest"
ZOOKEEPER = "highwater-zookeeper:latest"
BASE = "highwater-base:latest"
HARNESS = "highwater:latest"
COMMAND = "make images"
# A broker's image holds these packages of ours and these distributions, which they import, and nothing else.
PACKAGES = ("monitors", "reference", "server")
BROKER = ("msgspec", "kazoo", "kio", "crc32c", "prometheus-client")
_LOCAL = "highwater-debian"  # the image that debootstrap made, used if BASE_IMAGE cannot be pulled
_BASE_IMAGE = "python:3.11-slim-bookworm"
_SUITE = "bookworm"
_PYTHON = (3, 11)  # in both base images
_PACKAGES = "python3,openjdk-17-jre-headless,iptables,iproute2,libfaketime"
_USELESS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
_ROOT = Path(next(iter(reference.__path__))).parent
_DOCKER = _ROOT / "docker"


def missing(engine: Engine) -> str | None:
    """Which Docker image is missing or out of date, with the command that builds it, in a sentence; None if none."""
    if not _DOCKER.is_dir():
        return f"images can only be built in a checkout of highwater, and {_ROOT} has no folder docker/: clone the repository"
    base = engine.image_id(BASE)
    if base is None or engine.inputs_of(BASE) != _base_inputs():
        state = "is missing" if base is None else "is out of date"
        return f"the Docker image {BASE} {state}; build it with: {COMMAND}"
    for tag, inputs in ((NODE, _node_inputs(base)), (ZOOKEEPER, _zookeeper_inputs(base))):
        built_inputs = engine.inputs_of(tag)
        if built_inputs != inputs:
            return (
                f"the Docker image {tag} {'is missing' if built_inputs is None else 'is out of date'}; build it with: {COMMAND}"
            )
    return None


def build_all(engine: Engine) -> None:
    """Build each Docker image that is missing or out of date, and print a line for it."""
    base = _up_to_date_base(engine)
    inputs = _node_inputs(base)
    if engine.inputs_of(NODE) != inputs:
        _build_python(engine, NODE, "node.Dockerfile", PACKAGES, _requirements(), inputs=inputs)
    inputs = _zookeeper_inputs(base)
    if engine.inputs_of(ZOOKEEPER) != inputs:
        _say(f"building {ZOOKEEPER}")
        jars = [(f"jars/{jar.name}", jar) for jar in server_jars()]
        _build(engine, ZOOKEEPER, "zookeeper.Dockerfile", jars, {"BASE": BASE}, inputs=inputs)


def build_harness(engine: Engine) -> None:
    """Build the Docker image of the harness if it is missing or out of date, and print a line for it."""
    inputs = _harness_inputs(_up_to_date_base(engine))
    if engine.inputs_of(HARNESS) != inputs:
        _build_python(engine, HARNESS, "harness.Dockerfile", WHEEL, _dependencies(), inputs=inputs)


def _up_to_date_base(engine: Engine) -> str:
    """The id of the base image, which is built if its inputs have changed."""
    if engine.inputs_of(BASE) != _base_inputs():
        _build_base(engine)
    base = engine.image_id(BASE)
    assert base is not None
    return base


def _base_inputs() -> str:
    return _digest(_wanted_base(), _dockerfile("base.Dockerfile"), _PACKAGES)


def _node_inputs(base: str) -> str:
    """A digest of what a broker's Docker image is built from: our sources and the versions of other distributions."""
    source = sorted(path for package in PACKAGES for path in (_ROOT / package).rglob("*.py"))
    contents = [f"{path.relative_to(_ROOT)}\n{path.read_text()}" for path in source]
    return _digest(base, _dockerfile("node.Dockerfile"), *_versions(_requirements()), *contents)


def _harness_inputs(base: str) -> str:
    return _digest(base, _dockerfile("harness.Dockerfile"), present_stamp().code, *_versions(_dependencies()))


def _versions(wanted: Iterable[str]) -> list[str]:
    return [f"{name}=={metadata.version(name)}" for name in sorted(_closure(wanted))]


def _zookeeper_inputs(base: str) -> str:
    return _digest(base, _dockerfile("zookeeper.Dockerfile"), *(jar.name for jar in server_jars()))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _dockerfile(name: str) -> str:
    return (_DOCKER / name).read_text()


# --- the base ----------------------------------------------------------------------------------------------------------------


def _wanted_base() -> str:
    return os.environ.get("BASE_IMAGE", _BASE_IMAGE)


def _build_base(engine: Engine) -> None:
    base_name = _wanted_base()
    below = base_name if engine.image_id(base_name) is not None else _pull_or_make(engine, base_name)
    _say(f"building {BASE} from {below}")
    _build(engine, BASE, "base.Dockerfile", (), {"BASE_IMAGE": below}, inputs=_base_inputs())


def _pull_or_make(engine: Engine, name: str) -> str:
    """The base image by name: pulled, or a Debian made here if no registry can be reached."""
    _say(f"pulling {name}")
    reason = engine.pull(name)
    if reason is None:
        return name
    if engine.image_id(_LOCAL) is None:
        _say(f"{name} cannot be pulled ({reason.strip()}); making a Debian with debootstrap instead: 1 to 2 minutes, once")
        _debootstrap(engine)
    return _LOCAL


def _debootstrap(engine: Engine) -> None:
    """Make a Debian image with debootstrap. Raises HarnessError if it is not installed or not run as root."""
    tool = shutil.which("debootstrap")
    if tool is None or os.getuid() != 0:
        lacks = "debootstrap is not installed" if tool is None else "only root can run it"
        raise HarnessError(
            f"the base image cannot be pulled, and making one with debootstrap failed: {lacks}; "
            f"install debootstrap and run {COMMAND} once as root, or set BASE_IMAGE to an image of this machine"
        )
    folder = Path(tempfile.mkdtemp(prefix="highwater-debian-"))
    root, tar = folder / "root", folder / "root.tar"
    command = [tool, "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root), _mirror()]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if completed.returncode:
            raise HarnessError(f"debootstrap failed: {(completed.stdout + completed.stderr).strip().splitlines()[-1:]}")
        for useless in _USELESS:
            shutil.rmtree(root / useless, ignore_errors=True)
        subprocess.run(["tar", "--one-file-system", "--numeric-owner", "-C", str(root), "-cf", str(tar), "."], check=True)
        engine.import_root(tar, _LOCAL)
    finally:
        _unmount_below(folder)  # an interrupted debootstrap leaves its /proc behind
        shutil.rmtree(folder)


def _mirror() -> str:
    """The URI of Debian's main section in this machine's apt sources. Raises HarnessError if there is none."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in listed.splitlines():
        uri, release, component = line.split()
        if (release, component) == (_SUITE, "main"):
            return uri
    raise HarnessError(f"apt on this machine has no source of Debian {_SUITE} main: add one, or set BASE_IMAGE to an image here")


def _unmount_below(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", place], check=True)


# --- what brokers and the harness need ---------------------------------------------------------------------------------------


def _build_python(engine: Engine, tag: str, dockerfile: str, packages: Iterable[str], wanted: list[str], *, inputs: str) -> None:
    """Build an image with these packages of ours and what they need."""
    _say(f"building {tag}")
    with tempfile.TemporaryDirectory(prefix="highwater-images-") as folder:
        _collect(Path(folder), packages, wanted)
        contents = [(f"site/{path.relative_to(folder)}", path) for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        _build(engine, tag, dockerfile, contents, {"BASE": BASE}, inputs=inputs)


def _collect(site: Path, packages: Iterable[str], wanted: list[str]) -> None:
    """Collect packages of ours and their dependencies: the installed ones, or pip's if this is not the image's Python."""
    for package in packages:
        shutil.copytree(_ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    if sys.version_info[:2] != _PYTHON or sys.platform != "linux":
        return _install(site, wanted)
    for name in sorted(_closure(wanted)):
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            if ".." in file.parts or "__pycache__" in file.parts:
                continue
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(distribution.locate_file(file)), target)
    return None


def _requirements() -> list[str]:
    return [text for text in _dependencies() if Requirement(text).name in BROKER]


def _dependencies() -> list[str]:
    """The requirements of the base and of the extras that brokers are part of."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["sim"], *extras["real"]]


def _closure(wanted: Iterable[str]) -> set[str]:
    """The names of all Python distributions that these requirements install, directly or not."""
    closure: set[str] = set()
    open_ones = [Requirement(text) for text in wanted]
    while open_ones:
        requirement = open_ones.pop()
        if requirement.name in closure or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        closure.add(requirement.name)
        open_ones += [Requirement(text) for text in metadata.requires(requirement.name) or ()]
    return closure


def _install(site: Path, wanted: list[str]) -> None:
    """Install packages for the image's Python with pip. Raises HarnessError."""
    target = ["--target", str(site), "--python-version", "3.11", "--platform", f"manylinux2014_{platform.machine()}"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *target, "--only-binary=:all:"]
    completed = subprocess.run([*command, "-c", str(_ROOT / "constraints.txt"), *wanted], check=False)
    if completed.returncode:
        raise HarnessError(f"pip could not install {', '.join(wanted)} for Python 3.11 on Linux; see its output above")


# --- building ----------------------------------------------------------------------------------------------------------------


def _build(
    engine: Engine, tag: str, dockerfile: str, contents: Iterable[tuple[str, Path]], arguments: dict[str, str], *, inputs: str
) -> None:
    """Build an image from the Dockerfile and these files, the same bytes for the same input."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, path in [(dockerfile, _DOCKER / dockerfile), *contents]:
                entry = tar.gettarinfo(str(path), arcname=name)
                entry.uid = entry.gid = entry.mtime = 0
                with path.open("rb") as file:
                    tar.addfile(entry, file)
        context.flush()
        engine.build(tag, Path(context.name), dockerfile=dockerfile, arguments=arguments, inputs=inputs)


def _say(line: str) -> None:
    sys.stderr.write(f"images: {line}\n")


def main() -> int:
    """Build the Docker images that are out of date, those of a run or that of the harness; prints one line for an error."""
    try:
        with Engine() as engine:
            build_harness(engine) if sys.argv[1:] == ["harness"] else build_all(engine)
    except HighwaterError as error:
        sys.stderr.write(f"images: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
