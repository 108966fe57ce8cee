"""A stored run as frames: what it found, who led when, and how far each follower was behind.

    highwater run --plan corpus/plans/kip101-scenario-1.yaml --protocol truncate-to-hw
    python docs/examples/look_inside.py store/kip101-scenario-1/sim-…

Each step is a cell of a notebook; the frames are Polars frames, which every plotting library takes.
"""

import sys

import polars as pl

import highwater

run = highwater.load(sys.argv[1])

print(run.anomalies.select("kind", "key", "words"))

# How many calls of each kind ended how.
print(run.operations.group_by("f", "type").len().sort("f", "type"))

# All replicas every half second: the run is performed again for that.
states = run.states(every_ms=500)

# Who led each partition, in ZooKeeper's words: one row for each change.
in_zookeeper = states.filter(pl.col("node") == "zookeeper").sort("partition", "time_ns")
changed = pl.col("leader_epoch") != pl.col("leader_epoch").shift(1).over("partition")
print(in_zookeeper.filter(changed.fill_null(True)).select("time_ns", "partition", "leader", "leader_epoch", "isr"))

# How many records each follower was behind the leader that it followed, at most.
leaders = states.filter(pl.col("role") == "leader").select("time_ns", "partition", "leader", end="leo")
behind = states.filter(pl.col("role") == "follower").join(leaders, on=["time_ns", "partition", "leader"])
print(behind.group_by("node", "partition").agg(records_behind=(pl.col("end") - pl.col("leo")).max()).sort("node", "partition"))

# What was held around the first anomaly: the states just before and at the row that proves it.
if len(run.anomalies):
    witness = run.anomalies["witness"][0][-1]
    row = run.history.row(witness)
    at_ns = (row[0] if isinstance(row, tuple) else row).time_ns
    print(run.states(at_ns=[at_ns - 1, at_ns]).filter(pl.col("partition") == run.anomalies["key"][0]).drop("isr"))
