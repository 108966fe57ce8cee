"""The pages and lists that follow from declarations in the code: kinds of anomalies, faults, tables, citations, imports.

`python -m tests.tidy.documents --rewrite` writes all of them; run it after a change of what is declared, and read the difference.
"""

import importlib
import re
import sys

from tests.tidy.sources import ROOT

# Document -> the module whose `document` gives its text. The first one is read by modules that give the others.
GENERATED = {
    "checkers/severity.txt": "checkers.severity_document",
    "docs/history-format.md": "history.schema",
    "docs/properties.md": "checkers.properties",
    "docs/faults.md": "nemesis.document",
    "docs/campaigns.md": "bench.guided",
    "docs/data.md": "pipeline.tables",
    "docs/wire.md": "highwater.catalogue.wire_document",
}
MUTANTS = "docs/mutants.md"
_MARKER = re.compile(r"^<!-- generated: .* -->\n", re.MULTILINE)


def generated_part(name: str) -> str:
    """What the document has below its marker; all of it if it has none. What stands above is written by hand."""
    return _MARKER.split((ROOT / name).read_text(encoding="utf-8"))[-1]


def text_of(name: str) -> str:
    """What the document must have below its marker."""
    if name == MUTANTS:
        mutants = importlib.import_module("highwater.catalogue.mutants")
        return str(mutants.document(mutants.load_mutants(ROOT / "corpus" / "mutants.yaml")))
    return str(importlib.import_module(GENERATED[name]).document())


def rewrite() -> None:
    """Write all documents from the declarations as they are now."""
    for name in (*GENERATED, MUTANTS):
        path = ROOT / name
        below = generated_part(name)
        path.write_text(path.read_text(encoding="utf-8").removesuffix(below) + text_of(name), encoding="utf-8")
    # Imported once the order of anomalies is written, which the modules under them read when they are imported.
    for module in ("protocol", "import_graph"):
        importlib.import_module(f"tests.tidy.{module}").rewrite()


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite()
