"""Replicas that lead or follow, as far as their directories are known: one in a failed directory resigns at once (KIP-112)."""

from collections.abc import Iterable

from checkers.engine.facts import MS
from checkers.engine.rows import ClusterRow
from checkers.liveness.debts import DUE_MS, Partition
from history.event import EventKind as K
from history.fault_kinds import family_of


class Roles:
    """The replicas that lead or follow, their directories, and which of these failed."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, Partition], int | None] = {}
        self._deleted: set[tuple[Partition, str | None]] = set()  # and their topic ids; their replicas go without a row
        self._roles_held: set[tuple[str, Partition]] = set()
        self._failed: dict[tuple[str, Partition], ClusterRow] = {}  # -> when the directory failed

    def see(self, row: ClusterRow) -> list[str]:
        """Apply one row; return which replicas gave up their roles too late."""
        key = (row.node, (row.topic, row.partition or 0))
        match row.kind:
            case K.NODE_STARTED | K.NODE_STOPPED:
                # A directory may be emptied while the broker is down; the logs that are left are recovered.
                self._places = {replica: dir_ for replica, dir_ in self._places.items() if replica[0] != row.node}
                self._roles_held = {replica for replica in self._roles_held if replica[0] != row.node}
                failed = [key for key in self._failed if key[0] == row.node]
                return self._late_resignations(row, failed, DUE_MS)  # one that was killed at once had no time
            case K.DIR_FAILED:
                replicas_in_dir = {
                    replica for replica, dir_ in self._places.items() if replica[0] == row.node and dir_ == row.dir
                }
                self._failed |= dict.fromkeys(replicas_in_dir & self._roles_held, row)
                self._places = {
                    replica: dir_ for replica, dir_ in self._places.items() if replica not in replicas_in_dir
                }  # next, perhaps elsewhere
            case K.FAULT_BEGUN if row.partition is None and family_of(row.detail) == "pause":  # perhaps between the two steps
                self._failed = {replica: since for replica, since in self._failed.items() if replica[0] != row.node}
            case K.RECOVERED if (key[1], row.topic_id) not in self._deleted:
                self._places[key] = row.dir
            case K.FAULT_BEGUN if row.partition is not None and not any(replica == key[1] for replica, _ in self._deleted):
                self._places[key] = row.dir  # it names no topic id
            case K.REPLICA_DELETED:
                self._places.pop(key, None)
            case K.TOPIC_DELETED:
                self._deleted.add((key[1], row.topic_id))
                self._places = {replica: dir_ for replica, dir_ in self._places.items() if replica[1] != key[1]}
            case K.BECAME_LEADER | K.BECAME_FOLLOWER:
                self._roles_held.add(key)
            case K.RESIGNED:
                self._roles_held.discard(key)
                return self._late_resignations(row, [key] if key in self._failed else [], 0)
            case _:
                pass
        return []

    def _late_resignations(self, row: ClusterRow, keys: Iterable[tuple[str, Partition]], more_ms: int) -> list[str]:
        """Replicas that kept their role too long after their directory failed."""
        complaints = []
        for key in keys:
            failed = self._failed.pop(key)
            if failed.time_ns + more_ms * MS < row.time_ns:
                ms, (topic, number) = (row.time_ns - failed.time_ns) // MS, key[1]
                complaints.append(
                    f"{row.node} kept its role in {topic}-{number} for {ms} ms after its directory failed at row {failed.at}"
                )
        return complaints
