"""The table of docs/protocol.md: each step of V3, the functions that cite it, the tests that cite it.

`python -m tests.tidy.protocol --rewrite` writes the table into the document, below its marker.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "protocol.md"
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
    found = []
    for section, procedure, first, last, second in _CITATION.findall(text):
        base = f"V3 §{section}" + (f" {procedure}" if procedure else "")
        if not first:
            found += [base] if procedure else []
            continue
        numbers = [str(n) for n in range(int(first), int(last) + 1)] if last else [first]
        found += [f"{base} step {n}" for n in [*numbers, *([second] if second else [])]]
    return found


def _functions(path: Path) -> Iterator[tuple[str, str]]:
    """Name and source of each function; what a module's docstring says belongs to the module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, "\n".join(lines[node.lineno - 1 : node.end_lineno])


def cited_in(folder: str) -> dict[str, list[str]]:
    """Step -> places that cite it: `package/module.function`."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for name, source in _functions(path):
            place = f"{path.relative_to(ROOT).with_suffix('').as_posix()}" + (f".{name}" if name else "")
            for step in citations(source):
                if place not in found.setdefault(step, []):
                    found[step].append(place)
    return found


def table() -> str:
    """The rows of docs/protocol.md."""
    code, tests = cited_in("reference"), cited_in("tests/reference")
    rows = ["| step | what it says | where | test |", "|---|---|---|---|"]
    for step, words in STEPS.items():
        where = ", ".join(f"`{place.removeprefix('reference/')}`" for place in code.get(step, []) if "." in place)
        test = ", ".join(f"`{place.rpartition('.')[2]}`" for place in tests.get(step, []) if "." in place)
        rows.append(f"| {step.removeprefix('V3 ')} | {words} | {where} | {test} |")
    return "\n".join(rows) + "\n"


def document() -> str:
    """The document with its table made anew."""
    head, _, _ = DOCUMENT.read_text(encoding="utf-8").partition(MARKER)
    return head + MARKER + table()


if __name__ == "__main__" and "--rewrite" in sys.argv:
    DOCUMENT.write_text(document(), encoding="utf-8")
