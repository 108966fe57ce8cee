"""Reads the rules from the list items of docs/promise.md, and finds which rules a text cites."""

import re

from highwater.catalogue.trace import Rule
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "promise.md"
FAMILIES = ("DUR", "ORD", "VIS", "CUT", "LIVE", "SILENT", "VAC", "SES")
_NAME = rf"(?:{'|'.join(FAMILIES)})-\d+"
_ITEM = re.compile(rf"\* \*\*({_NAME})\*\* ")
_RANGE = re.compile(rf"\b({'|'.join(FAMILIES)})-(\d+) to \1-(\d+)\b")
_SECTIONS = re.compile(r"docs/promise\.md((?:(?:,|,? and)? §\d+)+)")


def rules(text: str) -> dict[str, Rule]:
    """Name -> section and text of each rule, the lines of an item joined into one."""
    rules_found: dict[str, Rule] = {}
    section, name = 0, ""
    for line in text.splitlines():
        if heading := re.match(r"## (\d+)\. ", line):
            section = int(heading[1])
            name = ""
        elif item := _ITEM.match(line):
            name = item[1]
            assert name not in rules_found, f"{name} stands twice in docs/promise.md"
            rules_found[name] = Rule(section=section, text=line[item.end() :])
        elif name and line.startswith("  "):
            rules_found[name] = Rule(section=section, text=f"{rules_found[name].text} {line.strip()}")
        else:
            name = ""
    return rules_found


def rules_now() -> dict[str, Rule]:
    """The rules of the present page."""
    return rules(PAGE.read_text(encoding="utf-8"))


def rule_names(text: str) -> list[str]:
    """The rules that a text names; `VIS-1 to VIS-3` names three."""
    found = set(re.findall(rf"\b{_NAME}\b", text))
    for family, first, last in _RANGE.findall(text):
        found |= {f"{family}-{n}" for n in range(int(first), int(last) + 1)}
    return sorted(found)


def cited_rules(text: str, known: dict[str, Rule]) -> list[str]:
    """The rules that a text cites: by name, or all rules of a section by `docs/promise.md §2`."""
    sections = {int(n) for group in _SECTIONS.findall(text) for n in re.findall(r"\d+", group)}
    return sorted({*rule_names(text), *(name for name, rule in known.items() if rule.section in sections)})
