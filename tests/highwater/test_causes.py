"""The sentence of cause names the step that broke the promise, compared with what is known of each bug."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from checkers.causes.cause import Cause, cause_of, told_first
from checkers.engine.verdict import Anomaly, Findings, Verdict, merge, more_of_kind
from checkers.sketches import history_of
from highwater.cli.main import run_command_line
from highwater.cli.run import show
from highwater.explore.backend import ExploreBackend
from highwater.plans.plan import checked
from highwater.plans.text import load_plan
from highwater.runs.findings import by_kind, in_short
from highwater.runs.provenance import Build
from highwater.runs.run import backend_named, judge, perform
from highwater.runs.summary import origin_words, summarize
from history import store
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from reference.machine import Turn
from reference.replica import isr
from reference.replica.partition import FollowerProgress, Leader, Partition
from reports.run_page import page_of
from tests.reports.scenes import Scene, manifest_of, small_loss

PLANS = Path(__file__).parents[2] / "corpus" / "plans"
KAFKA = Path(__file__).parent / "kafka-0.10.2.2"  # a run of corpus/real/kip101.yaml on this release
BUILD = Build(commit="0", dirty=False, versions={})


class Known(NamedTuple):
    """What is known of a bug: the cause's name, the row that did it (kind and broker), and words of the sentence in order."""

    plan: str
    protocol: str
    name: str
    kind: str
    node: str
    words: tuple[str, ...]


KNOWN = (
    # KIP-101: a restarted or deposed broker truncates to the HW that it knows, and is elected.
    Known(
        "kip101-scenario-1",
        "v3",
        "truncated-to-hw",
        K.TRUNCATE,
        "b3",
        ("p1-42 (offset 122) was acknowledged", "to its HW 122", "b3 was elected", "b1 and b2, which held it, were down"),
    ),
    Known(
        "shrunk-v3-truncated-committed",
        "v3",
        "truncated-to-hw",
        K.TRUNCATE,
        "b2",
        ("p0-0 (offset 0) was acknowledged", "b1 and b2 lost power", "came back", "to its checkpointed HW 0", "b2 was elected"),
    ),
    # KIP-106: a replica outside the ISR is elected.
    Known("jepsen-2013", "unclean-election", "unclean-election", K.STATE_WRITTEN, "b4", ("elected b2", "outside the ISR {b1}")),
    # KAFKA-7128: a replica joins the ISR by the HW alone, before it has the start of the epoch.
    Known(
        "mutants/kafka-7128",
        "isr-join-hw-only",
        "joined-isr-too-early",
        K.STATE_WRITTEN,
        "b2",
        ("added b3 to the ISR", "b3 ended at 83"),
    ),
    # KIP-903: a request to take in a replica is carried out after the replica lost its disk.
    Known(
        "mutants/kip-903",
        "isr-no-member-epoch",
        "joined-isr-too-early",
        K.STATE_WRITTEN,
        "b3",
        ("b2 was replaced by an empty one", "added b2 to the ISR", "as b1 had asked", "b2 ended at 0"),
    ),
    # The HW ignores an ISR change that is not answered yet.
    Known(
        "mutants/isr-current",
        "isr-current",
        "committed-without-isr-member",
        K.HW,
        "b1",
        ("did not count b2", "change to ISR {b1,b2}"),
    ),
    Known("mutants/isr-eager", "isr-eager", "committed-without-isr-member", K.HW, "b1", ("already counted without b2", "{b1}")),
    # KAFKA-15583: the HW moves while the ISR is shorter than min.insync.replicas.
    Known(
        "mutants/kafka-15583",
        "hw-under-min-isr",
        "committed-below-min-isr",
        K.HW,
        "b1",
        ("ISR {b1}", "fewer than min.insync.replicas=2"),
    ),
    # KAFKA-1148: a parked produce is answered after the leader lost its leadership and the record.
    Known(
        "mutants/kafka-1148",
        "no-purgatory-epoch-check",
        "acknowledged-after-removal",
        "produce",
        "b1",
        ("although it had removed p0-38 before",),
    ),
    # KIP-279: an epoch that the follower does not know is answered as if it did.
    Known(
        "mutants/kafka-6361",
        "kip101",
        "diverging-log-kept",
        K.APPEND,
        "b2",
        ("truncated its log to offset 130", "after p1-66 at offset 127", "although b3 holds p1-40 there"),
    ),
    # KAFKA-14704: the follower takes the leader's HW before it truncates.
    Known(
        "mutants/kafka-6361", "hw-before-truncation", "hw-before-truncation", K.HW, "b1", ("over p1-40", "had yet to truncate")
    ),
    # Leader epochs that are not raised.
    Known("mutants/isr-eager", "no-epoch-bump", "epoch-not-raised", K.STATE_WRITTEN, "b3", ("elected b2", "was the epoch of b1")),
    # KAFKA-16234: a replica in a failed directory is made anew in another one.
    Known(
        "mutants/kafka-16234",
        "offline-replica-recreated",
        "log-begun-anew",
        K.APPEND,
        "b1",
        ("where it had held p0-0", "in a log begun anew", "had failed"),
    ),
    # KAFKA-1120: a bounce that nobody saw; the broker leads its old epoch with what is left.
    Known(
        "mutants/kafka-1120",
        "leads-from-startup",
        "led-again-without-election",
        K.BECAME_LEADER,
        "b1",
        ("LEO 0", "without a new"),
    ),
    # KIP-966: the last member of the ISR lost its log, those that had left the ISR kept theirs.
    Known("mutants/kip-966", "no-elr", "lost-unflushed", K.WOUND, "b1", ("power loss of b1", "although b2 and b3 still held it")),
    # An idempotent producer's second attempt is appended again.
    Known(
        "mutants/failover-retry",
        "no-idempotence",
        "duplicate-by-retry",
        K.APPEND,
        "b2",
        ("offset 93", "offset 96", "a second time"),
    ),
    # KIP-380: the controller epoch is counted in memory.
    Known(
        "mutants/kip-380",
        "controller-epoch-in-memory",
        "two-controllers",
        K.CONTROLLER_ELECTED,
        "b1",
        ("b4", "in the same epoch 1"),
    ),
    # A move deletes a replica before the ISR leaves it out; a command of the controller before makes a deleted replica again.
    Known(
        "mutants/dropped-fetches",
        "isr-unassigned-unfenced",
        "deleted-while-it-counts",
        K.REPLICA_DELETED,
        "b3",
        ("b3 deleted its replica", "in the ISR {b1,b3,b4,b5}"),
    ),
    Known(
        "mutants/removal-taken-over",
        "removals-last",
        "back-after-deletion",
        K.BECAME_FOLLOWER,
        "b2",
        ("the removal of t-1 was requested", "b2 deleted its replica", "after the deletion"),
    ),
    # KAFKA-2729: every ISR change of the leader is refused, because it has an old version.
    Known(
        "mutants/kafka-2729",
        "stuck-zk-version",
        "not-live",
        K.ISR_CHANGE_ENDED,
        "b1",
        ("b3 not in the ISR", "version 0: refused"),
    ),
)


@cache
def failed(plan: str, protocol: str) -> tuple[History, Verdict]:
    chosen = checked(replace(load_plan(PLANS / f"{plan}.yaml"), protocol=protocol, variant=None))
    history = perform(chosen, backend_named("sim"), BUILD).history
    return history, judge(history)


def cause_found(history: History, verdict: Verdict) -> Cause:
    cause = cause_of(history, verdict)
    assert cause is not None
    return cause


@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.protocol}-{known.plan.rpartition('/')[2]}")
def test_cause_names_the_step_that_the_bug_is_known_for(known: Known) -> None:
    history, verdict = failed(known.plan, known.protocol)

    cause = cause_found(history, verdict)

    assert cause.name == known.name
    assert cause.step is not None
    row = history.row(cause.step)
    assert row is not None
    kind, node = (row.kind, row.node) if isinstance(row, ClusterEvent) else (row[0].f, row[0].node)
    assert (kind, node) == (known.kind, known.node)
    assert cause.step in cause.rows
    places = [cause.sentence.find(words) for words in known.words]
    assert -1 not in places, cause.sentence
    assert places == sorted(places)


def test_cause_of_a_real_kafka_loss_names_its_log_line() -> None:
    """Kafka 0.10.2.2 truncates to the high watermark (KIP-101). Its logs are not seen; a log line tells it."""
    history = store.load_run(KAFKA)
    cause = cause_found(history, judge(history))
    assert (cause.name, cause.step) == ("truncated", 126)
    assert cause.sentence == (
        "p0-40 (offset 40) was acknowledged at 7.962 s with ISR {b1,b2,b3}; b1 crashed at 8.959 s; b2 was elected "
        "leader of epoch 1 with ISR {b2,b3} at 10.895 s; b3 truncated its log to offset 40 at 10.900 s, as a follower "
        "of b2, as its server log says; b2 crashed at 13.956 s; b3 was elected leader of epoch 2 without p0-40 at "
        "15.867 s; and client 2 read p0-170 at offset 40 at 20.648 s."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "protocol", "kind"),
    [
        ("mutants/kip-903", "isr-no-member-epoch", K.ISR_CHANGE_SENT),  # "as b1 had asked"
        ("mutants/kafka-16234", "offline-replica-recreated", K.DIR_FAILED),  # "after log directory 0 had failed"
    ],
)
def test_why_has_the_row_that_made_the_step_possible(plan: str, protocol: str, kind: K) -> None:
    history, verdict = failed(plan, protocol)
    cause = cause_found(history, verdict)
    rows = [history.row(index) for index in cause.rows]

    assert kind in [row.kind for row in rows if isinstance(row, ClusterEvent) and row.index < (cause.step or 0)]


def test_cause_tells_of_a_replica_that_joined_unseen() -> None:
    """KAFKA-7128 on a system whose logs are not seen: b4 truncates for b2, which was not in the ISR when x was acknowledged."""
    history = history_of(
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1,b2,b3,b4",
        "state-written node=b9 leader=b1 leader_epoch=0 isr=b1,b3,b4",
        "ok produce value=x offset=40",
        "node-stopped node=b1 detail=crash",
        "state-written node=b9 leader=b3 leader_epoch=1 isr=b3,b4",
        "state-written node=b3 leader=b3 leader_epoch=1 isr=b3,b4,b2",
        "node-stopped node=b3 detail=crash",
        "state-written node=b9 leader=b2 leader_epoch=2 isr=b4,b2",
        "truncate node=b4 offset=40 detail=log",
        "ok poll process=1 value=y offset=40",
    )
    words = "x was acknowledged at offset 40, and later process 1 read y there"
    lost_write = Anomaly(kind="lost-write", checker="acked-loss", key="t-0", witness=(3, 11), words=words)

    cause = cause_found(history, merge([Findings(anomalies=(lost_write,))]))

    assert (cause.name, cause.step) == ("joined-isr-too-early", 6)
    assert "b3 added b2 to the ISR at 0.006 s, now {b3,b4,b2}, although it lacked x" in cause.sentence
    assert "b4 truncated its log to offset 40 at 0.009 s, as a follower of b2, as its log says" in cause.sentence
    assert {6, 8, 9} <= {*cause.rows}


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["flushed-behind-the-fence", "torn-batch-stays", "woken-while-starting", "jepsen-2013"])
def test_isr_request_below_the_hw_is_the_headline(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`or` for `and` in `isr._may_join`: a reader of "had flushed only up to 50" would open the code of flushes."""

    def may_join(turn: Turn, partition: Partition, leader: Leader, follower: FollowerProgress) -> bool:
        assert follower.leo is not None
        return follower.leo >= partition.hw or follower.leo >= leader.epoch_start

    monkeypatch.setattr(isr, "_may_join", may_join)
    chosen = checked(replace(load_plan(PLANS / f"{plan}.yaml"), protocol="safe", variant=None))
    history = perform(chosen, backend_named("sim"), BUILD).history
    verdict = judge(history)

    cause = cause_found(history, verdict)

    headline = told_first(verdict)
    assert headline.kind in ("joined-below-hw", "early-join")
    assert (cause.anomaly, cause.key) == (headline, headline.key)
    row = history.row(cause.rows[0])
    assert isinstance(row, ClusterEvent)
    assert (row.kind, f"{row.topic}-{row.partition}") == (K.ISR_CHANGE_SENT, headline.key)
    assert origin_words(history, cause).endswith("by reference/replica/isr._propose")


def test_first_screen_tells_cause_worst_finding_and_next(capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads a red build sees first why it is red, and not a list of consequences."""
    history = store.load_run(KAFKA)
    verdict = judge(history)
    summary = summarize(load_plan(PLANS / "kip101-scenario-1.yaml"), history, verdict, repeat="again", wall_seconds=1)
    show(replace(summary, store="store/a/b"))
    first, cause, origin, worst, others, unchecked, *_, repeat, every = capsys.readouterr().out.splitlines()

    assert first.startswith("INVALID, live: ")
    assert cause == f"cause   {cause_found(history, verdict).sentence}"
    assert origin == "origin  row 126: b3 truncated its log to offset 40 (the broker's log) at 10.900 s"
    assert worst.startswith("  lost-write t-0: p0-40 was acknowledged at offset 40")
    assert others == "  and 20 of 2 other kinds: inconsistent-offsets 10, offset-order 10"
    assert unchecked.startswith("  unchecked: kafka 0.10.2.2 gives no ")
    assert unchecked.endswith(" did not judge (and 2 more)")
    assert (repeat, every) == ("repeat  again", "all     highwater check store/a/b --all")


def test_check_prints_every_finding_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """The first screen leaves findings out; the terminal must still be able to show them."""
    verdict = judge(store.load_run(KAFKA))

    run_command_line(["check", str(KAFKA)])
    short = capsys.readouterr().out.splitlines()
    run_command_line(["check", str(KAFKA), "--all"])
    whole = capsys.readouterr().out.splitlines()

    assert short[-1] == f"all     highwater check {KAFKA} --all"
    anomalies = [f"  {anomaly.kind} {anomaly.key}: {anomaly.words}" for anomaly in verdict.anomalies]
    assert sorted(line for line in whole if line.startswith("  ")) == sorted(
        [*anomalies, *(f"  unchecked: {words}" for words in verdict.unchecked)]
    )
    assert len([line for line in short if line.startswith("  ")]) == 3


def test_shown_finding_is_the_one_that_the_cause_tells() -> None:
    """A run may lose records of two partitions: the finding beside the cause must be of the same one."""
    history, _ = small_loss()
    lost_write = [
        Anomaly(kind="lost-write", checker="c", key=key, witness=(at,), words="w") for key, at in (("t-0", 5), ("t-1", 3))
    ]
    plan = load_plan(PLANS / "kip101-scenario-1.yaml")

    summary = summarize(plan, history, merge([Findings(anomalies=tuple(lost_write))]), repeat="", wall_seconds=1)

    assert in_short(summary.anomalies)[0] == "lost-write t-1: w (and 1 more)"


def test_summary_counts_anomalies_that_the_verdict_left_out() -> None:
    """Checkers list three anomalies of a kind for each partition and count the others in words."""
    anomalies = [Anomaly(kind="k", checker="c", key="t-0", witness=(n,), words=f"w{n}") for n in range(3)]
    last = replace(anomalies[-1], words=f"w2{more_of_kind(7)}")
    assert by_kind((*anomalies[:2], last)) == ("k t-0: w0 (and 9 more)",)


def test_counterexample_of_the_explorer_is_drawn_as_a_whole() -> None:
    """A few steps of two brokers: nothing of it may be left out."""
    plan = load_plan(Path(__file__).parent / "explore" / "counterexample.yaml")
    history = perform(plan, ExploreBackend(), BUILD).history
    page = page_of(history, judge(history), plan="", repeat="")
    assert page.diagram is not None
    assert page.diagram.whole
    assert "b1 added b2 to the ISR" in page.cause
    assert {arrow.kind for arrow in page.diagram.arrows} >= {"fetch", "fetch-reply", "write", "command"}


def test_cause_of_an_unknown_kind_says_what_is_known() -> None:
    """A guess would send the reader to the wrong place."""
    history, _ = small_loss()
    unknown_anomaly = Anomaly(kind="brand-new", checker="c", key="orders-0", witness=(3,), words="something is odd")
    cause = cause_found(history, merge([Findings(anomalies=(unknown_anomaly,))]))
    assert cause.name == ""
    assert cause.sentence.startswith("brand-new on orders-0: something is odd; b2 registered in ZooKeeper at 0.005 s")


def test_cause_tells_a_truncation_between_election_and_leading() -> None:
    """A leader that gets an older command first follows and truncates: it still had the record when it was elected."""
    scene = Scene()
    place: dict[str, Any] = {"topic": "orders", "partition": 0}
    own: dict[str, Any] = {"node": "b2", "life": 1, **place}
    state: dict[str, Any] = {"controller_epoch": 1, "elr": (), **place}
    scene.at(1).event(K.STATE_WRITTEN, node="b3", leader="b1", leader_epoch=0, zk_version=0, isr=("b1", "b2"), **state)
    for node, role in (("b1", "leader"), ("b2", "follower")):
        scene.at(2).event(K.APPEND, node=node, life=1, leader_epoch=0, offset=0, value="v", detail=role, **place)
    acked = scene.produce(0, "v", start=3, end=4, offset=0)
    scene.at(5).event(K.STATE_WRITTEN, node="b3", leader="b2", leader_epoch=1, zk_version=1, isr=("b2",), **state)
    follows = scene.at(6).event(K.BECAME_FOLLOWER, leader="b1", leader_epoch=0, **own)
    cut = scene.at(7).event(K.TRUNCATE, offset=0, detail="to its high watermark", **own)
    lead = scene.at(8).event(K.BECAME_LEADER, leader_epoch=1, leo=0, hw=0, isr=("b2",), **own)
    words = "b2 leads epoch 1 without the promised record v at offset 0; no wound excuses it"
    lost_write = Anomaly(kind="lost-write", checker="acked-loss", key="orders-0", witness=(acked, lead), words=words)

    cause = cause_found(scene.recorder.history(manifest_of()), merge([Findings(anomalies=(lost_write,))]))

    assert cause.step == cut
    assert cause.sentence == (
        "v (offset 0) was acknowledged at 0.004 s with ISR {b1,b2}; b2 was elected leader of epoch 1 at 0.005 s; b2 truncated its"
        " log to its HW 0 at 0.007 s, as a follower of b1 in epoch 0; and b2 led epoch 1 without v at 0.008 s, although b1 still"
        " held it."
    )
    assert follows in cause.facts


def test_cause_tells_a_lost_record_before_other_anomalies() -> None:
    """Duplicates and wrong offsets follow from a loss; a reader must see the loss first."""
    kinds = ("duplicate", "hw-regressed", "lost-write", "strong-isr")
    anomalies = tuple(Anomaly(kind=kind, checker="c", key="", witness=(at,), words="") for at, kind in enumerate(kinds))
    assert told_first(merge([Findings(anomalies=anomalies)])).kind == "lost-write"


def test_valid_run_has_no_cause() -> None:
    history, _ = small_loss()
    assert cause_of(history, merge([Findings()])) is None
