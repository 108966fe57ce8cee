"""Finds citations of pages, sections, rules and steps that do not exist.

It checks paths under docs/, other names of Markdown files, sections (`docs/promise.md §6`), decision records (`decisions/0016`,
`decision 16`), ids of the catalogue (R-057, C-07, U-11, B-42), rules of the promise (DUR-3, `VIS-1 to VIS-3`) and steps of V3
(`V3 §A step 3.3`). It reads the docstrings and comments of a Python file, and the whole text of other files.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from highwater.catalogue import trace
from tests.tidy.promise import rule_names, rules_now
from tests.tidy.protocol import STEPS, citations
from tests.tidy.sources import ROOT

READ = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".j2", ".sh", ".Dockerfile", ".cfg"}
READ_BY_NAME = {"Makefile"}
DATA = ("corpus/histories/",)  # recorded evidence: its texts are values, not citations
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/.-]*\w")
_MARKDOWN = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*([\w-]+\.md)\b")
_SECTIONS = re.compile(r"(docs/[\w/.-]+\.md)((?:(?:,|,? and)? §[\d.]*\d)+)")
_DECISION = re.compile(r"\bdecisions?[ /](\d+)\b")
_ID = re.compile(r"\b(?:R-\d{3}|[CUB]-\d{2})\b")
_V3_SECTION = re.compile(r"\bV3 §(\w+)")
_RULE_OF_A_PAGE = re.compile(r"\b([A-Z]{4,}), rule \d+")


def lead_nowhere(text: str) -> list[str]:
    """The citations in a text whose page, section, id, rule or step does not exist."""
    return sorted({*_pages(text), *_sections(text), *_ids(text), *_steps(text)})


def _pages(text: str) -> Iterator[str]:
    for path in _PAGE.findall(text):
        # A page may be cited without its suffix, a decision record by its number.
        if not (ROOT / path).exists() and not [*ROOT.glob(f"{path}.md"), *ROOT.glob(f"{path}-*.md")]:
            yield path
    for match in _MARKDOWN.finditer(text):
        if match[1] not in _markdown_files():
            yield match[0]
    for number in _DECISION.findall(text):
        if not list((ROOT / "docs" / "decisions").glob(f"{int(number):04}-*.md")):
            yield f"decision {number}"
    for page in _RULE_OF_A_PAGE.findall(text):
        if f"{page}.md" not in _markdown_files():
            yield page


def _sections(text: str) -> Iterator[str]:
    for page, repository_files in _SECTIONS.findall(text):
        for number in re.findall(r"\d[\d.]*", repository_files):
            if number not in _headings(page):
                yield f"{page} §{number}"


def _ids(text: str) -> Iterator[str]:
    yield from (id_ for id_ in _ID.findall(text) if id_ not in _known_ids())
    yield from (name for name in rule_names(text) if name not in rules_now())


def _steps(text: str) -> Iterator[str]:
    yield from (f"V3 §{letter}" for letter in _V3_SECTION.findall(text) if not any(s.startswith(f"V3 §{letter} ") for s in STEPS))
    yield from (cited for cited in citations(text) if not any(step == cited or step.startswith(f"{cited} ") for step in STEPS))


@cache
def _known_ids() -> frozenset[str]:
    return frozenset(row.id for row in trace.rows(trace.Cited({}, {})))


@cache
def _markdown_files() -> frozenset[str]:
    return frozenset(Path(name).name for name in repository_files() if name.endswith(".md"))


@cache
def _headings(page: str) -> frozenset[str]:
    """The numbers of a page's headings: `## 6. Liveness` is 6, `### 7.1 Models` is 7.1."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", text, flags=re.MULTILINE))


@cache
def repository_files() -> tuple[str, ...]:
    """The paths of all files of the repository, without those that git ignores."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    process = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(name for name in process.stdout.splitlines() if (ROOT / name).is_file())


def texts() -> Iterator[tuple[str, str]]:
    """Path and citing text of each file that is checked."""
    for name in repository_files():
        path = ROOT / name
        if name.startswith(DATA) or (path.suffix not in READ and path.name not in READ_BY_NAME):
            continue
        text = path.read_text(encoding="utf-8")
        yield name, words_of(text) if path.suffix == ".py" else text


def words_of(python: str) -> str:
    """The docstrings and comments of a Python file."""
    nodes = ast.walk(ast.parse(python))
    documented = (n for n in nodes if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))
    docstrings = [ast.get_docstring(node) or "" for node in documented]
    tokens = tokenize.generate_tokens(io.StringIO(python).readline)
    return "\n".join(docstrings + [token.string for token in tokens if token.type == tokenize.COMMENT])
