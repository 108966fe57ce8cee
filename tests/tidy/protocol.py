"""Gathers what code and tests cite: for the tables of docs/protocol.md and docs/requirements.md, and for `highwater protocol`.

`python -m tests.tidy.protocol --rewrite` writes the tables into the documents, below their marker, the citations and the clauses
of mutation/register into highwater/catalogue/trace.json, and the rules of docs/promise.md into highwater/catalogue/promise.json.
It removes from tests/tidy/missing.txt the ids that are no longer missing.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from highwater.catalogue import trace
from highwater.catalogue.mutants import load_mutants
from highwater.catalogue.trace import Cited, Clause, Row
from history.packages import PACKAGES
from mutation.rows import clauses, proofs, status
from tests.tidy import steps as step_tables
from tests.tidy.promise import cited_rules, rules_now
from tests.tidy.sources import Source, sources

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "protocol.md"
REQUIREMENTS = ROOT / "docs" / "requirements.md"
MISSING = Path(__file__).with_name("missing.txt")
MARKER = "<!-- generated: python -m tests.tidy.protocol --rewrite -->\n"

# Every step of the sections that are implemented, as V3 numbers it; a procedure's name stands where V3 gives no number.
STEPS = {
    "V3 §A step 1": "get the current live brokers from BrokerPath",
    "V3 §A step 2": "determine set_p: leader no longer live, or ISR will change",
    "V3 §A step 3": "for each partition in set_p",
    "V3 §A step 3.1": "read the current ISR from the LeaderAndISR path",
    "V3 §A step 3.2": "determine the new leader and the new ISR",
    "V3 §A step 3.3": "write leader, ISR and epoch + 1, conditionally",
    "V3 §A step 4": "send a LeaderAndISRCommand to the affected brokers",
    "V3 §B step 1": "a new topic: read its replica assignment",
    "V3 §B step 1.1": "call init_leaders() on the new partitions",
    "V3 §B step 2": "a deleted topic: StopReplicaCommand to all affected brokers",
    "V3 §B init_leaders step 1.1": "a live broker of AR leads, all live brokers of AR are the ISR",
    "V3 §B init_leaders step 1.2": "write leader and ISR",
    "V3 §C step 2.0": "an unknown partition: startReplica()",
    "V3 §C step 2.1": "asked to lead, and not the leader already",
    "V3 §C step 2.1.1": "becomeLeader()",
    "V3 §C step 2.2": "asked to follow L, and not following L already",
    "V3 §C step 2.2.1": "becomeFollower()",
    "V3 §C step 3": "flag INIT: delete all local partitions not in set_p",
    "V3 §C becomeLeader": "stop the fetcher; take ISR and version; lead",
    "V3 §C becomeFollower": "stop serving; truncate to r.hw; fetch from r.leo",
    "V3 §C startReplica": "create the directory; start the HW checkpoint",
    "V3 §C stopReplica": "stop fetcher and checkpoint; delete the directory",
    "V3 §C on_StopReplicaCommand": "stopReplica() for each partition",
    "V3 §D step 1": "create /controller",
    "V3 §D step 2": "if not successful, return",
    "V3 §D step 3": "read the LeaderAndISR path of each partition",
    "V3 §D step 4": "send LeaderAndISR with INIT for each partition",
    "V3 §D step 5": "call on_broker_change()",
    "V3 §D step 6": "init_leaders() for partitions without a leader",
    "V3 §D step 7": "call on_partitions_reassigned()",
    "V3 §D step 8": "call on_partitions_add()",
    "V3 §D step 9": "call on_partitions_remove()",
    "V3 §E step 1": "read the replica assignment of all topics",
    "V3 §E step 2": "read leader and ISR of the own partitions",
    "V3 §E step 3.1": "start replica",
    "V3 §E step 3.2": "become leader, if leader",
    "V3 §E step 3.3": "become follower, if follower",
    "V3 §E step 4": "delete local partitions no longer assigned",
    "V3 §F step 1": "get the set of reassigned partitions (set_p) from its path",
    "V3 §F step 1.1.2": "wake up the reassignment agent",
    "V3 §F step 2.1": "INIT: issue LeaderAndISR to the brokers in RAR",
    "V3 §F step 2.2": "mark the partition as in IN_PROGRESS state",
    "V3 §F step 3.1": "IN_PROGRESS: read the ISR",
    "V3 §F step 3.2": "if ISR == AR + RAR",
    "V3 §F step 3.2.1": "get a controller lock",
    "V3 §F step 3.2.2": "conditionally update the ISR; from 3.1 again where the version has moved",
    "V3 §F step 3.2.3": "send a LeaderAndISR command to inform the leader of the new ISR",
    "V3 §F step 3.2.4": "send a StopReplica command to the brokers in AR that are not in RAR",
    "V3 §F step 3.2.5": "update the topic path to change AR to RAR",
    "V3 §F step 3.2.6": "delete the reassignment path",
    "V3 §F step 3.2.7": "release the controller lock",
    "V3 §F on_wakeup": "for each partition in reassigned_partition_map",
    "V3 §G on_ReplicaFetchRequest": "record leo, change the ISR, advance the HW, acknowledge, answer",
    "V3 §G maybe_change_ISR": "shrink and expand, by a conditional write",
    "V3 §G run": "the follower: fetch, append, r.hw = response.hw",
    "V3 §H on_partitions_add step 1": "determine the set of partitions to be added",
    "V3 §H on_partitions_add step 2": "call init_leaders(set_p)",
    "V3 §H on_partitions_add step 3": "delete the PartitionAdd path",
    "V3 §H on_partitions_add step 4": "update the topic path with the added partitions",
    "V3 §H on_partitions_remove step 1": "determine the set of partitions to be deleted",
    "V3 §H on_partitions_remove step 2": "send a StopReplicaCommand for each to the affected brokers",
    "V3 §H on_partitions_remove step 3": "delete the PartitionRemove path",
    "V3 §H on_partitions_remove step 4": "update the topic path with the removed partitions",
}
_PROCEDURES = sorted({name.split()[2] for name in STEPS if name.split()[2] != "step"})
_CITATION = re.compile(
    rf"V3 §([A-H])(?: ({'|'.join(_PROCEDURES)})\b(?:\(\))?)?(?: steps? (\d+(?:\.\d+)*)(?:(?: to | and )(\d+))?)?"
    rf"(?:, step (\d+(?:\.\d+)*))?"
)


def citations(text: str) -> list[str]:
    """The steps that a text cites, in order."""
    violations = []
    for section, procedure, first, last, second in _CITATION.findall(text):
        base = f"V3 §{section}" + (f" {procedure}" if procedure else "")
        if not first:
            violations += [base] if procedure else []
            continue
        numbers = [str(n) for n in range(int(first), int(last) + 1)] if last else [first]
        violations += [f"{base} step {n}" for n in [*numbers, *([second] if second else [])]]
    return violations


_STATUS = ("proved", "tested", "not built", "unproved")
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_ID = re.compile(r"\b(R-\d{3}|[CUB]-\d{2})\b")


def _places(source: Source) -> Iterator[tuple[str, str]]:
    """Name, docstring and comments of each class and function of a file, without nested ones; "" is the module itself.

    A string that is no docstring cites nothing: a test whose data name R-001 does not test it.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    yield "", ast.get_docstring(source.tree) or ""
    yield from _citations_within(source.tree, "", comments)


def _citations_within(node: ast.AST, prefix: str, comments: dict[int, str]) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _NAMED):
            name = f"{prefix}{child.name}"
            nested = [inner for inner in ast.iter_child_nodes(child) if isinstance(inner, _NAMED)]
            own = {*_lines(child)}.difference(*(_lines(inner) for inner in nested))
            yield name, "\n".join([ast.get_docstring(child) or "", *(comments[n] for n in sorted(own & comments.keys()))])
            yield from _citations_within(child, f"{name}.", comments)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def cited_in(*folders: str, by: Callable[[str], list[str]] = citations) -> dict[str, list[str]]:
    """Citation -> the places that hold it, as `package/module.function`."""
    found: dict[str, list[str]] = {}
    for source in sources(*folders):
        for name, text in _places(source):
            place = source.name.removesuffix(".py") + (f".{name}" if name else "")
            for cited in by(text):
                if place not in found.setdefault(cited, []):
                    found[cited].append(place)
    return found


def _ids(text: str) -> list[str]:
    """The ids that a text cites, and the ids of the statements whose steps it cites."""
    found = set(_ID.findall(text))
    steps = set(citations(text))
    return sorted(found | {id_ for id_, names_found in trace.requirements().steps.items() if steps & set(names_found)})


@cache
def gathered() -> Cited:
    """The citations of each id: code by function or class, tests by name, mutants by variant, corpus entries by name."""
    rules = rules_now()
    by_rule = partial(cited_rules, known=rules)
    code = {id_: tuple(p for p in places if "." in p) for id_, places in cited_in(*PACKAGES, by=_ids).items()}
    code |= {name: tuple(places) for name, places in cited_in(*PACKAGES, by=by_rule).items() if name in rules}
    tests = {
        id_: [place.removeprefix("tests/") for place in places if place.rpartition(".")[2].startswith("test_")]
        for id_, places in cited_in("tests", by=_ids).items()
    }
    tests |= {
        name: [place.removeprefix("tests/") for place in places if "test_" in place and not place.startswith("tests/tidy/")]
        for name, places in cited_in("tests", by=by_rule).items()
        if name in rules
    }
    caught = {row.protocol for row in load_mutants(ROOT / "corpus" / "mutants.yaml").caught}
    for id_, bug in trace.bugs().items():
        tests[id_] = tests.get(id_, []) + [f"mutant {name}" for name in bug.variants if name in caught]
    for entry in sorted((ROOT / "corpus" / "seeds").glob("*.yaml")):
        text = entry.read_text(encoding="utf-8")
        for id_ in [*_ID.findall(text), *by_rule(text)]:
            tests[id_] = [*tests.get(id_, []), f"corpus {entry.stem}"]
    return Cited(
        {id_: code[id_] for id_ in sorted(code) if code[id_]},
        {id_: tuple(tests[id_]) for id_ in sorted(tests) if tests[id_]},
        _clauses(),
    )


def _clauses() -> dict[str, tuple[Clause, ...]]:
    """The clauses of each statement, as mutation/register has them."""
    stored = proofs()
    clauses_found: dict[str, tuple[Clause, ...]] = {}
    for row in clauses():
        clause = Clause(id=row.id, text=row.text, file=row.file, tests=row.tests, status=status(row, stored))
        clauses_found[row.statement] = (*clauses_found.get(row.statement, ()), clause)
    return clauses_found


def _cells(places: tuple[str, ...]) -> str:
    return ", ".join(f"`{place.removeprefix('reference/').rpartition('/')[2]}`" for place in places)


def steps() -> str:
    """The table of the steps of V3, for docs/protocol.md."""
    code, tests = cited_in("reference"), cited_in("tests/reference")
    table = ["| step | what it says | where | test |", "|---|---|---|---|"]
    for step, words in STEPS.items():
        places = ", ".join(f"`{place.removeprefix('reference/')}`" for place in code.get(step, []) if "." in place)
        test = ", ".join(f"`{place.rpartition('.')[2]}`" for place in tests.get(step, []) if "." in place)
        table.append(f"| {step.removeprefix('V3 ')} | {words} | {places} | {test} |")
    return "\n".join(table) + "\n"


def catalogue(rows: tuple[Row, ...]) -> str:
    """The table of known mistakes, for docs/protocol.md."""
    table = ["| bug | what went wrong | switch | variants | shown by | status |", "|---|---|---|---|---|---|"]
    for row in trace.chosen(rows, "B"):
        bug = trace.bugs()[row.id]
        switches, variants = (", ".join(f"`{name}`" for name in names) for names in (bug.switches, bug.variants))
        tests = ", ".join(f"`{test.rpartition('.')[2]}`" for test in row.tests)
        table.append(f"| {row.id} | {row.text} | {switches} | {variants} | {tests} | {row.status} |")
    return "\n".join(table) + "\n"


def _statements(rows: tuple[Row, ...]) -> str:
    table = ["| id | what it says | code | tests | status |", "|---|---|---|---|---|"]
    for row in rows:
        tests = ", ".join(f"`{test.rpartition('.')[2]}`" for test in row.tests)
        table.append(f"| {row.id} | {row.text} | {_cells(row.code)} | {tests} | {row.status} |")
        table += [_clause(clause) for clause in row.clauses]
    return "\n".join(table) + "\n"


def _clause(row: Clause) -> str:
    tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in row.tests)
    file = f"`{row.file.removeprefix('reference/')}`" if row.file else ""
    return f"| {row.id} | {row.text} | {file} | {tests} | {row.status} |"


def _points(rows: tuple[Row, ...]) -> str:
    table = ["| id | what it is about | switch | tests | status |", "|---|---|---|---|---|"]
    for row in rows:
        switches = ", ".join(f"`{name}`" for name in trace.requirements().points[row.id].switches)
        tests = ", ".join(f"`{test.rpartition('.')[2]}`" for test in row.tests)
        table.append(f"| {row.id} | {row.text} | {switches} | {tests} | {row.status} |")
    return "\n".join(table) + "\n"


def counts(rows: tuple[Row, ...]) -> str:
    """The line of docs/requirements.md that counts statements and clauses."""
    stated = trace.chosen(rows, "R")
    by_status = Counter(clause.status.partition(":")[0] for row in stated for clause in row.clauses)
    missing = sum(not trace.is_settled(row) for row in stated)
    not_built = sum(row.status.startswith("not built") for row in stated)
    words = f"{len(stated)} statements of the five documents, {not_built} of them not built for a reason; "
    words += f"{by_status.total()} clauses: " + ", ".join(f"{by_status[word]} {word}" for word in _STATUS if by_status[word])
    return words + (f"; {missing} statements missing" if missing else "")


def _below_marker(path: Path, *texts: str) -> str:
    head, _, _ = path.read_text(encoding="utf-8").partition(MARKER)
    return head + MARKER + "".join(texts)


def documents(rows: tuple[Row, ...]) -> dict[Path, str]:
    """Path -> text of each document, with its generated tables up to date."""
    by_document = "".join(
        f"\n## {name}\n\n" + _statements(trace.chosen(rows, name)) for name in trace.requirements().requirements
    )
    points = "\n## Contradictions\n\n" + _points(trace.chosen(rows, "C"))
    points += "\n## Unsafe points\n\n" + _points(trace.chosen(rows, "U"))
    return {
        DOCUMENT: _below_marker(
            DOCUMENT,
            *("\n## Steps of V3\n\n" + steps(), "\n## Steps of the procedures\n\n" + step_tables.document()),
            "\n## Mistakes of history\n\n" + catalogue(rows),
        ),
        REQUIREMENTS: _below_marker(REQUIREMENTS, f"\n{counts(rows)}.\n" + by_document + points),
    }


def missing(rows: tuple[Row, ...]) -> list[str]:
    """The ids whose status is `missing`."""
    return [row.id for row in rows if not trace.is_settled(row)]


def known_missing() -> list[str]:
    """The ids of missing.txt, a list that may only shrink."""
    return MISSING.read_text(encoding="utf-8").split()


def encoded(stored: Cited | dict[str, trace.Rule]) -> bytes:
    """The text of highwater/catalogue/trace.json or promise.json, a line for each id."""
    fields = stored if isinstance(stored, dict) else {name: getattr(stored, name) for name in stored.__struct_fields__}
    return _object(fields, 1 if isinstance(stored, dict) else 2) + b"\n"


def _object(fields: dict[str, Any], depth: int) -> bytes:
    """A JSON object whose fields have a line each, down to a depth."""
    values = {name: _object(value, depth - 1) if depth > 1 else msgspec.json.encode(value) for name, value in fields.items()}
    return b"{\n" + b",\n".join(msgspec.json.encode(name) + b": " + value for name, value in values.items()) + b"\n}"


def rewrite() -> None:
    """Write trace.json, promise.json, the tables and missing.txt from the code, the tests and the pages as they are."""
    trace.PROMISE.write_bytes(encoded(rules_now()))
    trace.promise.cache_clear()
    gathered.cache_clear()
    cited = gathered()
    rows = trace.rows(cited)
    trace.TRACE.write_bytes(encoded(cited))
    for path, text in documents(rows).items():
        path.write_text(text, encoding="utf-8")
    MISSING.write_text("".join(f"{id_}\n" for id_ in known_missing() if id_ in missing(rows)), encoding="utf-8")


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite()
