"""Random histories of share groups and of consumer groups: mostly correct, with some answers changed at random."""

import json
from typing import Any

from msgspec.structs import replace

from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case
from proof.session_histories import Calls, Said, answers_changed, case_of

_DELIVERIES = 5  # after which a broker gives a record up


class _Sharers:
    """Members of a share group, and what its broker keeps of each record of t-0 and t-1."""

    lock_ms = 1000

    def __init__(self, rng: Rng) -> None:
        self.calls = Calls(rng)
        self.records: dict[tuple[str, int], str] = {}
        self.locked: dict[tuple[str, int], tuple[int, int]] = {}  # by whom, and until when
        self.settled: set[tuple[str, int]] = set()
        self.delivered: dict[tuple[str, int], int] = {}
        self.processes = 30
        self.forgets = rng.below(4) == 0  # a broker that loses records
        self.forgotten: set[tuple[str, int]] = set()
        self.repeats = rng.below(4) == 0  # one that forgets what was accepted

    def produce(self) -> None:
        """Write a record."""
        calls, rng = self.calls, self.calls.rng
        partition, outcome = rng.below(2), calls.outcome()
        self.processes += 1
        value, key = f"v{self.processes}", f"t-{partition}"
        offset = sum(one[0] == key for one in self.records)
        sent = {"topic": "t", "partition": partition, "acks": -1 if rng.below(6) else 1}
        calls.write(self.processes, OpType.INVOKE, "produce", value, **sent)
        if outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2)):
            self.records[key, offset] = value
        if outcome is not None:
            calls.write(self.processes, outcome, "produce", value, **sent, **({"offset": offset} if outcome is OpType.OK else {}))

    def available(self) -> list[tuple[str, int]]:
        """The records that a member may be given now."""
        now = self.calls.time_ms
        free = [place for place in self.records if self.locked.get(place, (0, -1))[1] < now]
        return [place for place in free if place not in self.settled or self.repeats]

    def poll(self, member: int, *, takes_all: bool = False) -> bool:
        """A poll of a member; whether it was given something."""
        calls, rng = self.calls, self.calls.rng
        calls.write(member, OpType.INVOKE, "share-poll", {"group": "g"})
        outcome = OpType.OK if takes_all and rng.below(16) else calls.outcome(40)
        given: dict[str, list[list[Any]]] = {}
        if outcome is OpType.OK:
            for place in self.available():
                if self.forgets and rng.below(6) == 0:
                    self.forgotten.add(place)
                if self.delivered.get(place, 0) >= _DELIVERIES or place in self.forgotten:
                    continue
                if takes_all or rng.below(2):
                    self.delivered[place] = self.delivered.get(place, 0) + 1
                    self.locked[place] = (member, calls.time_ms + self.lock_ms)
                    given.setdefault(place[0], []).append([place[1], self.records[place], self.delivered[place]])
        if outcome is None:
            calls.open[member] = {"silent": True}
        else:
            lock = {"lock_ms": self.lock_ms} if given or rng.below(2) else {}
            calls.write(member, outcome, "share-poll", {"group": "g", "records": given, **lock})
        return bool(given)

    def acknowledge(self, member: int) -> None:
        """Tell the broker what became of the records that a member holds."""
        calls, rng = self.calls, self.calls.rng
        held = [place for place, (who, _) in self.locked.items() if who == member]
        calls.write(member, OpType.INVOKE, "share-acknowledge", {"group": "g"})
        asked: dict[str, list[list[Any]]] = {}
        confirmed = []
        outcome = calls.outcome(24)
        for key in ("t-0", "t-1"):
            mine = [place for place in held if place[0] == key and rng.below(4)]
            works = outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2) == 0)
            for place in mine:
                what = rng.pick(("accept", "accept", "reject", "release"))
                asked.setdefault(key, []).append([place[1], what])
                if works and self.locked[place][1] >= calls.time_ms:
                    self.settled |= {place} if what != "release" else set()
                    self.locked.pop(place)
                elif outcome is OpType.OK:
                    outcome = OpType.INFO
            if mine and works and outcome is OpType.OK:
                confirmed.append(key)
        if outcome is None:
            calls.open[member] = {"silent": True}
            return
        is_told = outcome is OpType.OK or rng.below(4) > 0
        said = {"group": "g", "acknowledged": asked, "confirmed": confirmed}
        calls.write(member, outcome, "share-acknowledge", said if is_told else None)

    def leave(self, member: int, *, tells: bool) -> None:
        """Leave the group, or abandon it with the records that the member holds and tell nobody."""
        f = "share-leave" if tells else "share-abandon"
        self.calls.write(member, OpType.INVOKE, f, {"group": "g"})
        if f == "share-leave":
            self.locked = {place: lock for place, lock in self.locked.items() if lock[0] != member}
        self.calls.write(member, OpType.OK, f, {"group": "g"})

    def step(self) -> None:
        """A call of a producer or a member; time passes."""
        rng, member = self.calls.rng, 1 + self.calls.rng.below(3)
        if rng.below(4) == 0:
            self.calls.time_ms += rng.pick((100, 600, 1300, 2500))
        if rng.below(4) == 0:
            self.produce()
        elif member in self.calls.open:
            return
        elif rng.below(10) == 0:
            self.leave(member, tells=rng.below(3) > 0)
        elif rng.below(2) and any(who == member for who, _ in self.locked.values()):
            self.acknowledge(member)
        else:
            self.poll(member)


def drawn_sharing(rng: Rng) -> Case:
    """Return a random history of a share group; at its end the last member polls until it is given nothing, or not so long."""
    group = _Sharers(rng)
    for _ in range(3):
        group.produce()
    for _ in range(5 + rng.below(10)):
        group.step()
    last = 4 if rng.below(4) else 1
    for member in range(1, 4):
        if member not in group.calls.open and member != last and rng.below(16):
            group.leave(member, tells=rng.below(16) > 0)
    final_reads_ms = group.calls.time_ms + 1
    if rng.below(8) == 0:
        group.produce()
    for _ in range(6 + rng.below(6)):
        group.calls.time_ms += rng.pick((600, 1700, 2600))
        if group.poll(last, takes_all=True) and rng.below(8):
            group.acknowledge(last)
        if last in group.calls.open:
            break
    places = tuple(sorted(group.records)) or (("t-0", 0),)
    rows = answers_changed(group.calls.rows, rng, lambda row, rng: _with_sharing_changed(row, rng, places))
    return case_of(group.calls, rows, final_reads_ms if rng.below(8) else None, client_timeout_ms=500)


def _with_sharing_changed(row: Operation, rng: Rng, places: tuple[tuple[str, int], ...]) -> Operation:
    """The answer with another record, or with another acknowledgement."""
    said = json.loads(row.value) if row.value and row.f.startswith("share") else {}
    key, offset = rng.pick(places)
    if row.f == "share-poll" and row.type is OpType.OK:
        placed = said.setdefault("records", {}).setdefault(key, [])
        if placed and rng.below(2):
            del placed[rng.below(len(placed))]
        else:
            placed.append([offset, "v", 1 + rng.below(5)])
    elif row.f == "share-acknowledge" and row.value:
        if rng.below(2):
            said["confirmed"] = ["t-0", "t-1"][: rng.below(3)]
        else:
            said["acknowledged"].setdefault(key, []).append([offset, rng.pick(("accept", "reject", "release"))])
    else:
        return row
    return replace(row, value=json.dumps(said))


class _Members:
    """Members of a consumer group that own t-0 and t-1 in turn, and commit what they were given."""

    def __init__(self, rng: Rng) -> None:
        self.calls = Calls(rng)
        self.logs: dict[int, list[str]] = {0: [], 1: []}
        self.committed = {0: 0, 1: 0}
        self.owner: dict[int, int] = {}  # by partition
        self.positions: dict[int, int] = {}  # of the owner, by partition
        self.news: dict[int, dict[str, list[str]]] = {}  # what a member is told by its next poll
        self.processes = 30
        self.forgets = rng.below(4) == 0  # a cluster that forgets commits
        self.skips = rng.below(4) == 0  # one that passes records over

    def step(self) -> None:
        """A produce, another owner of a partition, or a call of a member."""
        rng, calls = self.calls.rng, self.calls
        member = 1 + rng.below(3)
        if rng.below(6) == 0:
            self.produce()
        elif rng.below(5) == 0:
            self.assign(rng.below(2), member)
        elif calls.open.get(member, {}).get("silent"):
            return
        elif member in calls.open:
            self.commit_ends(member, calls.open.pop(member))
        else:
            mine = [partition for partition in self.positions if self.owner.get(partition) == member]
            if mine and rng.below(2):
                self.commit(member, rng.pick(mine))
            else:
                self.poll(member)

    def produce(self) -> None:
        """Write a record."""
        calls, rng = self.calls, self.calls.rng
        partition, outcome = rng.below(2), calls.outcome(8)
        log = self.logs[partition]
        self.processes += 1
        sent = {"topic": "t", "partition": partition, "acks": -1 if rng.below(6) else 1}
        value = f"v{self.processes}"
        calls.write(self.processes, OpType.INVOKE, "produce", value, **sent)
        if outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2)):
            log.append(value)
        if outcome is not None:
            offset = {"offset": len(log) - 1} if outcome is OpType.OK else {}
            calls.write(self.processes, outcome, "produce", value, **sent, **offset)

    def assign(self, partition: int, member: int) -> None:
        """Give the partition to a member; it and the owner before are told of it by their next polls."""
        key = f"t-{partition}"
        before = self.owner.get(partition)
        if before is not None:
            self.news.setdefault(before, {}).setdefault("revoked", []).append(key)
        self.owner[partition] = member
        self.positions.pop(partition, None)
        self.news.setdefault(member, {}).setdefault("assigned", []).append(key)

    def poll(self, member: int) -> None:
        """A poll of a member, which is given some records of its partitions."""
        calls, rng = self.calls, self.calls.rng
        calls.write(member, OpType.INVOKE, "group-poll", {"group": "g"})
        if rng.below(12) == 0:
            calls.write(member, OpType.FAIL, "group-poll")
            return
        said: Said = {"group": "g", "records": {}, **self.news.pop(member, {})}
        self.give(member, said)
        calls.write(member, OpType.OK, "group-poll", said)

    def give(self, member: int, said: Said) -> None:
        """Put some records of the member's partitions into the answer to its poll."""
        rng = self.calls.rng
        for partition in (0, 1):
            if self.owner.get(partition) != member:
                continue
            if partition not in self.positions:
                self.positions[partition] = max(0, self.committed[partition] - (1 + rng.below(2) if self.forgets else 0))
            start = self.start(partition)
            records = list(enumerate(self.logs[partition]))[start : start + 1 + rng.below(3)]
            if records and rng.below(4):
                said["records"][f"t-{partition}"] = [list(record) for record in records]
                self.positions[partition] = records[-1][0] + 1

    def start(self, partition: int) -> int:
        """Where a poll begins to give records of a partition."""
        return self.positions[partition] + (self.skips and self.calls.rng.below(4) == 0)

    def commit(self, member: int, partition: int) -> None:
        """A member asks to commit its position."""
        position = max(0, self.positions[partition] + (-1 if self.calls.rng.below(16) == 0 else 0))
        self.calls.open[member] = {"partition": partition, "position": position}
        self.write_commit(member, OpType.INVOKE, partition, position)

    def write_commit(self, member: int, type_: OpType, partition: int, position: int) -> None:
        """A row of a commit."""
        self.calls.write(member, type_, "commit", "g", topic="t", partition=partition, offset=position)

    def commit_ends(self, member: int, asked: Said) -> None:
        """The commit takes effect or not, and the member is told or not."""
        rng, partition, position = self.calls.rng, asked["partition"], asked["position"]
        outcome = self.calls.outcome(8)
        if outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2)):
            self.committed[partition] = position
        if outcome is None:
            self.calls.open[member] = {"silent": True}
            # Another client takes its place.
            for mine in [one for one, owner in self.owner.items() if owner == member]:
                self.assign(mine, 1 + member % 3)
        else:
            self.write_commit(member, outcome, partition, position)


def drawn_deliveries(rng: Rng) -> Case:
    """Return a random history of a consumer group whose members take partitions over, poll and commit."""
    group = _Members(rng)
    for partition in (0, 1) if rng.below(4) else (0,):
        group.produce()
        group.assign(partition, 1 + rng.below(3))
    for _ in range(14 + rng.below(22)):
        group.step()
    for member in (1, 2, 3):
        for _ in range(4 if member not in group.calls.open and rng.below(6) else 0):
            group.poll(member)
    rows = answers_changed(group.calls.rows, rng, _with_delivery_changed)
    return case_of(group.calls, rows, None)


def _with_delivery_changed(row: Operation, rng: Rng) -> Operation:
    """The answer with another record, or with no word of an assignment."""
    if row.f != "group-poll" or row.type is not OpType.OK:
        return row
    said = json.loads(row.value or "{}")
    placed: list[list[Any]] = next(iter(said["records"].values()), [])
    match rng.below(4):
        case 0 | 1 if placed:
            del placed[rng.below(len(placed))]
        case 2:
            said.pop("assigned", None)
        case _:
            said.setdefault("assigned", []).append("t-0")
    return replace(row, value=json.dumps(said))


class _AutoMembers(_Members):
    """Members as before, which commit automatically what they are done with."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng)
        self.commits = rng.pick(("next-poll", "next-poll", "delivery"))
        self.hurries = rng.below(4) == 0  # a client that commits what it has just given
        self.loses = rng.below(4) == 0  # a cluster whose positions are gone at the end
        self.repeats = rng.below(4) == 0  # a client that gives records again
        self.given: dict[int, dict[int, int]] = {}  # by member: the positions behind its last poll, by partition

    def step(self) -> None:
        """A produce, another owner of a partition, or a call of a member."""
        rng, calls = self.calls.rng, self.calls
        member = 1 + rng.below(3)
        if rng.below(6) == 0:
            self.produce()
        elif rng.below(6) == 0:
            self.assign(rng.below(2), member)
        elif member in calls.open:
            return  # it was never answered
        elif rng.below(10) == 0:
            self.end(member, crashes=rng.below(2) == 0)
        elif rng.below(5) == 0:
            self.ask(member)
        else:
            self.poll(member)

    def write_step(self, member: int, type_: OpType, f: str, said: Said | None = None) -> None:
        """A row of a member."""
        self.calls.write(member, type_, f, {"group": "g", "commits": self.commits} if type_ is OpType.INVOKE else said)

    def take(self, member: int) -> None:
        """What the last poll of a member gave is committed, where it still has the partition."""
        for partition, position in self.given.pop(member, {}).items():
            if self.owner.get(partition) == member and self.calls.rng.below(3):
                self.committed[partition] = position

    def poll(self, member: int) -> None:
        """A poll of a member, by which it is done with what the one before gave."""
        calls, rng = self.calls, self.calls.rng
        self.write_step(member, OpType.INVOKE, "group-poll")
        self.take(member)
        if rng.below(24) == 0:
            said: Said = {"group": "g", **self.news.pop(member, {})}
            outcome = rng.pick((OpType.FAIL, OpType.FAIL, OpType.INFO, None))
            if outcome is None:
                calls.open[member] = {}
            else:
                self.write_step(member, outcome, "group-poll", said)
            return
        said = {"group": "g", "records": {}, **self.news.pop(member, {})}
        self.give(member, said)
        self.given[member] = {mine: self.positions[mine] for mine in (0, 1) if f"t-{mine}" in said["records"]}
        self.write_step(member, OpType.OK, "group-poll", said)
        if self.hurries or self.commits == "delivery":
            self.take(member)

    def start(self, partition: int) -> int:
        """Where a poll begins to give records of a partition; a client that repeats goes back by one."""
        start = super().start(partition)
        return start - (self.repeats and start > 0 and self.calls.rng.below(4) == 0)

    def end(self, member: int, *, crashes: bool) -> None:
        """A member leaves or crashes, and others get its partitions."""
        f = "group-abandon" if crashes else "group-leave"
        self.write_step(member, OpType.INVOKE, f)
        if crashes:
            self.given.pop(member, None)
        self.take(member)
        self.write_step(member, OpType.OK, f)
        for mine in [one for one, owner in self.owner.items() if owner == member]:
            self.assign(mine, 1 + self.calls.rng.below(3))
        self.news.get(member, {}).pop("revoked", None)

    def ask(self, member: int, *, at_the_end: bool = False) -> None:
        """A member is told what the group committed."""
        self.write_step(member, OpType.INVOKE, "group-positions")
        lost = at_the_end and self.loses
        committed = {f"t-{partition}": max(0, at - lost) or None for partition, at in self.committed.items()}
        self.write_step(member, OpType.OK, "group-positions", {"group": "g", "committed": committed})


def drawn_auto_commits(rng: Rng) -> Case:
    """Return a random history of a consumer group that commits automatically; at its end members ask for its positions."""
    group = _AutoMembers(rng)
    for partition in (0, 1) if rng.below(4) else (0,):
        group.produce()
        group.assign(partition, 1 + rng.below(3))
    for _ in range(16 + rng.below(24)):
        group.step()
    final_reads_ms = group.calls.time_ms + 1
    for member in (1, 2, 3):
        if member not in group.calls.open and rng.below(4):
            group.ask(member, at_the_end=True)
    rows = answers_changed(group.calls.rows, rng, _with_auto_commit_changed)
    return case_of(group.calls, rows, final_reads_ms if rng.below(8) else None)


def _with_auto_commit_changed(row: Operation, rng: Rng) -> Operation:
    """The answer with another record, assignment or position."""
    if row.type is not OpType.OK or row.f not in ("group-poll", "group-positions"):
        return row
    if row.f == "group-poll":
        return _with_delivery_changed(row, rng)
    said = json.loads(row.value or "{}")
    key = rng.pick(sorted(said["committed"]))
    said["committed"][key] = rng.pick((None, 0, 1, 2, 3))
    return replace(row, value=json.dumps(said))
