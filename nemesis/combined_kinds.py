"""The kinds of faults that are made of several faults, which hit one partition in an order that seldom comes by chance."""

from history.seed import Rng
from nemesis.blows import Aim, Blow, Kind, above_session, around_session, leader
from nemesis.faults import AnyFault, Clog, Crash, DirUnreadable, ExpireSession, Partition, PowerLoss, Restart
from nemesis.targets import IsrMember, WholeIsr

_UNSEEN_MS_MIN = 50


def _dir_gone_at_restart(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: all of the ISR is down, and a directory of one member cannot be read when it starts again."""
    lasts_ms = around_session(rng, aim.shape)
    unreadable = Blow(
        fault=DirUnreadable(dir=rng.below(aim.shape.log_dirs)),
        target=IsrMember(topic=aim.topic, partition=aim.partition),
        lasts_ms=lasts_ms + rng.between(500, 5000),
        after_ms=rng.between(1, lasts_ms - 1),
    )
    return Blow(fault=Crash(), target=WholeIsr(topic=aim.topic, partition=aim.partition), lasts_ms=lasts_ms, beside=(unreadable,))


def _power_loss_unseen(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: brokers lose power and start again before their sessions end."""
    loss = PowerLoss(torn=rng.ratio(1, 2), lose_all=rng.ratio(1, 2))
    lasts_ms = rng.between(_UNSEEN_MS_MIN, max(_UNSEEN_MS_MIN, aim.shape.session_timeout_ms // 2))
    isr = WholeIsr(topic=aim.topic, partition=aim.partition)
    return Blow(fault=loss, target=rng.pick((isr, leader(rng, aim))), lasts_ms=lasts_ms)


def _truncated_in_retries(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a leader that clients reach is deposed unseen, and so is the next: it truncates while clients retry."""
    lasts_ms = rng.between(400, 1500)
    target = leader(rng, aim)
    deposed_ms = rng.between(50, 300)
    faults: tuple[AnyFault, ...] = (ExpireSession(), Restart(), Restart(session_ends=True))
    again = rng.pick(faults)
    return Blow(
        fault=Partition(links=("peers", "zookeeper")),
        target=target,
        lasts_ms=lasts_ms,
        beside=(
            Blow(fault=ExpireSession(), target=target, lasts_ms=300, after_ms=deposed_ms),
            Blow(fault=again, target=target, lasts_ms=300, after_ms=lasts_ms + rng.between(50, 800)),
        ),
    )


def _stale_leader(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: a deposed leader goes on serving the clients that reach it, and no broker has metadata of the next."""
    lasts_ms = above_session(rng, aim.shape)
    return Blow(
        fault=Partition(links=("peers", "zookeeper")),
        target=leader(rng, aim),
        lasts_ms=lasts_ms,
        beside=(
            Blow(
                fault=Clog(links=("peers",), kinds=("update-metadata",), direction="inbound"),
                target=WholeIsr(topic=aim.topic, partition=aim.partition),
                lasts_ms=lasts_ms + rng.between(100, 2000),
            ),
        ),
    )


KINDS: tuple[Kind, ...] = (
    Kind(
        name="power-loss-unseen",
        says="power loss of a leader or all of an ISR, and a start before their sessions end",
        draw=_power_loss_unseen,
        destroys="unflushed",
    ),
    Kind(
        name="isr-down-dir-unreadable",
        says="kill -9 of all of an ISR, and a directory of one member is unreadable when it starts",
        draw=_dir_gone_at_restart,
    ),
    Kind(
        name="truncated-in-retries",
        says="a leader that clients reach is deposed unseen, and the next soon after, within the retries of one produce",
        draw=_truncated_in_retries,
    ),
    Kind(
        name="stale-leader",
        says="a deposed leader that clients reach, while updates of metadata wait",
        draw=_stale_leader,
    ),
)
