"""The kinds of faults of log directories that a schedule can draw: failed, unreadable, full, slow or swapped ones."""

from history.seed import Rng
from nemesis.blows import Kind, any_broker, blow, brief, lasting, some_role
from nemesis.faults import AnyFault, DirFailure, DirFile, DirUnreadable, DiskFull, DiskSlow, DiskSwap
from nemesis.schedule import Shape


def _dir_unreadable(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: all permissions on a log directory are revoked."""
    return DirUnreadable(dir=rng.below(shape.log_dirs))


def _dir_file(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: a file replaces a log directory, which later comes back with its logs."""
    return DirFile(dir=rng.below(shape.log_dirs))


def _dir_removed(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: a file replaces a log directory, which later comes back empty."""
    return DirFile(dir=rng.below(shape.log_dirs), removed=True)


def _dir_failure(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: the device of a log directory fails and loses nothing."""
    return DirFailure(dir=rng.below(shape.log_dirs))


def _dir_drop(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: the device of a log directory fails and loses what was not synced."""
    return DirFailure(dir=rng.below(shape.log_dirs), drop_unflushed=True)


def _disk_full(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: no space is left on the device of a log directory."""
    return DiskFull(dir=rng.below(shape.log_dirs))


def _disk_slow(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: flushes take 50 ms longer, or so long that the broker leaves the ISR (up to the lag limit)."""
    return DiskSlow(dir=rng.below(shape.log_dirs), extra_ms=rng.pick((50, 200, 1000, shape.replica_lag_time_max_ms)))


def _disk_swap(rng: Rng, shape: Shape) -> AnyFault:
    """Draw a fault: an empty directory replaces a log directory."""
    return DiskSwap(dir=rng.below(shape.log_dirs))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="dir-unreadable",
        says="a log directory without permissions",
        draw=blow(_dir_unreadable, some_role, brief),
    ),
    Kind(
        name="dir-file",
        says="a file in the place of a log directory",
        draw=blow(_dir_file, some_role, brief),
    ),
    Kind(
        name="dir-removed",
        says="a log directory that is removed, with a file in its place",
        draw=blow(_dir_removed, any_broker, brief),
        destroys="everything",
    ),
    Kind(
        name="dir-failure",
        says="a log directory that fails with I/O errors",
        draw=blow(_dir_failure, some_role, brief),
    ),
    Kind(
        name="dir-drop",
        says="a log directory that fails and loses what was not synced",
        draw=blow(_dir_drop, some_role, brief),
        destroys="unflushed",
    ),
    Kind(
        name="disk-full",
        says="a log directory without space",
        draw=blow(_disk_full, some_role, brief),
    ),
    Kind(
        name="disk-slow",
        says="flushes that take longer, up to the lag limit",
        draw=blow(_disk_slow, some_role, lasting),
    ),
    Kind(
        name="disk-swap",
        says="a log directory that comes back empty",
        draw=blow(_disk_swap, any_broker, brief),
        destroys="everything",
    ),
)
