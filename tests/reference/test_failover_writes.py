"""How the controller writes the partitions of a failover: in flight together, one by one, or in a multi (V3, Discussion 1)."""

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import SetData
from reference.effects import ZkRequest
from reference.events import ZkReplied
from reference.types import BrokerId, topic_partition
from tests.reference.test_v3_claims import Slow


class Failover(Slow):
    """b2 has died, and b1, the controller, asks for the list of brokers; ZooKeeper answers it in rounds from now on."""

    def __init__(self, variant: str, partitions: int) -> None:
        super().__init__(3)
        self.configs = {i: replace(config, variant=VARIANTS[variant]) for i, config in self.configs.items()}
        replicas = tuple(BrokerId(i) for i in (1, 2, 3))
        self.zk.submit(self.admin, (SetData(paths.topic_path("t"), paths.topic_payload((replicas,) * partitions), 0),))
        for i in self.ids:
            self.start(i)
        self.settle()
        self.wait(3000)
        self.crash(2)
        self.waiting = []
        self.expire(2)
        self.partitions = [topic_partition("t", index) for index in range(partitions)]

    def answer_open_requests(self) -> None:
        """One round; what is asked meanwhile belongs to the next."""
        requests = self.waiting or []
        later: list[ZkRequest] = []
        for request in requests:
            self.waiting = None
            answers, fired = self.zk.submit(self.sessions[1], request.ops, atomic=request.atomic)
            self.waiting = later
            self.handle_event(1, ZkReplied(request.id, answers))
            self.deliver_watches(fired)

    def until_the_batch(self) -> ZkRequest:
        """The lists of brokers, their registrations and the states are read."""
        for _ in range(3):
            self.answer_open_requests()
        assert self.waiting is not None
        (batch,) = self.waiting
        return batch

    def is_repaired(self) -> bool:
        return all(self.isr(tp) == [1, 3] for tp in self.partitions)


@pytest.mark.parametrize(("variant", "rounds"), [("safe", 4), ("failover-by-multi", 4), ("failover-one-by-one", 18)])
def test_each_way_of_failover_has_its_rounds(variant: str, rounds: int) -> None:
    """V3 §A step 3, to the letter, reads the next of eight partitions when the one before is written: two rounds for each."""
    lab = Failover(variant, partitions=8)

    assert lab.rounds() == rounds
    assert lab.is_repaired()


@pytest.mark.parametrize(("variant", "transactions"), [("safe", 8), ("failover-by-multi", 1), ("failover-one-by-one", 8)])
def test_multi_batches_the_writes_of_all_partitions(variant: str, transactions: int) -> None:
    """R-068, C-26: "use the multi() support in ZK 3.4 to batch those writes in 1 ZK operation"."""
    lab = Failover(variant, partitions=8)
    before = lab.zk.zxid
    lab.rounds()

    assert lab.zk.zxid - before == transactions


def test_stale_version_fails_the_batch_but_no_partition() -> None:
    """C-26: a leader changed its ISR between the read and the batch; V3 does not say what becomes of the others."""
    lab = Failover("failover-by-multi", partitions=3)
    lab.until_the_batch()
    path = paths.state_path(lab.partitions[1])
    lab.zk.submit(lab.admin, (SetData(path, lab.zk.nodes[path].data, lab.zk.nodes[path].version),))
    before = lab.zk.zxid
    lab.answer_open_requests()
    assert lab.zk.zxid == before
    asked = sorted(op.path for request in lab.waiting or () for op in request.ops if op.path != paths.CONTROLLER_EPOCH)
    assert asked == sorted(map(paths.state_path, lab.partitions))
    lab.rounds()

    assert lab.zk.zxid == before + 3
    assert lab.is_repaired()


def test_batch_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper refuses a request of more than 1 MB, and V3 has 10 000 partitions."""
    monkeypatch.setattr("reference.controller.leader_election.BATCH_WRITES_MAX", 3)
    lab = Failover("failover-by-multi", partitions=8)
    before = lab.zk.zxid
    lab.rounds()

    assert lab.zk.zxid == before + 3
    assert lab.is_repaired()
