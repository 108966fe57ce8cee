"""Translates a verdict into the words of the definitions, to compare the two by partition and checker.

A reason for not being live that no pattern matches is kept as it is, so that no definition agrees with it.
"""

import re

from checkers.engine.verdict import Verdict

ROOM = 100  # indices and processes of one partition

Words = dict[tuple[int, str], set[str]]

_NAMED = re.compile(r"\bt\w+-(\d+)")
_UNREAD = re.compile(r"^client-log: (\d+) promised records of")
_PATTERNS = tuple(
    (re.compile(pattern), checker, word)
    for pattern, checker, word in (
        (r"between rows (\d+) and (\d+), though no fault", "progress", "silent between {0:r} and {1:r}"),
        (r"^process \d+ got no answer to its \w+ at row (\d+)$", "availability", "hung {0:r}"),
        (r"^(\S+) has no leader", "availability", "offline {when}"),
        (r"^(.*) not in the ISR of", "availability", "outside {0} {when}"),
        (r"^(\S+) acts in (?:no )?epoch", "availability", "deaf {0} {when}"),
        (r"^the log of (\S+) differs from that of", "availability", "differs {0}"),
        (r"^the high watermark of (\S+) is", "availability", "uncommitted"),
        (r"^no acks=all produce to (\S+) was answered", "availability", "no-answer produce -1"),
        (r"^no acks=1 produce to (\S+) was answered", "availability", "no-answer produce 1"),
        (r"^no poll of (\S+) was answered", "availability", "no-answer poll None"),
        (r"^no question for the latest offset of (\S+) was", "availability", "no-answer latest None"),
        (r"^process \d+ knew the leader of .* for its produce at row (\d+)$", "availability", "refused {0:r}"),
        (r"^none of \d+ records that were sent to (\S+) with acks=0", "availability", "not-in-log"),
        (r"^process \d+ waited \d+ ms for the answer to its \S+ at row (\d+)$", "availability", "slow {0:r}"),
        (r"^process \d+ was told no end offset of .* by the answer at row (\d+)$", "availability", "endless {0:r}"),
        (r"^no client was told that (\S+) has no leader$", "availability", "untold"),
        (r"^no acks=all produce to (\S+) was acknowledged", "client-log", "unacknowledged"),
        (r"^the end of (\S+) could not be read", "client-log", "no end"),
        (r"^(\S+) could be read up to offset", "client-log", "short of the end"),
        (r"^final readers of (\S+) ", "availability", "unread"),
        (r"^(?:no broker|\S+) leads (\S+), though (\S+) could", "replacement", "unreplaced"),
        (r"^none of \d+ acks=all produces to (\S+) was acknowledged", "replacement", "unwritten"),
        (r"^(\S+) is not registered", "availability-cluster", "unregistered {0} {when}"),
        (r"^no broker is controller", "availability-cluster", "uncontrolled {when}"),
        (r"^at the end no administrator could read", "availability-cluster", "unlooked"),
        (r"^(\S+) is still requested", "availability-cluster", "pending {0}"),
        (r"^(\S+) still lists", "convergence", "told {0}"),
        (r"^a log of \S+ which .* is on (\S+), directory (\d+)", "convergence", "left {0} {1}"),
        (r"^(\S+) does not list \S+ for clients", "convergence", "mute {0}"),
        (r"^(\S+) tells clients that (?:no broker|\S+) leads", "convergence", "leader {0}"),
        (r"^(\S+) tells clients that \S+ is on", "convergence", "assignment {0}"),
        (r"^(\S+) gives clients topic id", "convergence", "view-id {0}"),
        (r"^(\S+) tells clients that the ISR of", "convergence", "isr {0}"),
        (r"^a stray log of \S+ is on (\S+), directory (\d+)", "convergence", "stray {0} {1}"),
        (r"^the log of \S+ on (\S+), directory (\d+) has topic id", "convergence", "log-id {0} {1}"),
        (r"^(\S+) has \d+ logs of", "convergence", "twice {0}"),
        (r"^(\S+) has no log of", "convergence", "missing {0}"),
        (r"^the log of \S+ on (\S+) ends at", "convergence", "unlike {0}"),
    )
)


class _Told(str):
    # A word of a reason; the format `:r` turns a row index into one within its partition.

    def __format__(self, how: str) -> str:
        return str(int(self) % ROOM) if how == "r" else str(self)


def words(verdict: Verdict) -> Words:
    """Return a verdict's findings by partition and checker; those without a partition belong to the first partition."""
    words_found: Words = {}
    for anomaly in verdict.anomalies:
        words_found.setdefault((_partition(anomaly.key), anomaly.checker), set()).add(anomaly.kind)
    for loss in verdict.excused:
        excuse = f"excused {loss.offset} {loss.value} by {loss.wound % ROOM}"
        words_found.setdefault((loss.partition, "acked-loss"), set()).add(excuse)
    for cut in verdict.cuts:
        words_found.setdefault((cut.partition, "acked-loss"), set()).add(f"cut at {cut.offset} of {cut.leader_epoch}")
    for reason in verdict.not_live:
        _add_complaint(reason, words_found)
    for reason in verdict.unchecked:
        unread = _UNREAD.search(reason)
        words_found.setdefault((_partition(reason), reason.partition(":")[0]), set()).add(
            f"{unread[1]} unread" if unread else "unjudged"
        )
    return words_found


def _add_complaint(reason: str, words_found: Words) -> None:
    """Add a complaint about liveness in the words of the definitions."""
    when = "in time" if reason.endswith("B after healing") else "at the end"
    for pattern, checker, word in _PATTERNS:
        if match := pattern.search(reason):
            row = re.search(r"at row (\d+)$", reason)
            number = int(row[1]) // ROOM if row else _partition(reason)
            several = match[1].split(", ") if pattern.groups == 1 else [match[pattern.groups and 1]]
            words_told = (
                word.format(_Told(subject_named), *map(_Told, match.groups()[1:]), when=when) for subject_named in several
            )
            words_found.setdefault((number, checker), set()).update(words_told)
            return
    words_found.setdefault((_partition(reason), ""), set()).add(reason)


def _partition(reason: str) -> int:
    named = _NAMED.search(reason)
    return int(named[1]) if named else 0
