"""The regression corpus: plans that once found a bug, with the verdict that each protocol must get.

An entry is a file `corpus/seeds/<name>.yaml`:

    name: kip101-scenario-1
    story: Why the entry exists.
    plan: ../plans/kip101-scenario-1.yaml     # relative to the entry; or `seed: 17` and its `derivation: 1`
    expect:
      - {protocol: truncate-to-hw, verdict: INVALID, kinds: [lost-write]}
      - {protocol: safe, verdict: VALID}

Each of `kinds` must be among the kinds of anomalies found; further kinds are allowed. A plan is performed under the protocol of
each expectation; its own protocol is ignored. The entries of `corpus/systems` name other systems instead of protocols:

    expect:
      - {system: "kafka:0.10.2.2", verdict: INVALID}
      - {system: "kafka:3.9.1", verdict: VALID, live: true}
"""

from collections.abc import Iterator, Sequence
from os.path import normpath
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from highwater.campaigns.campaign import Request
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import DERIVATION, PLAIN, check_derivation, derive
from highwater.plans.plan import Plan, checked, on_system
from highwater.plans.systems import parsed_system, words_of
from highwater.plans.text import load_plan, plan_to_yaml
from highwater.rig.backend import BackendName
from highwater.runs.findings import ValidityName
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from history.store import name_complaint, write_file
from nemesis.text import Document, TextError, dump, flow

SAFE = "safe"
OWN = "own"  # in the place of a protocol: each plan on the one that it names


class Expectation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict that the plan must get under one protocol, or on one other system; exactly one of both is given."""

    protocol: str = ""
    system: str = ""  # name and version
    verdict: ValidityName
    kinds: tuple[str, ...] = ()
    live: bool | None = None  # None: either

    @property
    def subject(self) -> str:
        """What is tested: a system, or a protocol of the reference."""
        return self.system or self.protocol


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one file of the regression corpus; it has exactly one of `plan` and `seed`."""

    name: str
    story: str
    plan: str | None = None
    seed: int | None = None
    derivation: int | None = None  # of the seed
    faults: tuple[str, ...] = ()
    seconds: int | None = None
    found_at: str = ""  # the commit at which it was found
    expect: tuple[Expectation, ...]


class Case(Struct, frozen=True, kw_only=True):
    """A plan under one protocol, with the verdict that it must get and the command that repeats it."""

    entry: str
    expectation: Expectation
    plan: Plan
    repeat: str
    file: Path | None = None  # of the plan; None: derived from a seed


class Unread(Struct, frozen=True, kw_only=True):
    """A plan file that is no plan, and why."""

    name: str
    file: Path
    complaint: str


class StoredPlans(Struct, frozen=True, kw_only=True):
    """The plans of a folder as cases; `elsewhere` names those that are performed on another protocol than they name."""

    cases: tuple[Case, ...]
    unread: tuple[Unread, ...] = ()
    elsewhere: tuple[str, ...] = ()


def load_corpus(folder: Path) -> tuple[Case, ...]:
    """Read all cases of the regression corpus in a folder, ordered by file name.

    UsageError with file and line if an entry is malformed.
    """
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise UsageError(f"{folder}: no corpus entry (*.yaml); run this in a checkout of highwater, or name its corpus/seeds")
    return tuple(case for path in paths for case in load_entry(path))


def load_entry(path: Path) -> tuple[Case, ...]:
    """Read the cases of one file of the regression corpus."""
    try:
        document = Document(path.read_text(encoding="utf-8"), str(path))
        entry = document.convert(Entry, document.value)
        if (entry.plan is None) == (entry.seed is None):
            raise document.error((), "a corpus entry must have exactly one of plan and seed")
        if (entry.seed is None) != (entry.derivation is None):
            raise document.error((), "a corpus entry with a seed must have its derivation, and no other may")
        if entry.derivation is not None:
            check_derivation(entry.derivation)
        for number, expectation in enumerate(entry.expect):
            if bool(expectation.protocol) == bool(expectation.system):
                raise document.error(("expect", number), "an expectation must have exactly one of protocol and system")
            if expectation.system and entry.plan is None:
                raise document.error(("expect", number), "an expectation of a system needs a plan, not a seed")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except TextError as error:
        raise UsageError(str(error)) from error
    return tuple(_cases_of_entry(entry, path))


def load_plans(folder: Path, entries: Sequence[Case]) -> tuple[Case, ...]:
    """As `read_plans`, on `safe`. UsageError with file and line if a plan is malformed."""
    stored = read_plans(folder, entries, protocol=SAFE)
    if stored.unread:
        raise UsageError(stored.unread[0].complaint)
    return stored.cases


def read_plans(folder: Path, entries: Sequence[Case], *, protocol: str) -> StoredPlans:
    """The plans in a folder and its subfolders, on one protocol or on `OWN`, without those that an entry performs on `safe`.

    Each must be VALID and live, on `safe` also the plans written to break a known-bad protocol: no mistake may hide behind them.
    UsageError if there is no plan.
    """
    files_of_entries = {case.file.resolve() for case in entries if case.file is not None and case.expectation.protocol == SAFE}
    paths = sorted(folder.rglob("*.yaml"))
    if not paths:
        raise UsageError(f"{folder}: no plan (*.yaml); run this in a checkout of highwater, or name its corpus/plans")
    cases, unread, elsewhere = [], [], []
    for path in paths:
        if path.resolve() in files_of_entries:
            continue
        name = _name(path, folder)
        try:
            named = load_plan(path).protocol
            expectation = Expectation(protocol=named if protocol == OWN else protocol, verdict="VALID", live=True)
            cases.append(_case_of_plan(name, expectation, path, as_it_is=protocol == OWN))
        except (UsageError, TextError) as error:
            unread.append(Unread(name=name, file=path, complaint=str(error)))
        else:
            if protocol not in (OWN, named):
                elsewhere.append(name)
    return StoredPlans(cases=tuple(cases), unread=tuple(unread), elsewhere=tuple(elsewhere))


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def load_plans_on(request: Request, folder: Path, entries: Sequence[Case]) -> tuple[Case, ...]:
    """The plans in a folder and its subfolders on another system than the reference, without those that have an entry.

    Each must be VALID and live: what a system is known to lose is an entry.
    """
    files_of_entries = {case.file.resolve() for case in entries if case.file is not None}
    expectation = Expectation(system=request.spec.name, verdict="VALID", live=True)
    return tuple(
        placed(_case_of_plan(_name(path, folder), expectation, path), request)
        for path in sorted(folder.rglob("*.yaml"))
        if path.resolve() not in files_of_entries
    )


def placed(case: Case, request: Request) -> Case:
    """The case of a plan file on the system, and with the clients, of the request."""
    from highwater.backends.real.systems.registry import put_on  # a simulated corpus needs no real backend

    return replace(
        case,
        expectation=replace(case.expectation, system=words_of(request.spec)),
        plan=request.adapted(put_on(case.plan, request.spec)),
        repeat=f"highwater run --plan {case.file}{request.options}",
    )


def _case_of_plan(entry: str, expectation: Expectation, path: Path, *, as_it_is: bool = False) -> Case:
    """The case of a plan file on the protocol or system that is expected to end so; `as_it_is`: on the protocol that it names."""
    plan = load_plan(path)
    if as_it_is:
        repeat = f"highwater run --plan {path}"
    elif expectation.system:
        plan = checked(on_system(plan, parsed_system(expectation.system)))
        repeat = f"highwater run --plan {path} --system {expectation.system}"
    else:
        plan = checked(replace(plan, protocol=expectation.protocol, variant=None))
        repeat = f"highwater run --plan {path} --protocol {expectation.protocol}"
    return Case(entry=entry, expectation=expectation, plan=plan, repeat=repeat, file=path)


def _cases_of_entry(entry: Entry, path: Path) -> Iterator[Case]:
    """The cases of an entry: one for each expectation."""
    for expectation in entry.expect:
        protocol = expectation.protocol
        if entry.plan is not None:
            yield _case_of_plan(entry.name, expectation, Path(normpath(path.parent / entry.plan)))
        else:
            assert entry.seed is not None
            plan = derive(entry.seed, protocol=protocol, faults=entry.faults, seconds=entry.seconds)
            repeat = f"highwater run --seed {entry.seed} --derivation {DERIVATION} --workload {PLAIN} --protocol {protocol}"
            repeat += f" --faults {','.join(entry.faults)}" if entry.faults else ""
            repeat += f" --seconds {entry.seconds}" if entry.seconds is not None else ""
            yield Case(entry=entry.name, expectation=expectation, plan=checked(plan), repeat=repeat)


def check_new_entry(folder: Path, name: str) -> None:
    """UsageError if no entry of this name can be added to the corpus in a folder, which has seeds/ and plans/."""
    refusal = name_complaint(name)
    if refusal is not None:
        raise UsageError(f"corpus entry {refusal}")
    for path in _files_of(folder, name):
        if not path.parent.is_dir():
            raise UsageError(f"{path.parent}: no such folder; name the corpus of a checkout of highwater")
        if path.exists():
            raise UsageError(f"{path} exists; choose another name")


def add_entry(folder: Path, name: str, plan: Plan, *, story: str, expect: Sequence[Expectation]) -> tuple[Path, Path]:
    """Add a plan with its expected verdicts to the corpus in a folder; returns the files of the entry and of the plan."""
    check_new_entry(folder, name)
    entry, file = _files_of(folder, name)
    write_file(file, plan_to_yaml(replace(plan, name=name)))
    content = Entry(name=name, story=story, plan=f"../plans/{name}.yaml", expect=tuple(expect))
    lines = "".join(f"- {flow(expectation)}\n" for expectation in content.expect)
    write_file(entry, dump({"name": name, "story": story, "plan": content.plan}) + f"expect:\n{lines}")
    return entry, file


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / "seeds" / f"{name}.yaml", folder / "plans" / f"{name}.yaml"


def tasks_of(
    cases: Sequence[Case],
    *,
    build: Build,
    keep: Keep,
    backend: BackendName = "sim",
    branches: bool = False,
    behaviour: bool = False,
    watched: frozenset[str] = frozenset(),
) -> Iterator[Task]:
    """The tasks that make worker processes perform these corpus cases, in the same order."""
    for case in cases:
        repeat = case.repeat + (f" --backend {backend}" if backend != "sim" else "")
        yield Task(
            plan=case.plan,
            repeat=repeat,
            build=build,
            keep=keep,
            backend=backend,
            branches=branches,
            behaviour=behaviour,
            watched=watched if case.plan.protocol == SAFE else frozenset(),
        )


def complaint(case: Case, summary: Summary) -> str | None:
    """Explain in a sentence how the verdict of a run differs from the expected one; None if it does not."""
    expectation = case.expectation
    where = f"{case.entry} on {expectation.subject}"
    if summary.verdict != expectation.verdict:
        return f"{where}: {summary.verdict} instead of {expectation.verdict}{_reason_in_words(summary)}"
    missing = sorted(set(expectation.kinds) - {a.kind for a in summary.anomalies})
    if missing:
        return f"{where}: no {', '.join(missing)} was found"
    if summary.vacuous:
        return f"{where}: vacuous, the hazard {case.plan.hazard} was not met"
    if expectation.live is not None and summary.live is not expectation.live:
        return f"{where}: {summary.words} instead of {'live' if expectation.live else 'not live'}{_reason_in_words(summary)}"
    return None


def _reason_in_words(summary: Summary) -> str:
    """The worst reason in a sentence, and the kinds of the other anomalies."""
    kinds = list(dict.fromkeys(anomaly.kind for anomaly in summary.anomalies))
    others = kinds if summary.crash is not None else kinds[1:]
    return f": {summary.reasons[0] if summary.reasons else ''}" + (f"; also {', '.join(others)}" if others else "")


def exit_code(case: Case, summary: Summary) -> ExitCode:
    """The exit code of a corpus case: VALID if the run got the expected verdict.

    A known-bad protocol without its anomaly is a failure of the harness: its checkers missed a
    bug.
    """
    if complaint(case, summary) is None:
        return ExitCode.VALID
    if case.expectation.verdict == "INVALID":
        return ExitCode.LABORATORY_FAILED
    return summary.exit_code if summary.exit_code is not ExitCode.VALID else ExitCode.LABORATORY_FAILED
