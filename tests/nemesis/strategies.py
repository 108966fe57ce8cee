"""Hypothesis strategies: any struct of a plan, and any cluster shape for a schedule."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from history.fault_kinds import KIND_NAMES
from nemesis.profiles import PROFILES, Profile
from nemesis.schedule import Shape, TopicFacts

seeds = st.integers(min_value=0, max_value=(1 << 64) - 1)


def anything(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value of this type, valid for a run or not; integers fit into 64 bits, as the YAML reader demands."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return st.one_of([anything(part) for part in get_args(annotation)])
    if origin is Literal:
        return st.sampled_from(get_args(annotation))
    if origin is tuple:
        return st.lists(anything(get_args(annotation)[0]), max_size=3).map(tuple)
    if origin is dict:
        keys, values = get_args(annotation)
        return st.dictionaries(anything(keys), anything(values), max_size=3)
    if annotation is NoneType:
        return st.none()
    if annotation is msgspec.UnsetType:
        return st.just(msgspec.UNSET)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
    if annotation is str:
        return st.text(max_size=20)
    fields = {field.name: anything(field.type) for field in msgspec.structs.fields(annotation)}
    return st.builds(annotation, **fields)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Clusters of one to seven brokers, also with runs too short for a fault."""
    topics = draw(st.lists(st.sampled_from(("orders", "payments", "events")), min_size=1, max_size=3, unique=True))
    brokers = draw(st.integers(1, 7))
    return Shape(
        brokers=brokers,
        log_dirs=draw(st.integers(1, 3)),
        topics=tuple(
            TopicFacts(
                name=name,
                partitions=draw(st.integers(1, 4)),
                min_insync_replicas=draw(st.integers(1, brokers)),
                flush=draw(st.sampled_from(("none", "before_ack"))),
            )
            for name in topics
        ),
        session_timeout_ms=draw(st.integers(50, 10_000)),
        replica_lag_time_max_ms=draw(st.integers(50, 10_000)),
        end_ms=draw(st.integers(1, 90_000)),
        zookeeper=draw(st.sampled_from((1, 3))),
        places=draw(st.integers(1, 3)),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any kinds under any profile."""
    kinds = draw(st.one_of(st.just(list(KIND_NAMES)), st.lists(st.sampled_from(KIND_NAMES), unique=True)))
    return Profile(name=draw(st.sampled_from(PROFILES)), kinds=tuple(kinds), swarm=draw(st.booleans()))
