"""The pages of a store, answered from memory: an address is looked up among what was read and never becomes a path by itself.

Only GET and HEAD are answered. A request whose Host header does not name this server is refused, so a page elsewhere cannot read
the store by pointing its own name at this machine. Files of the store are shown under a policy that lets them fetch nothing.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from highwater.errors import HighwaterError
from highwater.serve.catalog import Catalog, Run
from highwater.serve.listing import listing, matrix, query_in, side_by_side
from highwater.serve.looks import Looks
from highwater.serve.trends import Trend, trends_of
from history import store
from history.errors import HistoryError
from reports.templating import render_named, static_text
from reports.trends import trend_figure

_OWN = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_STORED = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILE_MAX = 64 << 20  # bytes of a file that is shown


def application(catalog: Catalog, *, hosts: list[str]) -> Starlette:
    """The pages of a catalog. `hosts` are the names by which this server may be addressed; "*" allows any."""
    pages = _Pages(catalog)
    return Starlette(
        routes=[
            Route("/", pages.runs),
            Route("/run", pages.run),
            Route("/compare", pages.compare),
            Route("/trends", pages.trends),
            Route("/version", pages.version),
            Route("/serve.js", pages.script),
            Route("/states/{folder:path}", pages.states),
            Route("/store/{path:path}", pages.file),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
    )


class _Pages:
    # Functions for starlette are plain ones: it calls them in threads, so that rendering a page blocks no other.

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._looks = Looks()

    def runs(self, request: Request) -> Response:
        """Campaigns, the matrix of verdicts, and the list of runs."""
        snapshot = self._catalog.look()
        query = query_in(request.query_params)
        return _page(
            "serve_runs.html.j2",
            title=f"runs of {self._catalog.root}",
            seen=snapshot,
            listed=listing(snapshot.runs, query),
            matrix=matrix(snapshot.runs),
            link_of=link_of,
            address_of=address_of,
        )

    def run(self, request: Request) -> Response:
        """One run in numbers."""
        snapshot = self._catalog.look()
        run = snapshot.by_key.get(request.query_params.get("key", ""))
        if run is None:
            return _missing("no such run: it may have been removed from the store")
        return _page("serve_run.html.j2", title=run.name, run=run, link_of=link_of, address_of=address_of)

    def compare(self, request: Request) -> Response:
        """Two runs side by side."""
        by_key = self._catalog.look().by_key
        keys = request.query_params.getlist("key")
        chosen_runs = [by_key[key] for key in keys if key in by_key]
        if len(keys) != 2 or len(chosen_runs) != 2:
            return _missing(f"two runs of the store can be compared, not {len(chosen_runs)}", status=400)
        rows = side_by_side(*chosen_runs)
        return _page(
            "serve_compare.html.j2", title="two runs", runs=chosen_runs, rows=rows, link_of=link_of, address_of=address_of
        )

    def trends(self, request: Request) -> Response:
        """Shares of failed runs over the campaigns that performed like runs."""
        found = trends_of(self._catalog.look())
        drawn = [(trend, Markup(_drawing(trend))) for trend in found.found]
        return _page(
            "serve_trends.html.j2",
            title=f"trends of {self._catalog.root}",
            trends=drawn,
            single=found.single,
            left_out=found.left_out,
            address_of=address_of,
        )

    def version(self, request: Request) -> Response:
        """A number that grows when the store has changed."""
        return JSONResponse({"version": self._catalog.look().version}, headers=_ALWAYS)

    def script(self, request: Request) -> Response:
        """The script of the pages."""
        return Response(static_text("serve.js"), media_type="text/javascript", headers=_ALWAYS)

    def states(self, request: Request) -> Response:
        """The states around a row of a run, which is performed again."""
        folder = request.path_params["folder"]
        row = request.query_params.get("row", "")
        if store.PLAN not in self._catalog.look().files.get(folder, ()):
            return _missing("no such run: it may have been removed from the store")
        if not re.fullmatch(r"\d{1,12}", row):
            return _missing("row must be the number of a row, such as 100", status=400)
        try:
            states = self._looks.around(self._catalog.root / folder, int(row))
        except (HighwaterError, HistoryError, OSError) as error:
            return _missing(f"no states: {error}")
        return _page(
            "serve_states.html.j2",
            title=f"row {states.index}",
            row=states,
            here="/states/" + quote(folder),
            page=address_of(folder, store.REPORT),
        )

    def file(self, request: Request) -> Response:
        """A file of a run or campaign, if the catalog lists it."""
        folder, _, name = request.path_params["path"].rpartition("/")
        if name not in self._catalog.look().files.get(folder, ()):
            return _missing("no such file")
        try:
            data = _read(self._catalog.root / folder / name)
        except OSError:
            return _missing("no such file: it may have been removed from the store")
        if name.endswith(".html"):
            return HTMLResponse(data, headers={**_ALWAYS, "Content-Security-Policy": _STORED})
        return PlainTextResponse(data, headers={**_ALWAYS, "Content-Security-Policy": "default-src 'none'"})


def _read(path: Path) -> bytes:
    """A file, but not what a link in its place points to."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(_FILE_MAX)


def address_of(folder: str, name: str) -> str:
    """The address of a file of a run or campaign."""
    return "/store/" + quote(f"{folder}/{name}" if folder else name)


def link_of(run: Run) -> str:
    """The address of a run: its page, or its numbers where it has none."""
    if store.REPORT in run.files:
        return address_of(run.folder, store.REPORT)
    return f"/run?key={quote(run.key, safe='')}"


def _drawing(trend: Trend) -> str:
    rows = (("invalid", [step.invalid for step in trend.steps]), ("stuck", [step.stuck for step in trend.steps]))
    return trend_figure(rows, f"shares of INVALID runs and of runs that are not live: {trend.command}")


def _page(template: str, **values: object) -> Response:
    return HTMLResponse(render_named(template, "serve.css", **values), headers={**_ALWAYS, "Content-Security-Policy": _OWN})


def _missing(words: str, status: int = 404) -> Response:
    response = _page("serve_missing.html.j2", title=words, words=words)
    response.status_code = status
    return response
