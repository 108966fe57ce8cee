"""Which code of the reference makes each kind of row of a history, and which statements of the documents that code implements.

The pages of runs name both beside a row. A test compares the table with the code and with `highwater/catalogue/trace.json`.
"""

from reports.rows import Source

# Kinds as `reports.rows.Line.kind`. A broker that writes a state with itself as the leader may be the leader or the controller.
SOURCES: dict[str, Source] = {
    "registered": Source(("reference/broker/startup._on_registered",), (181, 2)),
    "recovered": Source(("reference/broker/startup.boot",), (45, 301, 303, 315)),
    "fenced": Source(("reference/broker/heartbeats.on_fence_timer",), (185,)),
    "unfenced": Source(("reference/broker/heartbeats.on_reply",), (189,)),
    "dir-failed": Source(("reference/broker/log_dirs.take_offline",), (291,)),
    "gauge": Source(("reference/broker/log_dirs.note_gauges",), (312,)),
    "replica-deleted": Source(("reference/broker/commands.delete_replica",), (39,)),
    "append:leader": Source(("reference/replica/leader.on_produce",), (75, 134, 140)),
    "append:follower": Source(("reference/replica/follower.on_fetched",), (61,)),
    "truncate:to its high watermark": Source(("reference/replica/follower.become",), (37,)),
    "truncate:by epoch (KIP-101)": Source(("reference/replica/follower._truncate_by",), ()),
    "truncate:by epoch (KIP-279)": Source(("reference/replica/follower._truncate_by",), ()),
    "truncate:inside of the leader's batch": Source(("reference/replica/follower.on_fetched",), (61,)),
    "truncate:out of the leader's range": Source(("reference/replica/follower.on_fetched",), (61,)),
    "hw:leader": Source(("reference/replica/high_watermark.advance",), (72, 141, 143)),
    "hw:follower": Source(("reference/replica/high_watermark.follow",), ()),
    "became-leader": Source(("reference/replica/leader.become",), (34, 35)),
    "became-follower": Source(("reference/replica/follower.become",), (37,)),
    "resigned": Source(("reference/replica/follower.resign",), ()),
    "isr-change-sent": Source(("reference/replica/isr._propose",), (192, 58, 57, 137)),
    "isr-change-ended": Source(("reference/replica/isr.on_answer",), (59,)),
    "state-written:other": Source(("reference/controller/leader_election._write",), (5, 24, 155)),
    "state-written:leader": Source(("reference/replica/isr._write", "reference/controller/leader_election._write"), (4, 5, 24)),
    "controller-elected": Source(("reference/controller/controller_election.on_claimed",), (41, 1)),
    "controller-resigned": Source(("reference/controller/controller_election.resign",), (71,)),
    "broker-state": Source(("reference/controller/standings.move",), (187,)),
    "command-unanswered": Source(("reference/controller/channel._alert",), (77,)),
    "reassignment-begun": Source(("reference/controller/reassign/plan._set_move",), ()),
    "reassignment-ended": Source(("reference/controller/reassign/plan._end_move",), (238,)),
    "reassignment-refused": Source(("reference/controller/reassign/plan._take_up",), (50, 232, 233)),
    "request-refused": Source(("reference/controller/outstanding.refuse",), ()),
}
