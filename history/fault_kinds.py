"""The kinds of faults by family, as the rows of a history name them: judges and reports read a fault's family here, not its name.

`nemesis.kinds` says how each is drawn. Schedules are drawn from this order: another one gives other schedules.
"""

from typing import Literal

Family = Literal[
    "partition",
    "network",
    "clock",
    "pause",
    "disk",
    "crash",
    "point",
    "power",
    "session",
    "zookeeper",
    "place",
    "step",
    "combined",
    "roll",
    "message",
]

FAMILIES: dict[Family, tuple[str, ...]] = {
    "partition": (
        "partition-halves",
        "partition-ring",
        "partition-bridge",
        "isolate-one",
        "isolate-leader",
        "isolate-controller",
        "isolate-long",
        "cut-peers-long",
        "cut-zookeeper-long",
        "cut-zookeeper",
        "cut-peers",
        "cut-clients",
        "one-way",
    ),
    "network": ("packets", "slow", "clog", "commands-late", "commands-doubled", "commands-replayed", "reset"),
    "clock": ("clock-jump", "clock-drift", "clock-strobe"),
    "pause": ("pause-short", "pause-long"),
    "disk": (
        "dir-unreadable",
        "dir-file",
        "dir-removed",
        "dir-failure",
        "dir-drop",
        "disk-full",
        "disk-slow",
        "disk-swap",
    ),
    "crash": (
        "controller-kill",
        "crash-leader",
        "crash-isr-member",
        "crash-random",
        "crash-several",
        "crash-everyone",
        "shutdown",
        "bounce",
    ),
    "point": ("point-random", "point-controller"),
    "power": ("power-loss", "power-loss-everyone", "power-loss-unseen"),
    "session": ("expire-session", "bounce-at-once"),
    "zookeeper": ("zookeeper-down", "zookeeper-split", "zookeeper-lag"),
    "place": ("place-isolated", "place-cut", "place-one-way", "place-slow", "place-lossy", "place-reset"),
    "step": ("answer-lost", "answer-late", "deposed-writing", "crash-at-step"),
    "combined": ("isr-down-dir-unreadable", "truncated-in-retries", "stale-leader"),
    "roll": ("roll",),
    "message": ("message-late", "message-held", "message-lost", "message-dropped"),
}
KIND_NAMES: tuple[str, ...] = tuple(name for names in FAMILIES.values() for name in names)
_BY_NAME: dict[str, Family] = {name: family for family, names in FAMILIES.items() for name in (family, *names)}
_BY_WORD = {name.partition("-")[0]: family for name, family in reversed(_BY_NAME.items())} | _BY_NAME


def family_of(kind: str) -> Family | None:
    """The family of a kind. A name that a plan made up belongs where its first word does, as for `--faults`: `place-clog`."""
    return _BY_NAME.get(kind) or _BY_WORD.get(kind.partition("-")[0])
