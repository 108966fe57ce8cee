"""What a page of runs shows: those that a search and filters leave, sorted, a page at a time; the matrix of all verdicts."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from highwater.serve.catalog import Run

PAGE = 100  # runs
_SORTS: dict[str, Callable[[Run], object]] = {
    "verdict": lambda run: (run.rank, run.name),
    "name": lambda run: run.name,
    "protocol": lambda run: (run.protocol, run.name),
    "mix": lambda run: (run.mix, run.name),
    "acked": lambda run: run.acked,
    "leaders": lambda run: run.leader_changes,
    "length": lambda run: run.sim_seconds,
    "took": lambda run: run.wall_seconds,
    "changed": lambda run: -run.changed_ns,
}
_FILTERS = ("protocol", "mix", "verdict", "kind", "campaign", "signature")


class Query(Struct, frozen=True, kw_only=True):
    """Search, filters, order and page of a list of runs, as its address has them. An empty filter lets all pass."""

    q: str = ""
    protocol: str = ""
    mix: str = ""
    verdict: str = ""
    kind: str = ""
    campaign: str = ""
    signature: str = ""
    sort: str = "verdict"
    down: bool = False
    page: int = 1

    def address(self, **changes: object) -> str:
        """The address of the list with these changes; without a page it is the first."""
        query = replace(self, **{"page": 1, **changes})
        names = ("q", *_FILTERS, "sort", "down", "page")
        default = Query()
        parameters = {name: getattr(query, name) for name in names if getattr(query, name) != getattr(default, name)}
        return "?" + urlencode({name: "1" if value is True else value for name, value in parameters.items()})


class Listing(Struct, frozen=True, kw_only=True):
    """The runs of one page, how many there are, and the choices of each filter."""

    query: Query
    runs: tuple[Run, ...]
    found: int
    pages: int
    choices: Mapping[str, tuple[str, ...]]


class Cell(Struct, frozen=True, kw_only=True):
    """The runs of one protocol and one fault mix. `heat` is 0 for no INVALID run, up to 4 for all."""

    runs: int
    invalid: int
    bad: int  # UNKNOWN, not live or without a run
    heat: int
    address: str


class Matrix(Struct, frozen=True, kw_only=True):
    """Verdicts by protocol or system, and by fault mix. A cell is None where nothing ran."""

    mixes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def query_in(parameters: Mapping[str, str]) -> Query:
    """What an address asks for. Unknown names and values are ignored: an old link still shows a list."""
    page = parameters.get("page", "1")
    sort = parameters.get("sort", "verdict")
    return Query(
        **{name: parameters.get(name, "")[:300] for name in ("q", *_FILTERS)},
        sort=sort if sort in _SORTS else "verdict",
        down=parameters.get("down") == "1",
        page=max(int(page), 1) if page.isdecimal() and len(page) < 7 else 1,
    )


def listing(runs: Sequence[Run], query: Query) -> Listing:
    """The page of runs that a query asks for; the last page if there are not so many."""
    words = query.q.lower().split()
    passing = [run for run in runs if _passes(run, query) and all(word in run.text for word in words)]
    passing.sort(key=_SORTS[query.sort], reverse=query.down)  # type: ignore[arg-type]  # each key gives one type
    pages = max(-(-len(passing) // PAGE), 1)
    page = min(query.page, pages)
    return Listing(
        query=replace(query, page=page),
        runs=tuple(passing[(page - 1) * PAGE : page * PAGE]),
        found=len(passing),
        pages=pages,
        choices={
            "protocol": tuple(sorted({run.protocol for run in runs})),
            "mix": tuple(sorted({run.mix for run in runs})),
            "verdict": ("INVALID", "not live", "UNKNOWN", "harness failed", "VALID"),
            "kind": tuple(sorted({kind for run in runs for kind, _ in run.kinds})),
            "campaign": tuple(sorted({run.campaign for run in runs if run.campaign})),
        },
    )


def _passes(run: Run, query: Query) -> bool:
    """Whether the filters let a run through."""
    return (
        (not query.protocol or run.protocol == query.protocol)
        and (not query.mix or run.mix == query.mix)
        and (not query.verdict or run.verdict == query.verdict or (query.verdict == "not live" and run.live is False))
        and (not query.kind or any(kind == query.kind for kind, _ in run.kinds))
        and (not query.campaign or run.campaign == query.campaign)
        and (not query.signature or run.signature == query.signature)
    )


def matrix(runs: Sequence[Run]) -> Matrix:
    """Count the verdicts of each protocol or system under each fault mix."""
    counts: dict[tuple[str, str], list[int]] = {}
    for run in runs:
        count = counts.setdefault((run.protocol, run.mix), [0, 0, 0])
        count[0] += 1
        count[1] += run.verdict == "INVALID"
        count[2] += run.verdict != "INVALID" and (run.verdict != "VALID" or run.live is False)
    protocols = sorted({protocol for protocol, _ in counts})
    mixes = tuple(sorted({mix for _, mix in counts}))

    def cell(protocol: str, mix: str) -> Cell | None:
        count = counts.get((protocol, mix))
        if count is None:
            return None
        address = Query().address(protocol=protocol, mix=mix)
        return Cell(runs=count[0], invalid=count[1], bad=count[2], heat=-(-4 * count[1] // count[0]), address=address)

    return Matrix(mixes=mixes, rows=tuple((protocol, tuple(cell(protocol, mix) for mix in mixes)) for protocol in protocols))


def side_by_side(first: Run, second: Run) -> list[tuple[str, str, str, bool]]:
    """Two runs, line by line: what, the value of each, and whether they differ."""
    kinds = sorted({kind for run in (first, second) for kind, _ in run.kinds})
    faults = sorted({fault.kind for run in (first, second) for fault in run.faults})

    def lines(run: Run) -> list[tuple[str, str]]:
        kinds_of_run = dict(run.kinds)
        injected = {fault.kind: fault for fault in run.faults}
        return [
            ("verdict", run.verdict),
            ("live", {True: "yes", False: "no", None: "not judged"}[run.live]),
            ("protocol", run.protocol),
            ("fault mix", run.mix),
            ("cause", run.cause or run.signature or "none"),
            *((f"anomaly {kind}", str(kinds_of_run.get(kind, 0))) for kind in kinds),
            ("acknowledged", str(run.acked)),
            ("leader changes", str(run.leader_changes)),
            *(
                (f"fault {kind}", f"begun {injected[kind].begun}, acted {injected[kind].acted}" if kind in injected else "none")
                for kind in faults
            ),
            ("length", f"{run.sim_seconds:.1f} s"),
            ("took", f"{run.wall_seconds:.2f} s"),
            ("digest", run.digest or "none"),
            ("repeat", run.repeat),
        ]

    return [
        (what, value, other_value, value != other_value)
        for (what, value), (_, other_value) in zip(lines(first), lines(second), strict=True)
    ]
