"""What a fault on real brokers needs of the machine, so that a site can refuse it and a node can be prepared for it."""

from typing import Literal, assert_never

from highwater.plans.plan import Plan
from nemesis import faults
from nemesis.faults import AnyFault

# libfaketime, file permissions that hold also for root, small file systems; the other names are features of the network agent.
Means = Literal["fake-clock", "permissions", "small-dirs", "held", "loss_per_mille", "delay_ms", "reset"]


def means(fault: AnyFault) -> Means | None:
    """What of the machine this fault needs beside signals, files and proxies; None if nothing."""
    match fault:
        case faults.ClockJump() | faults.ClockDrift() | faults.ClockStrobe():
            return "fake-clock"
        case faults.DirUnreadable():
            return "permissions"
        case faults.DiskFull():
            return "small-dirs"
        case faults.Partition() | faults.Clog() | faults.ZooKeeperLinks(how="cut") | faults.ZooKeeperDown(how="cut"):
            return "held"
        case faults.Packets():
            return "loss_per_mille"
        case faults.Slow() | faults.ZooKeeperLinks():
            return "delay_ms"
        case faults.Reset():
            return "reset"
        case faults.Pause() | faults.Crash() | faults.Restart() | faults.Shutdown() | faults.Roll() | faults.PowerLoss():
            return None
        case faults.Join() | faults.Decommission():
            return None
        case faults.ExpireSession() | faults.ZooKeeperDown() | faults.DirFile() | faults.DirFailure():
            return None
        case faults.DiskSlow() | faults.DiskSwap():
            return None
        case faults.CrashAt() | faults.AnswerLost() | faults.AnswerLate() | faults.DeposedAt():
            return None  # the simulator alone performs them
        case _:
            assert_never(fault)


def means_of(plan: Plan) -> frozenset[Means]:
    """What the faults of the plan need of the machine."""
    return frozenset(needed for window in plan.schedule if (needed := means(window.fault)) is not None)
