"""The view model of a run's page: what it shows and in which order, made from a history and its verdict.

This module knows neither HTML nor SVG and does not judge: the verdict is given. Bounds keep a page small, and the page states how
many items a bound left out. No clock and no wall-clock duration is used, so a replayed run has the same page.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from checkers.causes.cause import cause_of
from checkers.engine.verdict import ExcusedLoss, Validity, Verdict, counts
from checkers.severity import severity
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import RunManifest
from history.op import OpType
from history.seed import format_seed
from reports.anomalies import AnomalyView, KindRow, kinds_of, lines_of, views_of
from reports.calls import Call, calls_of, quantile
from reports.delivery import DeliveryTrack, Rebalance, delivery_of, rebalances_of
from reports.excerpt import excerpt_of
from reports.fault_windows import windows_of
from reports.first_call import FirstCall
from reports.metrics import MetricTrack, metrics_of
from reports.nodes import NodeTrack, nodes_of
from reports.replicas import PartitionTrack, tracks_of
from reports.rows import Line, event_line, folded, is_control
from reports.spacetime import Diagram, diagram_of
from reports.states import Inside
from reports.svg import NS_PER_S, Backdrop, TimeScale
from reports.timeline import lane_count
from reports.version_order import VersionOrder, version_orders_of
from reports.windows import FaultWindow

EXCUSED_MAX = 200  # stretches of consecutive excused losses; the verdict's ledger has them all
VALUES_MAX = 500  # values shown for one stretch
LOG_MAX = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """The verdict at the top of a run's page. `tone` is valid | unknown | invalid | not-live."""

    verdict: str
    live: str
    tone: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """What a plan makes possible, whether its run met it, and the exit code of the run, in words."""

    name: str
    words: str
    met: Literal["shown", "not shown", "not told"]
    exit_code: str

    @property
    def sentence(self) -> str:
        """The hazard and whether it was met: "Hazard unknown-hw (…): not met; …"."""
        found = {
            "shown": "met",
            "not shown": "not met, so that the run shows nothing about it",
            "not told": "the rows do not tell whether it was met",
        }
        return f"Hazard {self.name} ({self.words}): {found[self.met]}. Exit code {self.exit_code}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number in the summary on a run's page."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatistics:
    """Outcomes and acknowledged latencies (ns; None where nothing was acknowledged) of one kind of call."""

    f: str
    calls: int
    ok: int
    fail: int
    info: int
    p50_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    errors: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One kind of fault on a run's page: how often begun, how often it took effect, and how long it was active in total."""

    kind: str
    category: str
    begun: int
    acted: int
    held_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcusedView:
    """Excused losses at consecutive offsets, and the fault that destroyed the bytes; None if no row of it exists."""

    key: str
    first: int
    last: int
    values: tuple[str, ...]
    wound_index: int
    wound: Line | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """What the page of a run shows, in its order."""

    title: str
    played: str  # the protocol of the reference, or another system with its version
    unchecked_heading: str
    manifest: RunManifest
    seed: str
    banner: Banner
    cause: str  # in one sentence; empty where nothing failed
    cause_lines: tuple[Line, ...]  # the rows that it tells of
    diagram: Diagram | None
    anomalies_found: int  # with those that the verdict counts and does not list
    hazard: Hazard | None
    facts: tuple[Fact, ...]
    statistics: tuple[CallStatistics, ...]
    faults: tuple[FaultRow, ...]
    anomalies: tuple[AnomalyView, ...]
    kinds: tuple[KindRow, ...]
    excused: tuple[ExcusedView, ...]
    excused_left_out: int
    verdict: Verdict
    scale: TimeScale  # of the pictures of the whole run, or of the part of a long one that they show
    end_ns: int
    whole: bool  # whether the pictures show the whole run
    backdrop: Backdrop
    calls: tuple[Call, ...]
    nodes: tuple[NodeTrack, ...]
    partitions: tuple[PartitionTrack, ...]
    metrics: tuple[MetricTrack, ...]
    delivery: tuple[DeliveryTrack, ...]  # of the partitions with a record that was acknowledged or read
    rebalances: tuple[Rebalance, ...]
    version_orders: tuple[VersionOrder, ...]
    log: tuple[Line, ...]
    log_left_out: int
    plan: str
    repeat: str
    from_plan: bool = False  # whether `repeat` needs the plan of this page in a file
    first_call: FirstCall | None = None  # that answers otherwise than in another tree, where one was looked at
    inside: Inside | None = None  # the states around the rows of the cause, of a run that can be performed again


def played_by(manifest: RunManifest) -> str:
    """What was under test: the protocol of the reference, or another system."""
    system = manifest.system
    return manifest.protocol if system is None else f"{system.name} {system.version}".rstrip()


def page_of(
    history: History,
    verdict: Verdict,
    *,
    plan: str,
    repeat: str,
    hazard: Hazard | None = None,
    window: tuple[int, int] | None = None,
) -> RunPage:
    """Make the page of one run. `plan` is the text of the plan, `repeat` the command that repeats the run.

    `window` is the time in ns that the pictures show; if None, the whole of a short run, and of a long one its cause.
    """
    manifest = history.manifest
    end_ns = end_ns_of(history)
    calls = calls_of(history.attempts)
    windows = windows_of(history.events_frame, end_ns)
    tracks = tracks_of(history.events, manifest.assignments, end_ns)
    cause = cause_of(history, verdict)
    kinds, shown_anomalies = kinds_of(verdict, None if cause is None else cause.anomaly)
    scale = excerpt_of(history, cause, shown_anomalies, end_ns, window)
    control = [event for event in history.events if is_control(event) and scale.shows(event.time_ns, event.time_ns)]
    excused = _excused_ranges(history, verdict.excused)
    delivery = delivery_of(history.attempts, lane_count(calls))
    return RunPage(
        played=played_by(manifest),
        unchecked_heading="Why unknown" if manifest.system is None else "Not judged",
        title=f"{played_by(manifest)}, seed {seed_words(manifest)}" if manifest.seed is not None else manifest.run_id,
        manifest=manifest,
        seed=seed_words(manifest),
        banner=banner_of(verdict, manifest, hazard),
        cause="" if cause is None else cause.sentence,
        cause_lines=() if cause is None else lines_of(history, cause),
        diagram=diagram_of(history, cause),
        anomalies_found=counts(verdict.anomalies).total(),
        hazard=hazard,
        facts=_facts_of_run(history, calls, tracks, verdict.counts.get("transactions", 0)),
        statistics=_call_statistics(calls),
        faults=_fault_rows(manifest, windows),
        anomalies=views_of(history, shown_anomalies, tracks, end_ns, cause),
        kinds=kinds,
        excused=excused[:EXCUSED_MAX],
        excused_left_out=max(len(excused) - EXCUSED_MAX, 0),
        verdict=verdict,
        scale=scale,
        end_ns=end_ns,
        whole=scale == TimeScale(start_ns=0, end_ns=end_ns),
        backdrop=Backdrop(windows=windows, milestones=milestones_of(manifest)),
        calls=calls,
        nodes=nodes_of(history.events, manifest.brokers, end_ns),
        partitions=_troubled_first(tracks, verdict),
        metrics=metrics_of(history.events, manifest.brokers),
        delivery=delivery,
        rebalances=rebalances_of(history.attempts),
        version_orders=version_orders_of(delivery, history.events),
        log=folded([event_line(event) for event in control[:LOG_MAX]]),
        log_left_out=max(len(control) - LOG_MAX, 0),
        plan=plan,
        repeat=repeat,
    )


def banner_of(verdict: Verdict, manifest: RunManifest, hazard: Hazard | None = None) -> Banner:
    """The verdict in words: safety first, then liveness, then whether the run was completed and met its hazard."""
    live = {True: "live", False: "not live", None: "liveness not judged"}[verdict.live]
    kinds = counts(verdict.anomalies)
    match verdict.validity:
        case Validity.INVALID:
            listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items(), key=lambda item: severity(item[0])))
            sentence = f"The {'protocol' if manifest.system is None else 'system'} broke its promise: {listed}."
        case Validity.UNKNOWN:
            sentence = "No anomaly was found, but the run proves too little: " + "; ".join(verdict.unchecked)
        case Validity.VALID:
            sentence = "The run kept its promise."
    if verdict.excused:
        sentence += f" {len(verdict.excused)} losses are excused by wounds."
    if verdict.live is False:
        first, *others = verdict.not_live
        sentence += f" It was not live: {first}{f', and {len(others)} more' if others else ''}."
    if manifest.outcome != "completed":
        sentence += f" The run itself ended early: {manifest.outcome}."
    tone = verdict.validity.name.lower()
    if verdict.validity is Validity.VALID and verdict.live is False:
        tone = "not-live"
    elif verdict.validity is Validity.VALID and hazard is not None and hazard.met == "not shown":
        tone = "unknown"
        live += ", vacuous"
    return Banner(verdict=verdict.validity.name, live=live, tone=tone, sentence=sentence)


def end_ns_of(history: History) -> int:
    """The time at which the pictures of a run end."""
    rows = [history.manifest.end_ns, NS_PER_S]
    rows += [row.time_ns for row in history.operations[-1:]]
    rows += [row.time_ns for row in history.events[-1:]]
    return max(rows)


def seed_words(manifest: RunManifest) -> str:
    """The seed of a run in words."""
    return "none" if manifest.seed is None else f"{manifest.seed} ({format_seed(manifest.seed)})"


def milestones_of(manifest: RunManifest) -> tuple[tuple[int, str], ...]:
    """The moments of a run that are drawn behind its pictures."""
    found = ((manifest.healed_at_ns, "all faults healed"), (manifest.final_reads_at_ns, "final reads begin"))
    return tuple((time_ns, words) for time_ns, words in found if time_ns is not None)


def _facts_of_run(
    history: History, calls: Sequence[Call], tracks: Sequence[PartitionTrack], transactions: int
) -> tuple[Fact, ...]:
    """The numbers at the top of the page."""
    outcomes = Counter(call.type for call in calls)
    acked = sum(call.records for call in calls if call.f == "produce" and call.type is OpType.OK)
    read = sum(call.records for call in calls if call.f == "poll" and call.type is OpType.OK)
    kinds = Counter(event.kind for event in history.events)
    manifest = history.manifest
    committed = Fact(name="transactions", value=_grouped_digits(transactions), note="transactions acknowledged")
    return (
        Fact(name="calls", value=_grouped_digits(len(calls))),
        *((committed,) if transactions else ()),
        Fact(name="acknowledged", value=_grouped_digits(acked), note="records produced and acknowledged"),
        Fact(name="read", value=_grouped_digits(read), note="records returned to consumers"),
        Fact(name="failed", value=_grouped_digits(outcomes[OpType.FAIL]), note="calls that certainly had no effect"),
        Fact(name="unknown", value=_grouped_digits(outcomes[OpType.INFO]), note="calls of unknown outcome"),
        Fact(name="leader changes", value=_grouped_digits(sum(t.leader_changes for t in tracks)), note="as ZooKeeper holds them"),
        Fact(name="ISR changes", value=_grouped_digits(sum(t.isr_changes for t in tracks)), note="as ZooKeeper holds them"),
        Fact(name="controllers", value=_grouped_digits(kinds[EventKind.CONTROLLER_ELECTED]), note="controller elections"),
        Fact(name="truncations", value=_grouped_digits(kinds[EventKind.TRUNCATE]), note="truncations of a replica's log"),
        Fact(name="wounds", value=_grouped_digits(kinds[EventKind.WOUND]), note="faults that destroyed bytes"),
        Fact(name="length", value=f"{manifest.sim_seconds:.1f} s", note="by the clock of the run, simulated or not"),
    )


def _call_statistics(calls: Sequence[Call]) -> tuple[CallStatistics, ...]:
    """Counts, latencies and errors by kind of call."""
    statistics = []
    for f in sorted({call.f for call in calls}, key=lambda f: ({"produce": 0, "poll": 1}.get(f, 2), f)):
        own = [call for call in calls if call.f == f]
        outcomes = Counter(call.type for call in own)
        latencies = sorted(c.latency_ns for c in own if c.type is OpType.OK and c.latency_ns is not None)
        errors = Counter(call.error for call in own if call.error is not None)
        p50, p95, p99, most = (quantile(latencies, q) if latencies else None for q in (500, 950, 990, 1000))
        statistics.append(
            CallStatistics(
                f=f,
                calls=len(own),
                ok=outcomes[OpType.OK],
                fail=outcomes[OpType.FAIL],
                info=outcomes[OpType.INFO],
                p50_ns=p50,
                p95_ns=p95,
                p99_ns=p99,
                max_ns=most,
                errors=tuple(sorted(errors.items(), key=lambda item: (-item[1], item[0]))),
            )
        )
    return tuple(statistics)


def _fault_rows(manifest: RunManifest, windows: Sequence[FaultWindow]) -> tuple[FaultRow, ...]:
    """The counts of the manifest, and of the events where the manifest has none."""
    counts = {count.kind: (count.begun, count.acted) for count in manifest.faults}
    for kind in sorted({window.kind for window in windows} - counts.keys()):
        own = [window for window in windows if window.kind == kind]
        counts[kind] = (len(own), sum(window.acted for window in own))
    rows = []
    for kind, (begun, acted) in sorted(counts.items()):
        own = [window for window in windows if window.kind == kind]
        held_ns = sum(window.end_ns - window.start_ns for window in own)
        category = own[0].category if own else "other"
        rows.append(FaultRow(kind=kind, category=category, begun=begun, acted=acted, held_ns=held_ns))
    return tuple(rows)


def _excused_ranges(history: History, losses: Sequence[ExcusedLoss]) -> tuple[ExcusedView, ...]:
    """Group the excused losses into ranges of offsets: a wound destroys the end of a log, so its losses are consecutive."""
    stretches: list[list[ExcusedLoss]] = []
    for loss in sorted(losses, key=lambda e: (e.topic, e.partition, e.wound, e.offset)):
        last = stretches[-1][-1] if stretches else None
        if last is not None and _place_of(last) == _place_of(loss) and loss.offset <= last.offset + 1:
            stretches[-1].append(loss)
        else:
            stretches.append([loss])
    return tuple(_excused_view(history, stretch) for stretch in stretches)


def _place_of(loss: ExcusedLoss) -> tuple[str, int, int]:
    return loss.topic, loss.partition, loss.wound


def _excused_view(history: History, losses: Sequence[ExcusedLoss]) -> ExcusedView:
    """A range of excused losses with the wound that excuses it."""
    first = losses[0]
    row = history.row(first.wound)
    return ExcusedView(
        key=f"{first.topic}-{first.partition}",
        first=first.offset,
        last=losses[-1].offset,
        values=tuple(loss.value for loss in losses),
        wound_index=first.wound,
        wound=event_line(row) if isinstance(row, ClusterEvent) else None,
    )


def _troubled_first(tracks: Sequence[PartitionTrack], verdict: Verdict) -> tuple[PartitionTrack, ...]:
    troubled = {anomaly.key for anomaly in verdict.anomalies} | {f"{e.topic}-{e.partition}" for e in verdict.excused}
    return tuple(sorted(tracks, key=lambda track: (track.key not in troubled, track.topic, track.partition)))


def _grouped_digits(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")
