"""`highwater replay`: perform a run again and compare the digests of the two histories.

A stored run is compared with its stored digest; a plan or a seed is performed twice. A different digest is exit 14: the run is
not deterministic, so neither its digest nor a shrunk plan can be trusted.

A plan of another system than the reference is performed once, in real time, and judged: no two such runs have the same history.
"""

from pathlib import Path
from typing import Annotated

import typer

from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.cli.run import headline, show
from highwater.errors import Nondeterminism, UsageError
from highwater.plans.derive import derivation_of
from highwater.plans.plan import Plan, checked, is_foreign, on_system
from highwater.plans.systems import SystemSpec
from highwater.plans.text import load_plan
from highwater.rig.backend import REPEATABLE, BackendName
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import Judged, Keep, backend_named, carry_out
from history import store
from history.manifest import SCHEMA_VERSION, RunManifest
from history.versions import digest_in


def replay(
    what: Annotated[str, typer.Argument(metavar="RUN|PLAN|SEED", help="Folder of a stored run, a plan file, or a seed.")],
    *,
    protocol: options.ProtocolIfAny = None,
    derivation: options.Derivation = None,
    system: options.System = None,
    jars: options.JarsOption = None,
    bisect: options.Bisect = False,  # run_command_line converts the exit code
    json: options.AsJson = False,
) -> int:
    """Perform a stored run again, or a plan or seed twice, and check that both histories have the same digest."""
    build = present_build()
    path = Path(what)
    repeat = f"highwater replay {what}"
    if protocol is not None and path.exists():
        raise UsageError(f"--protocol needs a seed; {what} is a file or folder that names its own protocol")
    if derivation is not None and path.exists():
        raise UsageError(f"--derivation needs a seed; {what} is a file or folder with a plan")
    system_under_test = options.UnderTest(system=system, jars=jars)
    backend_implied = options.backend_for(None, None, system)
    request = Request(
        protocol=protocol or "safe", system=system_under_test.name, jars=system_under_test.build, backend=backend_implied
    )
    options.check_seeds(derivation, foreign=request.foreign)
    under = request.spec if request.words else None
    if path.is_dir():
        manifest = store.load_manifest(path)
        plan = _stored_plan(path, manifest, under)
        digest_before: str | None = manifest.digest if under is None else None
    else:
        manifest, digest_before = None, None
        if path.suffix in (".yaml", ".yml") or path.is_file():
            plan = load_plan(path)
        else:
            plan = request.plan(options.seed_not_file(what, files="run folder or plan file"))
            repeat += f" --derivation {derivation_of(foreign=request.foreign)}"
            repeat += f" --protocol {protocol}" if protocol is not None else ""
    if under is not None:
        plan = checked(on_system(plan, under))
        repeat += request.words
    if not json:
        say(headline(plan))
    if is_foreign(plan):
        backend: BackendName = "docker" if manifest is not None and manifest.backend == "docker" else "process"
        return _perform_once(plan, build, repeat, backend=backend, json=json)
    judged = _perform_again(plan, build, repeat)
    if digest_before is None:
        digest_before = _perform_again(plan, build, repeat).summary.digest
    version = manifest.schema_version if manifest is not None else SCHEMA_VERSION
    digest_now = digest_in(version, judged.history.operations, judged.history.events)
    if digest_now != digest_before:
        raise Nondeterminism(_difference_in_words(digest_now, digest_before, manifest, build) + f"; repeat: {repeat}")
    if json:
        say_json(judged.summary)
    else:
        show(judged.summary, folder=what if path.is_dir() else None)
        say("the same history, byte for byte")
    return judged.summary.exit_code


def _perform_again(plan: Plan, build: Build, repeat: str) -> Judged:
    """The simulated run of a plan, judged. Raises KeyboardInterrupt if Ctrl-C ended it."""
    judged_run = carry_out(plan, backend_named("sim"), build=build, repeat=repeat, keep=Keep())
    if judged_run.history.manifest.outcome == "interrupted":
        raise KeyboardInterrupt  # the digest of an incomplete run cannot be compared
    return judged_run


def _perform_once(plan: Plan, build: Build, repeat: str, *, backend: BackendName, json: bool) -> int:
    """Perform a plan of another system, and print its verdict."""
    summary = carry_out(plan, backend_named(backend), build=build, repeat=repeat, keep=Keep()).summary
    say_json(summary) if json else show(summary)
    return summary.exit_code


def _stored_plan(directory: Path, manifest: RunManifest, under: SystemSpec | None) -> Plan:
    """The plan of a stored run that can be repeated. Raises UsageError."""
    if under is not None or manifest.system is not None:
        return load_plan(directory / store.PLAN)
    if manifest.backend not in REPEATABLE:
        raise UsageError(f"{directory}: backend is {manifest.backend}; only {' and '.join(REPEATABLE)} runs can be replayed")
    if manifest.outcome != "completed":
        raise UsageError(
            f"{directory}: outcome is {manifest.outcome}; only completed runs can be replayed;"
            f" to perform its plan: highwater run --plan {directory / store.PLAN}"
        )
    return load_plan(directory / store.PLAN)


def _difference_in_words(digest_now: str, digest_before: str, manifest: RunManifest | None, build: Build) -> str:
    """How the digests differ, and whether the code may have changed since."""
    line = f"not deterministic: digest {digest_now} instead of {digest_before}"
    if manifest is not None and (manifest.commit != build.commit or manifest.dirty or build.dirty):
        then = f"{manifest.commit[:12] or 'no commit'}{' with changes' if manifest.dirty else ''}"
        now = f"{build.commit[:12] or 'no commit'}{' with changes' if build.dirty else ''}"
        line += f" (stored by {then}, replayed by {now}: the code may have changed)"
    return line
