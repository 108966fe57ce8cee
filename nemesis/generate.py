"""Draws schedules from a seed: which kinds of faults a run has, how densely, and when.

Swarm testing (Groce et al., 2012): a run without most kinds reaches states that a run with all kinds never reaches. A schedule
is made of rounds, as in Bufstream's tests: each round draws some kinds, lets their short windows overlap on one partition, closes
them all and leaves a calm in which the cluster recovers. Kinds are drawn like cards from a deck: none twice before each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from history.seed import Rng
from nemesis.blows import Aim, Blow, Kind
from nemesis.faults import wounds
from nemesis.profiles import Profile, usable, victims, victims_order
from nemesis.schedule import Shape, Window, broker_ids, clash
from nemesis.targets import LeaderOf, Named

_LEAD_MS = 2500  # the cluster is up and the first records are acknowledged before the first blow
_ROUNDS_MAX = 100
_RESTLESS_MAX = 12  # the density of blows in a round without swarm; swarms stay below it
_SWIZZLED = ("isolate-one", "cut-zookeeper", "cut-peers", "one-way", "clog", "pause-long", "crash-random")
_DEPOSING = ("expire-session", "bounce", "bounce-at-once", "crash-leader", "isolate-leader", "cut-zookeeper", "pause-long")
FOR_LONG = ("isolate-long", "cut-peers-long", "cut-zookeeper-long")  # until the broker must be replaced
_FLAPPING = ("dir-unreadable", "dir-file", "dir-failure", "disk-full", "dir-drop", "disk-swap")
_RETRIES = 4  # draws of a blow until it fits into its round; then it is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """The parameters that hold for all faults drawn in one schedule."""

    profile: Profile
    shape: Shape
    order: tuple[int, ...]  # of victims


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """The partition and the times at which the faults of one round of the schedule aim."""

    ground: _Ground
    aim: Aim
    begin_ms: int
    span_ms: int


def generate(rng: Rng, profile: Profile, shape: Shape) -> tuple[Window, ...]:
    """Draw a schedule for this cluster, ended at `shape.end_ms`, valid by `nemesis.schedule.validate`; sorted by begin.

    Empty where the profile leaves no kind that may strike.
    """
    whole = [entry for entry in usable(profile, shape) if entry.named_only]  # over the whole schedule, beside its rounds
    kinds = _swarm(rng.fork("swarm"), tuple(entry for entry in usable(profile, shape) if entry not in whole), profile.swarm)
    ground = _Ground(profile=profile, shape=shape, order=victims_order(rng.fork("victims"), shape))
    restless = rng.fork("restless").pick((1, 2, 3, 4, 6)) if profile.swarm else _RESTLESS_MAX
    deck: list[Kind] = []
    windows: list[Window] = []
    at = min(_LEAD_MS, shape.end_ms // 5)
    for entry in whole:
        draws = rng.fork(entry.name)
        site = _Site(ground=ground, aim=_aim(draws, shape), begin_ms=at, span_ms=3000)
        windows += _drawn_windows(draws, site, entry, windows)
    if not kinds:
        return _numbered(windows)
    alone = _drawn_isolation(rng.fork("alone"), ground, at)
    if alone is not None:
        windows.append(alone)
        at = alone.until_ms + _calm_ms(rng.fork("calm after it"), shape)
    for number in range(_ROUNDS_MAX):
        draws = rng.fork(f"round {number}")
        mix, deck = _deal(draws.fork("deal"), deck, kinds, draws.between(1 + restless // 2, 1 + restless))
        fresh = _drawn_round(draws, ground, mix, at, restless)
        windows += fresh
        at = max([at, *(window.until_ms for window in fresh)]) + _calm_ms(draws.fork("calm"), shape)
        if at >= shape.end_ms:
            break
    return _numbered(windows)


def _numbered(windows: list[Window]) -> tuple[Window, ...]:
    windows.sort(key=lambda window: (window.at_ms, window.until_ms, window.kind))
    return tuple(msgspec.structs.replace(window, id=f"f{number}") for number, window in enumerate(windows, 1))


def _drawn_isolation(rng: Rng, ground: _Ground, at: int) -> Window | None:
    """Draw one broker to be cut off for long with no fault beside it, in every second schedule: only such a period shows whether
    the others replace it and go on (docs/promise.md LIVE-6 and LIVE-7). None where the profile has no such kind.
    """
    kinds = [kind for kind in usable(ground.profile, ground.shape) if kind.name in FOR_LONG]
    if not ground.profile.swarm or not kinds or not rng.ratio(1, 2):
        return None
    kind = rng.pick(kinds)
    window = _window(kind, at, kind.draw(rng, _aim(rng, ground.shape)))
    return window if window.at_ms < window.until_ms <= ground.shape.end_ms else None


def _swarm(rng: Rng, kinds: tuple[Kind, ...], swarm: bool) -> tuple[Kind, ...]:
    """Draw which kinds of faults this run may have: from one kind to all of them."""
    if not swarm or len(kinds) <= 1:
        return kinds
    share = rng.pick((1, 2, 4, 6, 8))
    chosen = tuple(kind for kind in kinds if rng.ratio(share, 8))
    return chosen or (rng.pick(kinds),)


def _deal(rng: Rng, deck: list[Kind], kinds: tuple[Kind, ...], count: int) -> tuple[list[Kind], list[Kind]]:
    """Take `count` kinds of faults from a shuffled deck, which is shuffled anew when it runs out -> (dealt, rest of the deck)."""
    if len(deck) < count:
        deck = [*deck, *rng.shuffled([kind for kind in kinds if kind not in deck])]
    return deck[:count], deck[count:]


def _calm_ms(rng: Rng, shape: Shape) -> int:
    """Draw the time without faults between two rounds: 0.1 to 1 s, 1 to 4 s, or until the ISR can be complete again."""
    whole = shape.session_timeout_ms + shape.replica_lag_time_max_ms
    low, high = rng.pick(((100, 1000), (1000, 4000), (whole, whole + 2000)))
    return rng.between(low, high)


def _drawn_round(rng: Rng, ground: _Ground, mix: Sequence[Kind], at: int, restless: int) -> list[Window]:
    """Draw the fault windows of one round, begun within a few seconds from `at`; each dealt kind appears at least once."""
    swizzled = _swizzle(rng.fork("swizzle"), ground, mix, at)
    if swizzled:
        return swizzled
    site = _Site(ground=ground, aim=_aim(rng, ground.shape), begin_ms=at, span_ms=rng.between(300, 5000))
    strikes = [*mix, *(rng.pick(mix) for _ in range(rng.below(restless + 1)))]
    windows = _chase(rng.fork("chase"), site, mix)
    windows += _flap(rng.fork("flap"), site, mix)
    for number, kind in enumerate(strikes):
        windows += _drawn_windows(rng.fork(f"strike {number}"), site, kind, windows)
    return windows


def _drawn_windows(rng: Rng, site: _Site, kind: Kind, earlier: Sequence[Window]) -> tuple[Window, ...]:
    """Draw the window of this kind, or windows that belong together, that clash with no earlier ones of its round, or none."""
    for _ in range(_RETRIES):
        aim = _aim(rng, site.ground.shape) if rng.ratio(1, 4) else site.aim
        blow = kind.draw(rng, aim)
        blow = _spare(rng, site.ground, blow)
        at = site.begin_ms + rng.below(site.span_ms)
        windows = tuple(
            _window(kind, at, strike) for strike in (blow, *(_spare(rng, site.ground, strike) for strike in blow.beside))
        )
        fit = all(window.until_ms <= site.ground.shape.end_ms for window in windows)
        if fit and not any(clash(window, drawn_window) for window in windows for drawn_window in earlier):
            return windows
    return ()


def _window(kind: Kind, at: int, blow: Blow) -> Window:
    at += blow.after_ms
    return Window(id="", kind=kind.name, at_ms=at, until_ms=at + blow.lasts_ms, fault=blow.fault, target=blow.target)


def _chase(rng: Rng, site: _Site, mix: Sequence[Kind]) -> list[Window]:
    """Draw faults that depose the leader of one partition repeatedly: several epochs pass before followers have fetched.

    Empty in two rounds of three, and where the mix has no kind that deposes.
    """
    kinds = [kind for kind in mix if kind.name in _DEPOSING]
    if not kinds or not rng.ratio(1, 3):
        return []
    shape = site.ground.shape
    low, high = rng.pick(((50, 800), (200, 2000), (shape.session_timeout_ms, shape.session_timeout_ms + 1500)))
    windows: list[Window] = []
    at = site.begin_ms
    for _ in range(rng.between(2, 6)):
        kind = rng.pick(kinds)
        blow = kind.draw(rng, site.aim)
        target = LeaderOf(topic=site.aim.topic, partition=site.aim.partition)
        window = Window(id="", kind=kind.name, at_ms=at, until_ms=at + blow.lasts_ms, fault=blow.fault, target=target)
        windows += [window] if window.until_ms <= shape.end_ms else []
        at += rng.between(low, high)
    return windows


def _flap(rng: Rng, site: _Site, mix: Sequence[Kind]) -> list[Window]:
    """Draw faults of one log directory that fails and comes back repeatedly, before the ISR is complete again (KIP-112).

    Empty in one round of two, and where the mix has no kind that fails a directory.
    """
    kind = next((kind for kind in mix if kind.name in _FLAPPING), None)
    if kind is None or not rng.ratio(1, 2):
        return []
    shape = site.ground.shape
    blow = _spare(rng, site.ground, kind.draw(rng, site.aim))
    target = blow.target if isinstance(blow.target, Named) else Named(brokers=(rng.pick(broker_ids(shape)),))
    windows: list[Window] = []
    at = site.begin_ms
    for _ in range(rng.between(2, 5)):
        until = at + rng.between(100, 1500)
        windows += [Window(id="", kind=kind.name, at_ms=at, until_ms=until, fault=blow.fault, target=target)]
        at = until + rng.between(50, 1500)
    return [window for window in windows if window.until_ms <= shape.end_ms]


def _aim(rng: Rng, shape: Shape) -> Aim:
    topic = rng.pick(shape.topics)
    return Aim(shape=shape, topic=topic.name, partition=rng.below(topic.partitions))


def _spare(rng: Rng, ground: _Ground, blow: Blow) -> Blow:
    """Under profile `within`, aim a fault that destroys data at one of the brokers whose data this run may destroy."""
    if ground.profile.name == "beyond" or not any(wounds(blow.fault, topic.flush) for topic in ground.shape.topics):
        return blow
    target = Named(brokers=(rng.pick(victims(blow.fault, ground.shape, ground.order)),))
    return replace(blow, target=target)


def _swizzle(rng: Rng, ground: _Ground, mix: Sequence[Kind], at: int) -> list[Window]:
    """Draw one fault that begins on several brokers in turn and ends in another order (FoundationDB's swizzle-clogging).

    Empty in nine rounds of ten, and where the mix has no kind that can last longer.
    """
    if not rng.ratio(1, 10):
        return []
    kind = next((kind for kind in mix if kind.name in _SWIZZLED), None)
    if kind is None:
        return []
    blow = kind.draw(rng, _aim(rng, ground.shape))
    chosen = rng.shuffled(broker_ids(ground.shape))[: rng.between(2, max(2, ground.shape.brokers))]
    step = rng.between(50, 800)
    laid = at + step * len(chosen)
    windows = [
        Window(
            id="",
            kind=kind.name,
            at_ms=at + step * place,
            until_ms=laid + blow.lasts_ms + step * lifted,
            fault=blow.fault,
            target=Named(brokers=(broker,)),
        )
        for place, (broker, lifted) in enumerate(zip(chosen, rng.shuffled(range(len(chosen))), strict=True))
    ]
    return windows if all(window.until_ms <= ground.shape.end_ms for window in windows) else []
