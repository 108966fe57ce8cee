"""The register of evidence: edits that break the code on purpose, each with what must notice it.

`register/*.yaml` holds the rows; each begins with its id and what it says. A clause of a document (`R-024.1`) names the tests
that fail under its edit. A mistake that a reader made up (`H-04`, in `by-hand.yaml`) names the plan that is not VALID and live
under it. A mutant that was drawn (`M-007`, in `drawn.yaml`) is measured against the whole gate (mutation/page.py).

    proved      the edit was applied, and each test, or the plan, was red; the same with the second edit, if there is one
    tested      the tests show it, but no edit can break it alone (`only_tested` says why)
    not built   nothing does it (`not_built` says why)
    unproved    the edit was changed, or never applied

`register/proofs.txt` holds a line for each proof: id, digest of the row, digest of the files that the proof is of.
"""

import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from mutation.aims.aim import Aim, AimError, read
from mutation.aims.change import applied, changes, with_changes
from mutation.trees import ROOT
from nemesis.text import Document, TextError

REGISTER = Path(__file__).parent / "register"
PROOFS = REGISTER / "proofs.txt"
DRAWN = "drawn"
BY_HAND = "by-hand"
_WIDTH = 130


class MutationError(Exception):
    """A row cannot be read or applied; the message is one line."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row of the register. `text`: what a clause says, what a user loses by a mistake, or the operator that drew a mutant."""

    id: str
    text: str
    edit: str = ""  # AT OLD => NEW
    second: str = ""  # another edit of the clause, made up by someone who had not seen the first
    tests: tuple[str, ...] = ()
    plan: str = ""  # of corpus/plans
    only_tested: str = ""
    not_built: str = ""
    equivalent: str = ""  # no run can show a difference that matters to a promise
    masked: str = ""  # another guard of the protocol makes up for it in every case
    missing: str = ""  # a workload, a fault or a judge is missing
    gone: str = ""  # why the code of a drawn mutant was redundant: that code is deleted

    @property
    def aim(self) -> Aim:
        """The edit."""
        return read(self.edit)

    @property
    def by_edit(self) -> tuple["Row", ...]:
        """The row with its first edit alone, and with its second one alone if it has one."""
        return (self, replace(self, edit=self.second, second="")) if self.second else (self,)

    @property
    def file(self) -> str:
        """The file that the edit changes; empty without an edit."""
        return self.aim.file if self.edit else ""

    @property
    def statement(self) -> str:
        """The id of the statement of a clause: R-024 for R-024.1."""
        return self.id.partition(".")[0]

    @property
    def module(self) -> str:
        """The module of the protocol that the edit changes, such as `controller`."""
        return self.file.split("/")[1]

    @property
    def digest(self) -> str:
        """Identifies the edits and what must notice them."""
        first, *others = (row.aim for row in self.by_edit)
        return _digest(msgspec.json.encode((first, self.tests, self.plan, *others)))

    def applied_to(self, text: str) -> str:
        """The file's text with the edit. Raises MutationError if it does not fit."""
        try:
            return applied(self.aim, text)
        except AimError as error:
            raise MutationError(f"{self.id}: {error}") from error


def texts_with(rows: Iterable[Row]) -> dict[str, str]:
    """The text of each edited file with the edits of all rows. Raises MutationError where one edit is in the way of another."""
    rows_by_text: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_text.setdefault(row.file, []).append(row)
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in rows_by_text}
    try:
        return {
            file: with_changes(text, [change for row in rows_by_text[file] for change in changes(row.aim, text)])
            for file, text in texts.items()
        }
    except AimError as error:
        raise MutationError(str(error)) from error


@cache
def rows(name: str = "*") -> tuple[Row, ...]:
    """The rows of a file of the register, or of all. Raises MutationError with file and line if one is malformed."""
    return tuple(row for path in sorted(REGISTER.glob(f"{name}.yaml")) for row in load(path))


@cache
def clauses() -> tuple[Row, ...]:
    """The clauses of all documents, in the order of their ids."""
    rows_of_clauses = [row for row in rows() if row.id.startswith("R-")]
    return tuple(sorted(rows_of_clauses, key=lambda row: [int(number) for number in row.id.removeprefix("R-").split(".")]))


def drawn() -> tuple[Row, ...]:
    """The drawn mutants whose code is there, the reserve last."""
    return tuple(row for row in rows(DRAWN) if not row.gone)


def load(path: Path) -> tuple[Row, ...]:
    """The rows of a file."""
    try:
        document = Document(path.read_text(encoding="utf-8"), path.name)
        raw = document.convert(list[dict[str, object]], document.value)
        loaded = []
        for n, values in enumerate(raw):
            (id_, text), *others = values.items()
            loaded.append(document.convert(Row, {"id": id_, "text": text, **dict(others)}, (n,)))
            if loaded[-1].edit:
                _ = loaded[-1].digest
            elif loaded[-1].second:
                raise MutationError(f"{path.name}:{document.line((n,))}: a second edit without a first one")
        return tuple(loaded)
    except (OSError, TextError) as error:
        raise MutationError(str(error)) from error
    except AimError as error:
        raise MutationError(f"{path.name}:{document.line((n,))}: {error}") from error


def store(path: Path, rows_to_store: Sequence[Row]) -> None:
    """Replace the rows of a file; the comment at its head stays."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    head = "".join(lines[: next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))])
    path.write_text(head + "".join(map(written, rows_to_store)), encoding="utf-8")
    rows.cache_clear()
    clauses.cache_clear()


def written(row: Row) -> str:
    """A row as YAML, in as few lines as it needs."""
    fields = {row.id: row.text, **{name: getattr(row, name) for name in row.__struct_fields__[2:] if getattr(row, name)}}
    text = "\n".join(_yaml_field(name, value) for name, value in fields.items())
    return f"- {textwrap.indent(text, '  ')[2:]}\n"


def _yaml_field(name: str, value: str | tuple[str, ...]) -> str:
    """A field of a row as YAML, folded if it then reads back the same."""
    words = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    content = {name: list(value) if isinstance(value, tuple) else value}
    for scalar in (words, "'" + words.replace("'", "''") + "'"):
        folded = "\n".join(
            textwrap.wrap(f"{name}: {scalar}", _WIDTH - 2, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
        try:
            if yaml.safe_load(folded) == content:
                return folded
        except yaml.YAMLError:
            continue
    return f"{name}: |-\n{textwrap.indent(words, '  ')}"


# --- proofs -------------------------------------------------------------------------------------------------------------------


class Proof(Struct, frozen=True):
    """A row that was proved: digests of the row, and of the files that the proof is of."""

    row: str
    sources: str


def proofs() -> dict[str, Proof]:
    """The stored proofs by row."""
    lines = map(str.split, PROOFS.read_text(encoding="utf-8").splitlines())
    return {id_: Proof(row, sources) for id_, row, sources in lines}


def store_proofs(new_proofs: dict[str, Proof]) -> None:
    """Replace the stored proofs."""
    PROOFS.write_text("".join(f"{id_} {p.row} {p.sources}\n" for id_, p in sorted(new_proofs.items())), encoding="utf-8")


def present_proof(row: Row) -> Proof:
    """The proof of a row as it would be stored now: its file and those of its tests and plan are as they are."""
    files = sorted(
        {
            *(edited.file for edited in row.by_edit),
            *(test.partition("::")[0] for test in row.tests),
            *([plan_of(row)] if row.plan else []),
        }
    )
    return Proof(row.digest, _digest("".join(map(_digest_of, files)).encode()))


def plan_of(row: Row) -> str:
    """The path of a row's plan within the repository."""
    return f"corpus/plans/{row.plan}.yaml"


@cache
def _digest_of(name: str) -> str:
    path = ROOT / name
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:12]


def status(row: Row, stored: dict[str, Proof]) -> str:
    """The status of a clause, with the reason for one that is not proved."""
    if row.not_built:
        return f"not built: {row.not_built}"
    if row.only_tested:
        return f"tested: {row.only_tested}"
    proof = stored.get(row.id)
    return "proved" if proof is not None and proof.row == row.digest else "unproved"
