"""Says what a file looks like that is no history, so that a wrong file is told from a damaged one."""

import json
from codecs import BOM_UTF8
from pathlib import Path

from history.foreign.session_text import is_session_text

_HEAD_BYTES = 4096
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a file packed by zstd; unpack it first"),
    (b"BZh", "a file packed by bzip2; unpack it first"),
    (b"\xfd7zXZ", "a file packed by xz; unpack it first"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"JEPSEN", "a binary store file of Jepsen; its history.edn is read"),
)
_FORMS = ("{", "[", "(", "#", ";", ":")  # EDN begins so: no table, though it has commas
_NAMES = {
    "manifest.json": "the manifest of a run; give its folder",
    "verdict.json": "the verdict on a run; give its folder",
    "summary.json": "the summary of a run; give its folder",
    "results.edn": "the results of a Jepsen test; its history.edn is read",
    "test.fressian": "a binary store file of Jepsen; its history.edn is read",
    "jepsen.log": "the log of a Jepsen test; its history.edn is read",
}


def looks_like(path: Path) -> str:
    """What a file looks like that is no history, with what to give instead; "" if that cannot be told."""
    try:
        if not path.is_file():  # to open a pipe that nobody writes into takes for ever
            return ""
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return ""
    for magic, words in _MAGIC:
        if head.startswith(magic):
            return words
    if path.name in _NAMES:
        return _NAMES[path.name]
    head = head.removeprefix(BOM_UTF8)
    if is_session_text(head.lstrip()):
        return ""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A character may be cut at the end of the head.
        if error.start < len(head) - 4:
            return "UTF-16 text; histories are UTF-8" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "binary data"
        text = head[: error.start].decode()
    return _kind_of_text(text, path.suffix)


def _kind_of_text(text: str, suffix: str) -> str:
    """What a text looks like, by its first lines and the file's suffix; "" if it may be a history."""
    start = text.lstrip()
    lines = [line for line in start.splitlines() if line.strip()]
    first = lines[0].strip() if lines else ""
    if first.startswith("{:") and ":valid?" in text and ":type" not in text:
        return _NAMES["results.edn"]
    if start[:200].lower().startswith(("<!doctype html", "<html")):
        return "an HTML page"
    if start.startswith(("<?xml", "<testsuites", "<svg")):
        return "an XML file"
    if start.startswith("#!"):
        return "a script"
    if suffix == ".edn":
        return ""
    if start.startswith(_FORMS) and suffix not in (".yaml", ".yml", ".csv"):
        return _kind_of_json(start)
    if suffix in (".yaml", ".yml") or (lines and all(": " in line or line.rstrip().endswith(":") for line in lines[:3])):
        is_plan = "cluster:" in text or "draws:" in text
        return "a plan; `highwater run --plan` performs it" if is_plan else "a YAML file"
    if suffix == ".csv" or (len(lines) > 1 and first.count(",") > 1 and first.count(",") == lines[1].count(",")):
        return "a CSV table"
    return f"plain text that begins with {first[:40]!r}" if first else ""


def _kind_of_json(start: str) -> str:
    """Objects that are JSON, but not steps: name the keys they have."""
    try:
        value, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return ""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return f"JSON, but not of objects: its first element is {str(first)[:40]!r}"
    missing = [name for name in ("process", "type", "f", "value") if name not in first and f":{name}" not in first]
    if not missing or "manifest" in first:  # a step, or the first line of a recorded history
        return ""
    has = ", ".join(sorted(map(str, first)))
    return f"JSON of objects with {has[:120] or 'nothing'}; a step of a history has process, type, f and value"
