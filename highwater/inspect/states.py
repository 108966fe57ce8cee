"""The states of all replicas at many moments of one run, as a frame: the run is performed again once."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from highwater.inspect.moment import Moment, Process
from highwater.inspect.playback import check_same, in_order
from highwater.inspect.session import playback_of
from highwater.inspect.view import ZOOKEEPER, assignments, state_of
from highwater.plans.plan import Plan
from history.history import History
from reference.replica.partition import Follower, Leader, Partition, brokers_of
from reference.types import BrokerId, broker_address

SCHEMA: dict[str, Any] = {
    "time_ns": pl.Int64,
    "node": pl.String,
    "partition": pl.String,
    "role": pl.String,
    "leader": pl.String,
    "leader_epoch": pl.Int64,
    "isr": pl.List(pl.String),
    "hw": pl.Int64,
    "leo": pl.Int64,
}


def states(plan: Plan, stored: History, times_ns: Sequence[int]) -> pl.DataFrame:
    """One row for each replica, and for the state of each partition in ZooKeeper, at each of these times.

    `role` is leader, follower, idle or down, or zookeeper. Null is what a node does not hold: the ISR of a follower, the HW of a
    broker that is down. UsageError if the code no longer makes the rows of the stored run.
    """
    rows: list[dict[str, object]] = []
    recorded_rows = in_order([*stored.operations, *stored.events])
    playback = playback_of(plan, recorded_rows)
    try:
        for time_ns in sorted(times_ns):
            playback.run_to_time(time_ns)
            rows.extend({"time_ns": time_ns, **row} for row in _rows_of(playback.moment()))
        check_same(playback, recorded_rows, stored.manifest, 0)
    finally:
        playback.close()
    return pl.DataFrame(rows, schema=SCHEMA)


def _rows_of(moment: Moment) -> Iterator[dict[str, object]]:
    for process in moment.processes:
        yield from _replicas_of(process)
    for tp, replicas in assignments(moment.znodes):
        state = state_of(moment.znodes, tp, replicas)
        if state is not None:
            yield {
                "node": ZOOKEEPER,
                "partition": tp,
                "role": ZOOKEEPER,
                "leader": _name(state.leader),
                "leader_epoch": state.leader_epoch,
                "isr": _names(brokers_of(state.isr)),
            }


def _replicas_of(process: Process) -> Iterator[dict[str, object]]:
    if process.state is None:
        for tp, leo in process.logs.items():
            yield {"node": process.name, "partition": tp, "role": "down", "leo": leo}
        return
    for tp, partition in process.state.broker.partitions.items():
        state_fields = {"leader_epoch": partition.leader_epoch, "hw": partition.hw, "leo": partition.log.leo}
        yield {"node": process.name, "partition": tp, **_role(process.name, partition), **state_fields}


def _role(name: str, partition: Partition) -> dict[str, object]:
    match partition.role:
        case Leader() as leader:
            return {"role": "leader", "leader": name, "isr": _names(brokers_of(leader.isr))}
        case Follower() as follower:
            return {"role": "follower", "leader": _name(follower.leader)}
        case _:
            return {"role": "idle"}


def _name(broker: BrokerId | None) -> str | None:
    return None if broker is None else broker_address(broker)


def _names(brokers: Sequence[BrokerId]) -> list[str]:
    return [broker_address(broker) for broker in brokers]
