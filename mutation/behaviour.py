"""Measure what the snapshot of the behaviour tells: of planted mistakes, and of the commits that changed the protocol.

python -m mutation.behaviour planted
    Plants each mistake of `PLANTED` alone in a copy of `reference/`, performs the plans of the gate, and says in how many the
    behaviour is another one, how it differs first in most of them, and in how many a judge finds something.
python -m mutation.behaviour commits NUMBER [ROWS]
    Performs the plans of the gate on the `reference/` of each of the last NUMBER commits that touched it and of its first parent,
    under the present harness, and says in how many plans the behaviours differ. ROWS: only plans with at most so many rows in the
    snapshot, which take less time.

Both print a table in Markdown, a row as soon as it is known.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.behaviour.difference import Behaviour, Difference, differences, groups
from highwater.behaviour.rows import rows_of
from highwater.behaviour.snapshot import PLACE, load, recorded
from highwater.behaviour.tap import tapped
from highwater.errors import HarnessError
from highwater.exit_codes import ExitCode, of_verdict
from highwater.plans.plan import plan_digest
from highwater.runs.provenance import Build
from highwater.runs.run import attempting, judge, perform
from mutation.gate import plans
from mutation.trees import ROOT

_BUILD = Build(commit="", dirty=False, versions={})


class Planted(Struct, frozen=True):
    """A mistake: a text of a module of `reference/` that is replaced; `rule` is broken by it in a plan of the gate."""

    what: str
    module: str
    old: str
    new: str
    rule: str
    plan: str


PLANTED = (
    Planted(
        "a move narrows before StopReplica is answered",
        "controller/reassign/move.py",
        "return not any(channel.is_stopping(peer, state.tp) for peer in dropped)",
        "return bool(dropped) or True",
        "narrowed-early",
        "corpus/moved-back-beside-its-old-log",
    ),
    Planted(
        "a dead leader stays in the state when the whole ISR is gone (KAFKA-3096)",
        "controller/leader_selection.py",
        "return Keep() if state.leader is None and isr == state.isr else Offline(isr)",
        "return Keep() if isr == state.isr else Offline(isr)",
        "dead-leader-kept",
        "corpus/kip101-scenario-2",
    ),
    Planted(
        "the controller's memory keeps the old state during moves and tells it (KAFKA-9212)",
        "controller/leader_election.py",
        "    controller.states[state.tp] = state\n    match change.serves:",
        "    if state.tp not in controller.agent.moves:\n        controller.states[state.tp] = state\n    match change.serves:",
        "older-metadata-told",
        "corpus/elr-joined-short",
    ),
    Planted(
        "parked requests vanish with a deleted replica (KAFKA-9198)",
        "broker/commands.py",
        "    partition = broker.partitions[tp]\n    follower.resign(turn, partition)",
        "    partition = broker.partitions[tp]\n    partition.fetches = partition.produces = []\n"
        "    follower.resign(turn, partition)",
        "parked-request-lost",
        "corpus/created-beside-its-unreadable-log",
    ),
    Planted(
        "a controller outlives its session",
        "controller/controller.py",
        "        controller.locked = True\n    controller_election.resign(turn, controller)",
        "        controller.locked = True",
        "outlives-its-session",
        "plans/mutants/failover-retry",
    ),
    Planted(
        "a refused heartbeat does not fence",
        "broker/heartbeats.py",
        "(B-43).\n            _change_state(turn, broker, BrokerState.INACTIVE)",
        "(B-43).\n            pass",
        "refusal-does-not-fence",
        "plans/mutants/isr-eager",
    ),
    Planted(
        "a late answer to a heartbeat counts",
        "broker/heartbeats.py",
        "    if reply.correlation != membership.outstanding:\n        return\n",
        "",
        "late-answer-counts",
        "corpus/elr-joined-short",
    ),
    Planted(
        "controlled shutdown closes before leaderships have moved (KAFKA-6029)",
        "broker/shutdown.py",
        "    if not any(isinstance(partition.role, Leader) for partition in broker.partitions.values()):\n        _close",
        "    if broker.partitions is not None:\n        _close",
        "closed-while-leading",
        "plans/steps/hands-over-to-a-later-member",
    ),
    Planted(
        "a preferred election of a member that has restarted",
        "controller/leader_selection.py",
        "if m.broker == state.replicas[0] and as_stamped(variant, m, live)), None)",
        "if m.broker == state.replicas[0] and m.broker in live), None)",
        "stale-member-elected",
        "plans/mutants/move-deletes-a-member",
    ),
)


class Outcome(Struct, frozen=True):
    """What one plan did; `ended` says how its verdict is red, empty if it is not or was not asked for."""

    behaviour: Behaviour | None
    ended: str = ""


def performed(*, judged: Mapping[str, Behaviour] | None = None, rows_max: int | None = None) -> dict[str, Outcome]:
    """Perform the corpus and the stored plans in this process, or those with at most so many rows in the snapshot.

    With `judged` each run that behaves otherwise is judged, too.
    """
    outcomes = {}
    cached = load(ROOT / PLACE)
    for name, plan in plans().items():
        if name not in cached or (rows_max is not None and len(cached[name].marks) > rows_max):
            continue
        try:
            with attempting(f"performing {name}", ""), tapped() as (backend, messages_sent):
                run = perform(plan, backend, _BUILD)
        except HarnessError:
            outcomes[name] = Outcome(None, "crash")
            continue
        behaviour = Behaviour(plan_digest(plan), rows_of(run.history, messages_sent))
        ended = ""
        if judged is not None and judged[name] != behaviour:
            verdict = judge(run.history)
            code = of_verdict(verdict.validity, live=verdict.live, laboratory_failed=run.failure is not None)
            ended = "" if code is ExitCode.VALID else code.name
        outcomes[name] = Outcome(behaviour, ended)
    return outcomes


def performed_on(reference: Path, *, against: Path | None = None, rows_max: int | None = None) -> dict[str, Outcome] | None:
    """Perform with the `reference/` in a folder, in a process of its own; None if it does not fit this harness."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        out = Path(folder, "outcomes.msgpack")
        done = _on(reference, "perform", str(out), str(against or ""), str(rows_max or ""))
        if done.returncode:
            sys.stderr.write(done.stderr.decode(errors="replace").strip().splitlines()[-1] + "\n")
            return None
        return msgspec.msgpack.decode(out.read_bytes(), type=dict[str, Outcome])


def findings(mistake: Planted) -> set[str]:
    """The kinds of anomalies that judges find in the plan of a planted mistake."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        _plant(mistake, Path(folder))
        done = _on(Path(folder), "judge", mistake.plan)
        if done.returncode:
            raise HarnessError(f"{mistake.plan} with the mistake: {done.stderr.decode(errors='replace').strip()}")
        return set(done.stdout.decode().split())


def _on(reference: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run this module in a process of its own, with the `reference/` in a folder."""
    command = [sys.executable, "-P", "-m", "mutation.behaviour", *arguments]
    path = os.pathsep.join((str(reference), str(ROOT)))
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False, cwd=ROOT)


def _plant(mistake: Planted, to: Path) -> None:
    """Write the `reference/` of this tree with the mistake below a folder."""
    shutil.copytree(ROOT / "reference", to / "reference", ignore=shutil.ignore_patterns("__pycache__"))
    module = to / "reference" / mistake.module
    text = module.read_text(encoding="utf-8")
    assert text.count(mistake.old) == 1, f"{mistake.module} does not have the text once: {mistake.old}"
    module.write_text(text.replace(mistake.old, mistake.new), encoding="utf-8")


def compared(before: Mapping[str, Outcome], now: Mapping[str, Outcome]) -> dict[str, Difference]:
    """How the runs that ended on both sides differ; one that crashed on one side alone differs by that."""
    marks = {name: recorded(b.plan_digest, b.rows) for name, o in before.items() if (b := o.behaviour) is not None}
    both = {name: o.behaviour for name, o in now.items() if o.behaviour is not None and name in marks}
    found = differences(marks, both, all_plans=False)
    for name, outcome in now.items():
        if (outcome.behaviour is None) != (before[name].behaviour is None):
            found[name] = Difference("missing", "the run crashes" if outcome.behaviour is None else "the run crashes no more")
    return found


def planted_rows() -> Iterator[str]:
    """The lines of the table of planted mistakes."""
    yield "| mistake | changed in | first difference of most plans | a judge is red in |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
        base = performed()
        kept = Path(folder, "base.msgpack")
        kept.write_bytes(msgspec.msgpack.encode(base))
        for number, mistake in enumerate(PLANTED):
            place = Path(folder, str(number))
            _plant(mistake, place)
            now = performed_on(place, against=kept)
            if now is None:
                yield f"| {mistake.what} | does not run | | |"
                continue
            found = compared(base, now)
            red = Counter(outcome.ended for outcome in now.values() if outcome.ended)
            words = ", ".join(f"{count} {name}" for name, count in sorted(red.items())) or "none"
            yield f"| {mistake.what} | {len(found)} of {len(now)} | {_most(found)} | {words} |"


def commit_rows(number: int, rows_max: int | None) -> Iterator[str]:
    """The lines of the table of commits, the newest first."""
    yield "| commit | subject | plans that behave otherwise | first difference of most plans | only code was moved |"
    yield "|---|---|---|---|---|"
    cached: dict[str, dict[str, Outcome] | None] = {}
    for line in _git("log", f"-{number}", "--format=%h %s", "--", "reference").splitlines():
        commit, _, subject = line.partition(" ")
        before, now = (_of_tree(revision, cached, rows_max) for revision in (f"{commit}^", commit))
        moved = "yes" if _same_code(f"{commit}^", commit) else ""
        if before is None or now is None:
            yield f"| {commit} | {subject} | does not run on this harness | | {moved} |"
            continue
        found = compared(before, now)
        yield f"| {commit} | {subject} | {len(found)} of {len(now)} | {_most(found)} | {moved} |"


def _of_tree(revision: str, cached: dict[str, dict[str, Outcome] | None], rows_max: int | None) -> dict[str, Outcome] | None:
    """What the plans do on the `reference/` of a commit; performed once for each content of that folder."""
    tree = _git("rev-parse", f"{revision}:reference").strip()
    if tree not in cached:
        with tempfile.TemporaryDirectory(prefix="highwater-") as folder:
            _copy(revision, Path(folder))
            cached[tree] = performed_on(Path(folder), rows_max=rows_max)
    return cached[tree]


def _same_code(before: str, after: str) -> bool:
    """Whether two commits have the same modules of the protocol but for docstrings and comments."""
    return _code(before) == _code(after)


def _code(revision: str) -> dict[str, str]:
    names = _git("ls-tree", "-r", "--name-only", revision, "reference").splitlines()
    return {name: _bare(_git("show", f"{revision}:{name}")) for name in names if name.endswith(".py")}


def _bare(text: str) -> str:
    """A module without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [line for line in body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    return ast.dump(tree)


def _most(found: Mapping[str, Difference]) -> str:
    """The most frequent difference, with its number of plans."""
    listed = groups(found)
    return f"{listed[0].words} ({len(listed[0].plans)})" if listed else ""


def _copy(revision: str, to: Path) -> None:
    """Write the `reference/` of a commit below a folder."""
    to.mkdir(exist_ok=True)
    archive = subprocess.run(["git", "archive", revision, "reference"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(to)], input=archive, check=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Do what the arguments say."""
    match sys.argv[1:]:
        case ["planted"]:
            lines = planted_rows()
        case ["commits", number, *rows] if all(text.isdigit() for text in (number, *rows)) and len(rows) <= 1:
            lines = commit_rows(int(number), int(rows[0]) if rows else None)
        case ["judge", name]:
            verdict = judge(perform(plans()[name], SimBackend(), _BUILD).history)
            lines = iter(sorted({anomaly.kind for anomaly in verdict.anomalies}))
        case ["perform", out, against, rows_max]:
            behaviours = None
            if against:
                base = msgspec.msgpack.decode(Path(against).read_bytes(), type=dict[str, Outcome])
                behaviours = {name: outcome.behaviour for name, outcome in base.items() if outcome.behaviour is not None}
            Path(out).write_bytes(msgspec.msgpack.encode(performed(judged=behaviours, rows_max=int(rows_max or 0) or None)))
            return 0
        case _:
            sys.stderr.write("python -m mutation.behaviour planted | commits NUMBER [ROWS]\n")
            return 2
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
