"""Rows of a made-up campaign: one of each outcome."""

from checkers.engine.verdict import Validity
from history.manifest import FaultCount
from reports.index import Banner, GoalRow, RunRow

BANNER = Banner(tone="invalid", word="INVALID")  # on all of them


def rows() -> list[RunRow]:
    """A valid run, an unknown one, an invalid one, one that is not live, and a failure of the harness."""
    crash = FaultCount(kind="crash", begun=2, acted=2)
    idle = FaultCount(kind="disk-full", begun=1, acted=0)
    valid, unknown = Validity.VALID, Validity.UNKNOWN
    return [
        RunRow(name="s1", seed=1, protocol="safe", validity=valid, live=True, acked=100, faults=(crash,), sim_seconds=60.0),
        RunRow(name="s2", seed=2, protocol="safe", validity=unknown, live=None, words=("too few writes",), faults=(idle,)),
        RunRow(
            name="s3",
            seed=3,
            protocol="v3",
            validity=Validity.INVALID,
            live=True,
            anomalies=(("lost-write", 2), ("unclean-election", 1)),
            words=("v1 is <gone>\x00 & away",),
            excused=1,
            acked=50,
            leader_changes=4,
            faults=(crash, idle),
            sim_seconds=60.0,
            wall_seconds=2.5,
            link="s3/report.html",
            repeat="highwater run --seed 3 --protocol v3",
        ),
        RunRow(name="s4", seed=4, protocol="safe", validity=valid, live=False, words=("orders-0 has no leader",)),
        RunRow(name="s5", seed=None, protocol="safe", validity=None, live=None, error="the disk of the harness is full"),
    ]


def goals() -> tuple[GoalRow, ...]:
    """A goal that was reached, one that was missed, and one that was not wanted."""
    return (
        GoalRow(name="message:leader-and-isr", count=12, wanted=True),
        GoalRow(name="message:log-info", count=0, wanted=True),
        GoalRow(name="error:NOT_CONTROLLER", count=0, wanted=False),
    )
