"""Hypothesis strategies shared by several packages: rows, manifests and whole histories of any shape."""

from hypothesis import strategies as st
from msgspec.structs import replace

from history.event import ClusterEvent
from history.history import History
from history.manifest import Assignment, RunManifest
from history.op import Operation
from history.promise import Promise, TopicPromise

MANIFEST = RunManifest(
    run_id="run-1",
    seed=1,
    draws=7,
    plan_digest="00",
    protocol="safe",
    backend="sim",
    commit="0000000",
    dirty=False,
    versions={"highwater": "0"},
    outcome="completed",
    promise=Promise(
        topics=(TopicPromise(topic="orders"),), session_timeout_ms=6000, replica_lag_time_max_ms=4000, request_timeout_ms=2000
    ),
    brokers=("b1", "b2", "b3"),
    assignments=(Assignment(topic="orders", partition=0, replicas=("b1", "b2", "b3")),),
)

_NUMBERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_TEXTS = st.text(max_size=8)


def operations() -> st.SearchStrategy[Operation]:
    """One row with any content that the schema allows."""
    columns: dict[str, st.SearchStrategy[object]] = {
        name: st.none() | _NUMBERS for name in ("partition", "offset", "acks", "leader_epoch", "hw")
    }
    columns.update({name: st.none() | _TEXTS for name in ("topic", "topic_id", "value", "error", "node")})
    return st.builds(Operation, index=st.just(0), slot=st.integers(0, 5), process=_NUMBERS, f=_TEXTS, time_ns=_NUMBERS, **columns)


def events() -> st.SearchStrategy[ClusterEvent]:
    """One row with any content that the schema allows."""
    numbers = ("life", "incarnation", "partition", "leader_epoch", "controller_epoch", "zk_version", "hw", "leo", "offset", "dir")
    columns: dict[str, st.SearchStrategy[object]] = {name: st.none() | _NUMBERS for name in (*numbers, "count", "gauge")}
    texts = ("node", "broker", "topic", "topic_id", "leader", "value", "digest", "fault", "detail")
    columns.update({name: st.none() | _TEXTS for name in texts})
    columns.update({name: st.none() | st.lists(_TEXTS, max_size=3).map(tuple) for name in ("isr", "elr")})
    return st.builds(ClusterEvent, index=st.just(0), time_ns=_NUMBERS, **columns)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any history, with indices as a recorder assigns them."""
    rows = draw(st.lists(operations() | events(), max_size=12))
    numbered = [replace(row, index=index) for index, row in enumerate(rows)]
    return History(
        MANIFEST,
        operations=[row for row in numbered if isinstance(row, Operation)],
        events=[row for row in numbered if isinstance(row, ClusterEvent)],
    )
