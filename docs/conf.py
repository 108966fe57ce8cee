"""Settings of Sphinx for the site (`make site`): the documents as they are, and the API of `checkers` and `highwater.testing`."""

import re
from os.path import normpath, relpath
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

from highwater import __version__

project = "highwater"
author = "highwater developers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"highwater {__version__}"
html_copy_source = False

myst_heading_anchors = 4  # links to headings, as GitHub names them
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True  # the default of judge_run is every checker
autodoc_typehints = "description"
lexers["mermaid"] = TextLexer()  # drawing needs a script from elsewhere; GitHub draws the same blocks

ROOT = Path(__file__).parents[1]
# Pages whose text is another file of the repository; the file of the page has what follows it, such as the
# contents, or nothing.
PAGES = {
    "index": "README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
}
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def _from_repository(app: Sphinx, page: str, source: list[str]) -> None:
    """Take the text of a page from its file, and lead links between files of the repository to the pages made of them."""
    file = PAGES.get(page, f"docs/{page}.md")
    text = source[0]
    if page == "index":
        others = {name for name in app.project.docnames if "/" not in name} - {"index", *text.split()}
        text = text.replace("@others", "\n".join(sorted(others)))  # pages that no list below names
    text = (ROOT / file).read_text() + text if page in PAGES else text
    source[0] = _LINK.sub(lambda link: f"]({_placed(link[1], file, page)}", text)


def _placed(target: str, file: str, page: str) -> str:
    meant = normpath(Path(file).parent / target)
    meant = next((f"docs/{name}.md" for name, of in PAGES.items() if of == meant), meant)
    return relpath(meant, Path("docs", page).parent)


def _as_markup(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with `code` and indented blocks; write both as reStructuredText does."""
    found: list[str] = []
    for line in lines:
        if line.startswith("    ") and found and not found[-1] and not line.lstrip().startswith(">>>"):
            before = next((text for text in reversed(found) if text), "")
            if not before.startswith("    "):
                found += ["::", ""]
        found.append(line if line.startswith("    ") else _CODE.sub(r"``\1``", line).replace("*", r"\*").replace("|", r"\|"))
    lines[:] = found


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _from_repository)
    app.connect("autodoc-process-docstring", _as_markup)
