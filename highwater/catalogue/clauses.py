"""Clauses of the statements of the documents, each with a mutation that breaks it, and which mutations were seen to be caught.

`clauses/*.yaml` has a list of clauses for each document. `R-024.1` is a clause of R-024. `python -m tests.clauses` applies each
mutation to a copy of the tree, sees the clause's tests fail, and stores that in `proofs.json`. A clause is

    proved      its mutation was applied and each of its tests failed
    tested      its tests show it, but no mutation can break it alone (`only_tested` says why)
    not built   nothing does it (`not_built` says why)
    unproved    its mutation was changed or never applied
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from nemesis.text import Document

HERE = Path(__file__).parent
FOLDER = HERE / "clauses"
PROOFS = HERE / "proofs.json"


class Clause(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A clause, and a mutation that breaks it and turns each of `tests` red: `old` becomes `new` in `file`.

    `old` occurs in the file exactly once, and is code, neither docstring nor comment. A clause without a mutation has a reason.
    """

    id: str
    text: str
    file: str = ""
    old: str = ""
    new: str = ""
    tests: tuple[str, ...] = ()
    only_tested: str = ""
    not_built: str = ""

    @property
    def statement(self) -> str:
        """The id of its statement: R-024 for R-024.1."""
        return self.id.partition(".")[0]

    @property
    def mutant(self) -> str:
        """Digest of the mutation and its tests."""
        return sha256(msgspec.json.encode((self.file, self.old, self.new, self.tests))).hexdigest()[:16]


class Proof(Struct, frozen=True):
    """A clause that was proved: digests of its mutation, and of the texts of its file and its tests at that time."""

    mutant: str
    sources: str


@cache
def clauses() -> tuple[Clause, ...]:
    """The clauses of all documents, in the order of their ids. Raises TextError with the line of an invalid row."""
    found: list[Clause] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        document = Document(path.read_text(encoding="utf-8"), path.name)
        found += document.convert(tuple[Clause, ...], document.value)
    return tuple(sorted(found, key=lambda row: [int(number) for number in row.id.removeprefix("R-").split(".")]))


@cache
def proofs() -> dict[str, Proof]:
    """The stored proofs by clause."""
    return msgspec.json.decode(PROOFS.read_bytes(), type=dict[str, Proof])


def store(found: dict[str, Proof]) -> None:
    """Replace the stored proofs."""
    PROOFS.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(found.items()))), indent=1) + b"\n")
    proofs.cache_clear()


def status(row: Clause) -> str:
    """The status of a clause, with the reason for one that is not proved."""
    if row.not_built:
        return f"not built: {row.not_built}"
    if row.only_tested:
        return f"tested: {row.only_tested}"
    proof = proofs().get(row.id)
    return "proved" if proof is not None and proof.mutant == row.mutant else "unproved"


def clauses_of(statement: str) -> tuple[Clause, ...]:
    """The clauses of a statement."""
    return tuple(row for row in clauses() if row.statement == statement)
