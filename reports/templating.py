"""The templates of all pages: Jinja with its filters, the styles and the scripts."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.analytics import side_words
from reports.rows import process_of
from reports.svg import latency_words, seconds, visible_text

STATIC = Path(__file__).parent / "static"


def render_named(template: str, css: str, **values: object) -> str:
    """Render a page of `highwater serve` from the values that its template names; `css` is a file of further styles."""
    return environment().get_template(template).render(css=styles() + static(css), **values)


def static_text(name: str) -> str:
    """The text of a script or a style that is sent by itself."""
    return str(static(name))


@cache
def environment() -> Environment:
    """Jinja with the filters of the templates."""
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters["process"] = process_of
    environment.filters["seconds"] = seconds
    environment.filters["latency"] = latency_words
    environment.filters["counted"] = counted
    environment.filters["side"] = side_words
    environment.filters["clock"] = clock
    return environment


def _visible(value: object) -> object:
    """What a template places: text from outside with its control characters as symbols; markup of ours as it is."""
    return visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def styles() -> Markup:
    """The styles that all pages share."""
    return static("report.css")


@cache
def static(name: str) -> Markup:
    """A style sheet or a script of `static/`, to be placed as it is."""
    return Markup((STATIC / name).read_text(encoding="utf-8"))


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: "1 leader change", "2 leader changes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clock(time_ns: int) -> str:
    """A time of the wall clock, in UTC: "2026-01-31 12:05"."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M}"
