"""The values of results in operations `process`: each names the record that it is of, so that any reader can compare the two."""

from typing import NamedTuple


class Source(NamedTuple):
    """The record that a result is of; `key` is its partition as "topic-0"."""

    key: str
    offset: int
    value: str


def result_of(source: Source) -> str:
    """The value of the result of a record: "t-0@7=p1-3"."""
    return f"{source.key}@{source.offset}={source.value}"


def source_of(result: str) -> Source | None:
    """The record that a result names; None if the value is no result."""
    key, at, rest = result.partition("@")
    offset, equals, value = rest.partition("=")
    return Source(key, int(offset), value) if at and equals and offset.isdecimal() else None
