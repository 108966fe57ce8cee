"""A page in a browser, as the tests of its controls use it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def page(browser: "Browser", file: Path) -> "Iterator[Page]":
    """The page in the module's `file`; a console message, an error or a request of something else fails the test."""
    heard: list[str] = []
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.on("console", lambda message: heard.append(message.text))
    opened.on("pageerror", lambda error: heard.append(str(error)))
    opened.on("request", lambda request: heard.append(request.url) if request.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert heard == []
