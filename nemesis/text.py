"""Plans and fault schedules as YAML, and back, with errors that name the line.

Reading uses the node tree of PyYAML, which has the line of each value, then msgspec, which checks the types. Writing leaves out
values that equal their default and puts each window on one line.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import UnionType
from typing import Any, Protocol, TypeVar, get_args

import msgspec
import yaml
from msgspec import NODEFAULT, Struct, inspect

from history.errors import question_of_meant, unknown
from nemesis.faults import AnyFault
from nemesis.schedule import Window
from nemesis.targets import AnyTarget

T = TypeVar("T")
Path = tuple[str | int, ...]  # ("schedule", 0, "until_ms")

MAX_CHARACTERS = 2_000_000
MAX_DEPTH = 30


class TextError(ValueError):
    """Invalid text; the message is one line: "file:line: complaint"."""


class Document:
    """A parsed YAML text: plain values, and the line number of each."""

    __slots__ = ("_root", "source", "value")

    def __init__(self, text: str, source: str) -> None:
        """Parse a YAML text; raises TextError. `source` names the text in errors."""
        self.source = source
        self._root = _compose(text, source)
        self.value = _plain_value(self._root, source, yaml.constructor.SafeConstructor())

    def line(self, path: Path) -> int:
        """The line number in the YAML text of the value at this path, or of the nearest enclosing value, from 1."""
        node: yaml.Node = self._root
        line = node.start_mark.line + 1
        for step in path:
            child = _member_at(node, step)
            if child is None:
                return line
            line, node = child
        return line

    def error(self, path: Path, sentence: str) -> TextError:
        """Make the error, with file and line, for a value of this YAML document."""
        return TextError(f"{self.source}:{self.line(path)}: {sentence}")

    def convert(self, type: type[T], value: object, path: Path = ()) -> T:
        """Convert a value of the YAML text to this type. Raises TextError with the line."""
        try:
            return msgspec.convert(value, type)
        except msgspec.ValidationError as error:
            inner, sentence = _path_and_reason(str(error), type, value)
            raise self.error((*path, *inner), sentence) from error


def windows_from_yaml(text: str, source: str = "schedule") -> tuple[Window, ...]:
    """Read fault windows from a YAML list. TextError with the line for invalid text."""
    document = Document(text, source)
    return document.convert(tuple[Window, ...], document.value)


def windows_to_yaml(windows: Sequence[Window]) -> str:
    """Write fault windows as YAML, one line each; `windows_from_yaml` gives them back."""
    return "".join(f"- {line}\n" for line in map(flow, windows)) or "[]\n"


def flow(struct: Struct) -> str:
    """Write a struct on one line of YAML, without fields that have their default value."""
    return dump(sparse(struct), on_one_line=True).removesuffix("\n")


def dump(value: object, *, on_one_line: bool = False) -> str:
    """Write plain values as YAML, keys in their order."""
    width = 1_000_000 if on_one_line else 120
    for readable in (True, False):
        text = yaml.safe_dump(value, sort_keys=False, width=width, default_flow_style=on_one_line, allow_unicode=readable)
        # PyYAML writes these three unescaped and reads them as line ends; escaped they are preserved.
        if not any(separator in text for separator in ("\x85", "\u2028", "\u2029")):
            break
    return text


def sparse(value: Any) -> Any:
    """Convert structs to mappings without default values, tag first; tuples to lists; other values stay."""
    if isinstance(value, Struct):
        config = value.__struct_config__
        mapping: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}
        for field in msgspec.structs.fields(value):
            content = getattr(value, field.name)
            if not _is_default(field, content):
                mapping[field.name] = sparse(content)
        return mapping
    if isinstance(value, tuple):
        return [sparse(item) for item in value]
    return value


def _is_default(field: msgspec.structs.FieldInfo, content: object) -> bool:
    if field.default is not NODEFAULT:
        return bool(content == field.default)
    return field.default_factory is not NODEFAULT and bool(content == field.default_factory())


# --- parsing ---------------------------------------------------------------------------------------------------------


def _compose(text: str, source: str) -> yaml.Node:
    """The syntax tree of a YAML text. Raises TextError with source and line."""
    if len(text) > MAX_CHARACTERS:
        raise TextError(f"{source}:1: longer than {MAX_CHARACTERS} characters")
    if yaml.__with_libyaml__:
        # libyaml is ten times as fast. What it refuses PyYAML reads again, so errors have the same words on every machine.
        with suppress(yaml.YAMLError, UnicodeError):
            return _checked_root(text, source, yaml.CSafeLoader)
    try:
        return _checked_root(text, source, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise TextError(f"{source}:{_line(mark)}: malformed YAML: {problem}") from error
    except yaml.YAMLError as error:
        raise TextError(f"{source}:1: malformed YAML: {' '.join(str(error).split())}") from error


def _checked_root(text: str, source: str, loader: "type[yaml.SafeLoader | yaml.CSafeLoader]") -> yaml.Node:
    """The root node, after a check of depth and aliases."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise TextError(f"{source}:{_line(event.start_mark)}: nested too deeply")
        if isinstance(event, yaml.AliasEvent):
            raise TextError(f"{source}:{_line(event.start_mark)}: an alias (*{event.anchor}) is not allowed")
    root = yaml.compose(text, Loader=loader)
    if root is None:
        raise TextError(f"{source}:1: the text is empty")
    return root


class _Mark(Protocol):
    line: int


def _line(mark: _Mark | None) -> int:
    return 1 if mark is None else mark.line + 1


def _plain_value(node: yaml.Node, source: str, constructor: yaml.constructor.SafeConstructor) -> Any:
    """Convert a YAML node to plain values. Unlike PyYAML it refuses duplicate keys and numbers beyond 64 bits."""
    where = f"{source}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.SequenceNode):
        return [_plain_value(item, source, constructor) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise TextError(f"{source}:{key_node.start_mark.line + 1}: a key must be a word")
            if key in mapping:
                raise TextError(f"{source}:{key_node.start_mark.line + 1}: the key {key} occurs twice")
            mapping[key] = _plain_value(value_node, source, constructor)
        return mapping
    try:
        value = constructor.construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise TextError(f"{where}: malformed value {str(node.value)!r}") from error
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise TextError(f"{where}: {node.value} does not fit into 64 bits")
    return value


def _member_at(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line and node of a member of a YAML sequence or mapping; for a mapping, the line of the key."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == step:
                return key_node.start_mark.line + 1, value_node
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line + 1, item
    return None


# --- errors ----------------------------------------------------------------------------------------------------------

_AT = re.compile(r"^(?P<said>.*?)(?: - at `(?:key` in `)?\$(?P<path>.*)`)?$")
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]")
_FIELD = re.compile(r"unknown field `(?P<name>.*)`$")
_VALUE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)$")


def _path_and_reason(message: str, type: type[object], value: object) -> tuple[Path, str]:
    """Split msgspec's message, about a value of this type, into the path of the wrong part and a sentence without its terms."""
    match = _AT.match(message)
    assert match is not None  # every message matches: the path is optional
    words = match["said"]
    trail = match["path"] or ""
    path: Path = tuple(_steps(trail))
    place = trail.removeprefix(".")
    field = _FIELD.search(words)
    if field is not None:
        question = question_of_meant(field["name"], _keys_at(inspect.type_info(type), value, path))
        words = f"unknown key {field['name']!r}" + (f" in {place}" if place else "")
        return (*path, field["name"]), f"{words}; {question}" if question else words
    unknown_value = _VALUE.search(words)
    if unknown_value is not None:
        words = _unknown_in_words(path, unknown_value["value"])
    words = words.replace("Object missing required field", "missing key").replace("`object`", "a mapping")
    words = words.replace("`array`", "a list")
    words = words[:1].lower() + words[1:]
    return path, f"{place}: {words}" if place else words


def _keys_at(info: inspect.Type, value: object, path: Path) -> list[str]:
    """The keys that a mapping at this path below a value may have; none if the types do not say."""
    kinds = [part for part in _alternatives(info) if _is_of(part, value)]
    if not path:
        return [field.encode_name for kind in kinds if isinstance(kind, inspect.StructType) for field in kind.fields]
    step, *rest = path
    keys: list[str] = []
    for kind in kinds:
        if isinstance(kind, inspect.StructType) and isinstance(value, dict) and step in value:
            for field in kind.fields:
                keys += _keys_at(field.type, value[step], tuple(rest)) if field.encode_name == step else []
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(value, list) and isinstance(step, int):
            keys += _keys_at(kind.item_type, value[step], tuple(rest))
    return keys


def _alternatives(info: inspect.Type) -> Sequence[inspect.Type]:
    """The types of a union; else the type itself."""
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _is_of(info: inspect.Type, value: object) -> bool:
    """Whether a value may be of this type: of structs with tags, the one whose tag it has."""
    if not isinstance(info, inspect.StructType) or info.tag_field is None or not isinstance(value, dict):
        return True
    return value.get(info.tag_field) == info.tag


def _unknown_in_words(path: Path, value: str) -> str:
    """Format the error for an unknown value; for the tag of a fault or target, list the known tags."""
    unions: dict[str | int, UnionType] = {"fault": AnyFault, "target": AnyTarget}
    union = unions.get(path[-1]) if path else None
    if union is None:
        return f"unknown value {value}"
    return unknown(str(path[-1]), value.strip("'"), [str(part.__struct_config__.tag) for part in get_args(union)])


def _steps(trail: str) -> Iterator[str | int]:
    for step in _STEP.finditer(trail):
        yield int(step["index"]) if step["index"] is not None else step["name"]
