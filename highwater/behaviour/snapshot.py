"""The snapshot: what each plan of the gate did when its behaviour was accepted, as one text file.

    # in 3 of 161 plans: …                        the summary of what was accepted last; nothing reads it
    plan corpus/jepsen-2013 5c0d…                 phase and name, digest of the plan
    rows 408 9b1c…                                how many rows, the digest of their rules and words in order
    times 77ab…                                   the digest of their times
       12 a assigned                              how many rows of a rule, and the letter of the rule in the lines below
    = aX3f bQ0d …                                 each row in order: its rule's letter and three letters of its digest
    end 1f2e…                                     the digest of all lines above but the summary

Three letters are enough to find the row that differs first, because the whole digest says that one does. The words of a row are
not kept: those of the present run are at hand, and of the earlier one its rule is told.
"""

import string
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from highwater.behaviour.rows import Row
from highwater.errors import UsageError
from history.store import write_file

PLACE = Path("corpus/behaviour.txt")
_LETTERS = string.ascii_letters + string.digits + "!$%&*+,-./:;<>?@^_~|()[]{}"
_MARK = 3  # letters of a row's digest
_IN_LINE = 30
AGAIN = "write it again with highwater chaos --accept"


class Mark(Struct, frozen=True, array_like=True):
    """A row of a stored behaviour: its rule, and three letters of the digest of its words."""

    rule: str
    digest: str


class Recorded(Struct, frozen=True, array_like=True):
    """The stored behaviour of one plan. `content` covers all words in order, `times` when the rows were."""

    plan_digest: str
    content: str
    times: str
    marks: tuple[Mark, ...]


def recorded(plan_digest: str, rows: Sequence[Row]) -> Recorded:
    """The behaviour of a run as it is stored."""
    return Recorded(
        plan_digest,
        _digest(f"{row.rule}\t{row.words}" for row in rows),
        _digest(str(row.time_ns) for row in rows),
        tuple(map(mark, rows)),
    )


def mark(row: Row) -> Mark:
    """The stored form of one row."""
    digest = blake2b(f"{row.rule}\t{row.words}".encode(), digest_size=_MARK).digest()
    return Mark(row.rule, b64encode(digest).decode()[:_MARK])


def load(path: Path) -> dict[str, Recorded]:
    """Read a snapshot. UsageError if it is missing or damaged."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UsageError(f"{path}: no snapshot of the behaviour; {AGAIN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the snapshot cannot be read ({error}); {AGAIN}") from None
    body = [line for line in lines if not line.startswith("#")]
    if not body or body[-1] != f"end {_digest(body[:-1])}":
        raise UsageError(f"{path}: the snapshot is damaged, its last line is not the digest of the others; {AGAIN}")
    return dict(_plans(body[:-1]))


def save(path: Path, plans: Mapping[str, Recorded], summary: Iterable[str]) -> None:
    """Write a snapshot atomically, its plans sorted by name."""
    body = [line for name in sorted(plans) for line in _lines(name, plans[name])]
    lines = [*(f"# {line}".rstrip() for line in summary), *body, f"end {_digest(body)}"]
    write_file(path, "".join(f"{line}\n" for line in lines))


def _lines(name: str, plan: Recorded) -> Iterator[str]:
    """The lines of one plan in the snapshot: digests, the number of rows of each rule, and a mark for each row."""
    yield f"plan {name} {plan.plan_digest}"
    yield f"rows {len(plan.marks)} {plan.content}"
    yield f"times {plan.times}"
    counts = Counter(mark.rule for mark in plan.marks)
    letters = dict(zip(sorted(counts), _LETTERS, strict=False))
    assert len(letters) == len(counts), f"a behaviour has {len(counts)} rules; more than {len(_LETTERS)} have no letter"
    for rule, letter in letters.items():
        yield f"{counts[rule]:5} {letter} {rule}"
    marks = [letters[mark.rule] + mark.digest for mark in plan.marks]
    for first in range(0, len(marks), _IN_LINE):
        yield "= " + " ".join(marks[first : first + _IN_LINE])


def _plans(lines: Sequence[str]) -> Iterator[tuple[str, Recorded]]:
    """The plans of a snapshot whose digest was checked."""
    starts = [number for number, line in enumerate(lines) if line.startswith("plan ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        _, name, plan_digest = lines[start].split(" ")
        content, times = lines[start + 1].split(" ")[2], lines[start + 2].split(" ")[1]
        rest = lines[start + 3 : end]
        rules = {letter: rule for _, letter, rule in (line.split(None, 2) for line in rest if not line.startswith("= "))}
        marks = (word for line in rest if line.startswith("= ") for word in line[2:].split(" "))
        yield name, Recorded(plan_digest, content, times, tuple(Mark(rules[word[0]], word[1:]) for word in marks))


def _digest(words: Iterable[str]) -> str:
    return blake2b("\n".join(words).encode(), digest_size=8).hexdigest()
