"""Random schedules with requests to move one partition among six brokers: forward, back, elsewhere during a move.

The faults are those of `test_any_schedule`: messages in any order, lost and duplicated, crashes, expiries, timers that fire
early.
An administrator requests, cancels, overwrites and deletes moves at any moment.
"""

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths, reassignment_requests
from reference.coordination.api import AnyOp, Create, Delete, SetData
from reference.coordination.reassignment_requests import Request
from reference.types import BrokerId
from tests.reference.lab import T0
from tests.reference.moving import (
    assigned_replicas,
    broker_ids,
    brokers_with_log,
    cluster,
    pending_moves,
    reassignment_of,
    wait_until,
    znode_children,
    znode_data,
)
from tests.reference.schedules import Schedule

STEPS = 3000
SEEDS = 30


class Storm(Schedule):
    """One run on six brokers, with an administrator."""

    def __init__(self, seed: int, protocol: str = "safe") -> None:
        super().__init__(seed, cluster(VARIANTS[protocol]))
        self.sent[1] = "m1"
        self.by_requests = VARIANTS[protocol].reassignment == "B"
        if self.by_requests:
            self._ask(Create(admin_paths.REQUESTS, b""))

    def step(self) -> None:
        lab, rng = self.lab, self.rng
        up = sorted(lab.nodes)
        match rng.below(120):
            case 0 if len(up) > 3:
                self.crash(rng.pick(up))
            case 1 | 2 | 3 if len(up) < len(lab.ids):
                self.start(rng.pick([i for i in lab.ids if i not in lab.nodes]))
            case 4 if up:
                lab.expire(rng.pick(up))
            case 5 | 6 | 7 | 8 if lab.leaders():
                self.produce(rng.pick(lab.leaders()))
            case 9 | 10 | 11 | 12 if up:
                self.fire(rng.pick(up))
            case 13 if lab.in_flight:
                self.lose()
            case 14 if lab.in_flight:
                self.double()
            case 15 | 16 if not self.by_requests or rng.ratio(1, 4):  # by proposal B each request starts the move again
                self._ask(self._request())
            case _ if lab.in_flight:
                self.deliver()

    def _request_of_b(self) -> AnyOp:
        rng = self.rng
        replicas = self._replicas()
        payload = admin_paths.reassignments_payload(reassignment_of(replicas))
        match rng.below(10):
            case 0:
                return Create(admin_paths.REASSIGN, payload)
            case 1:
                return SetData(admin_paths.REASSIGN, payload)
            case 2:
                return Delete(rng.pick([admin_paths.REASSIGN, admin_paths.reassignment_path(T0)]))
            case choice:
                request = Request({T0: replicas}, legacy=choice == 3)
                return Create(admin_paths.REQUEST, reassignment_requests.request_payload(request), sequential=True)

    def _request(self) -> AnyOp:
        if self.by_requests:
            return self._request_of_b()
        rng = self.rng
        payload = admin_paths.reassignments_payload(reassignment_of(self._replicas()))
        path = rng.pick([admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA])
        match rng.below(10):
            case 0 | 1 | 2 | 3:
                return Create(path, payload)
            case 4:
                return SetData(path, payload)
            case 5:
                return Delete(path)
            case 6 | 7:
                return Create(admin_paths.REASSIGN_CANCEL, b"")
            case _:
                return Delete(admin_paths.REASSIGN_CANCEL)

    def _replicas(self) -> tuple[BrokerId, ...]:
        left = list(self.lab.ids)
        chosen = []
        for _ in range(2 + self.rng.below(3)):
            chosen.append(self.rng.pick(left))
            left.remove(chosen[-1])
        return broker_ids(*chosen)

    def _ask(self, op: AnyOp) -> None:
        """Write to ZooKeeper without settling the cluster, unlike `write`."""
        _, fired = self.lab.zk.submit(self.lab.admin, (op,))
        self.lab.deliver_watches(fired)

    def heal(self) -> bool:
        """Start every broker, expire all old sessions, deliver all messages. Returns whether all requested moves end."""
        self.start_everybody()
        self._ask(Delete(admin_paths.REASSIGN_CANCEL))
        self.lab.settle()
        return wait_until(self.lab, self._is_at_rest)

    def _is_at_rest(self) -> bool:
        lab = self.lab
        is_requested = pending_moves(lab) is not None or znode_data(lab, admin_paths.REASSIGN_EXTRA) is not None
        is_requested = is_requested or bool(
            znode_children(lab, admin_paths.REQUESTS) or znode_children(lab, admin_paths.REASSIGNMENTS)
        )
        alike = brokers_with_log(lab) == sorted(assigned_replicas(lab)) == sorted(lab.isr())
        return (
            not is_requested and alike and len({tuple(lab.values(i)) for i in brokers_with_log(lab)}) == 1 == len(lab.leaders())
        )

    def lost(self) -> dict[int, str]:
        """The acknowledged values that are missing from their offset in the leader's log."""
        return self.lost_by(self.lab.leaders()[0])


def run_storm(seed: int, protocol: str = "safe") -> Storm:
    storm = Storm(seed, protocol)
    for _ in range(STEPS):
        storm.step()
    return storm


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_reassignment_ends_without_loss_under_any_faults(seed: int) -> None:
    """R-244: AR, ISR and the brokers with a replica are the same, no request is left, and no acknowledged record is lost."""
    storm = run_storm(seed)

    assert storm.heal()
    assert storm.lost() == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_requested_reassignment_ends_without_loss_in_any_faults(seed: int) -> None:
    """R-247, R-249, C-19: proposal B is as safe, and its moves end although either kind of request changes them at any moment."""
    storm = run_storm(seed, "reassignment-by-requests")

    assert storm.heal()
    assert storm.lost() == {}


@pytest.mark.slow
def test_random_faults_cover_both_kinds_of_reassignment_request() -> None:
    """R-251, R-254: the runs end moves, drop intermediate replicas, and use both kinds of request."""
    storms = [run_storm(seed, "reassignment-by-requests") for seed in range(8)]
    assert all(storm.heal() for storm in storms)
    notes = [n for storm in storms for _, n in storm.lab.notes]
    begun = [(n.detail or "").split()[0] for n in notes if n.kind == "reassignment-begun"]

    assert sum(n.kind == "reassignment-ended" for n in notes) > 5
    assert begun.count("down") > 5
    assert any(n.detail == "asked for by the other way" for n in notes)


@pytest.mark.slow
def test_random_faults_cover_reassignments_and_rollbacks() -> None:
    """The runs acknowledge records, and end moves in both directions."""
    storms = [run_storm(seed) for seed in range(8)]
    healed = [storm.heal() for storm in storms]
    words = [(n.detail or "").split()[0] for storm in storms for _, n in storm.lab.notes if n.kind == "reassignment-ended"]

    assert all(healed)
    assert sum(len(storm.acked) for storm in storms) > 50
    assert min(words.count("forward"), words.count("back")) > 5


def test_random_faults_catch_removing_old_replicas_from_ar_first() -> None:
    """B-59: if AR is narrowed first, some run leaves a stray replica behind."""
    assert any(not run_storm(seed, "reassign-ar-first").heal() for seed in range(8))
