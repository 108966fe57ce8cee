"""admin-storm: the administrator's requests; added partitions are written and read (docs/promise.md LIVE-3, LIVE-4)."""

import msgspec

from history.op import OpType
from workloads.admin_storm import ADDED_MAX, LOOKS_MAX, Administrator
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName, TopicShape

PARAMETERS = Parameters(
    partitions=(PartitionName("orders", 0), PartitionName("orders", 1)),
    producers=1,
    consumers=0,
    final_readers=1,
    topics=(TopicShape("orders", 2, ((1, 2), (2, 3), (3, 1), (1, 2), (2, 3))),),
)
OK = Completion(type=OpType.OK)


def run(process: Process, phase: Phase, completion: Completion = OK, *, until_ms: int = 60_000) -> list[Invocation]:
    now_ms, invocations = 0, []
    while now_ms < until_ms:
        match process.next(now_ms=now_ms, phase=phase):
            case Invocation() as invocation:
                invocations.append(invocation)
                process.completed(invocation, completion)
                now_ms += 1
            case Sleep(ms=ms):
                now_ms += ms
            case Done():
                break
    return invocations


def test_partitions_are_added_round_robin_on_the_brokers() -> None:
    """R-132: replica j of partition i is on broker (i + j) mod n; at most ADDED_MAX are added."""
    *_, admin = generate("admin-storm", 5, PARAMETERS)

    added = [i for i in run(admin, "faults") if i.f == "add-partition"]

    assert [(i.partition, i.assignment) for i in added] == [(2, ((3, 1),)), (3, ((1, 2),)), (4, ((2, 3),))]
    assert len(added) == ADDED_MAX


def test_added_partition_is_written_and_read() -> None:
    """docs/promise.md LIVE-3: without traffic nothing shows that the new partition works."""
    *_, producer, reader, admin = generate("admin-storm", 5, PARAMETERS)
    assert run(producer, "faults") == []
    invocations = run(admin, "faults", until_ms=15_000)
    there = {i.partition for i in invocations if i.f == "add-partition"} - {
        i.partition for i in invocations if i.f == "remove-partition"
    }

    assert there
    assert {i.partition for i in run(producer, "faults") if i.f == "produce"} == there
    assert {i.partition for i in run(reader, "final", Completion(type=OpType.OK, offset=0))} == there


def test_removed_partition_is_written_no_more() -> None:
    """V3 §H: removed once, and never a partition that other producers write."""
    *_, producer, _, admin = generate("admin-storm", 5, PARAMETERS)
    invocations = run(admin, "faults", until_ms=300_000)
    removed = [i.partition for i in invocations if i.f == "remove-partition"]

    assert sorted(removed) == [2, 3, 4]
    assert run(producer, "faults") == []


def test_removal_is_requested_until_it_succeeds() -> None:
    """docs/promise.md LIVE-3: no reader reads a partition that may or may not exist, so none may be left."""
    *_, admin = generate("admin-storm", 5, PARAMETERS)
    steps_seen: list[str] = []
    now_ms = 0
    while "remove-partition" not in steps_seen:
        step = admin.next(now_ms=now_ms, phase="faults")
        now_ms += step.ms if isinstance(step, Sleep) else 1
        if isinstance(step, Invocation):
            steps_seen.append(step.f)
            admin.completed(step, OK if step.f != "remove-partition" else Completion(type=OpType.INFO))

    unsure = run(admin, "quiet", Completion(type=OpType.INFO), until_ms=now_ms + 20_000)

    assert (len(unsure) > 5, {i.f for i in unsure}) == (True, {"remove-partition"})
    assert [i.f for i in run(admin, "quiet", until_ms=10**6)] == ["remove-partition"]


def test_partition_of_unknown_creation_is_not_written() -> None:
    """After an unknown outcome the partition may not exist."""
    *_, producer, _, admin = generate("admin-storm", 5, PARAMETERS)
    run(admin, "faults", Completion(type=OpType.INFO, error="REQUEST_TIMED_OUT"))

    assert run(producer, "faults") == []


def test_administrator_lists_pending_requests_until_answered() -> None:
    """docs/promise.md LIVE-4: one answer is the evidence; without an answer the run is not live."""
    *_, admin = generate("admin-storm", 5, PARAMETERS)
    assert isinstance(admin, Administrator)
    assert run(admin, "quiet") == []
    silent = run(admin, "final", Completion(type=OpType.FAIL, error="REQUEST_TIMED_OUT"))
    *_, answered = generate("admin-storm", 5, PARAMETERS)

    assert [i.f for i in silent] == ["admin-pending"] * LOOKS_MAX
    assert [i.f for i in run(answered, "final")] == ["admin-pending"]


MOVING = msgspec.structs.replace(PARAMETERS, brokers=(1, 2, 3, 4))
MOVES = ("reassign", "reassign-extra")


def test_partitions_are_moved_to_any_brokers() -> None:
    """V3 §F, R-231: to the same or another number of replicas, by the first znode or the extra one."""
    *_, admin = generate("admin-storm", 5, MOVING)
    moves = [i for i in run(admin, "faults", until_ms=300_000) if i.f in MOVES]
    targets = [i.assignment[0] for i in moves]

    assert {i.f for i in moves} == set(MOVES)
    assert {b for target in targets for b in target} == {1, 2, 3, 4}
    assert {len(target) for target in targets} == {1, 2, 3, 4}
    assert all(len(set(target)) == len(target) for target in targets)


def test_reassignments_are_cancelled_and_allowed_in_turn() -> None:
    """R-233, R-239: in turn, since a cancellation cannot be cancelled again."""
    *_, admin = generate("admin-storm", 5, MOVING)
    requests_sent = [
        i.f for i in run(admin, "faults", until_ms=300_000) if i.f in ("cancel-reassignments", "allow-reassignments")
    ]

    assert len(requests_sent) > 10
    assert requests_sent == ["cancel-reassignments", "allow-reassignments"] * (len(requests_sent) // 2) + requests_sent[:1] * (
        len(requests_sent) % 2
    )


def test_admin_workload_removes_the_cancel_znode_at_its_end() -> None:
    """LIVE-4: a remaining cancellation would block all later moves."""
    last_requests = []
    for draws in range(8):
        *_, admin = generate("admin-storm", draws, MOVING)
        unsure = [i.f for i in run(admin, "quiet", Completion(type=OpType.INFO), until_ms=10_000)]
        assert (len(unsure) > 10, set(unsure[1:])) == (True, {"allow-reassignments"})
        assert [i.f for i in run(admin, "quiet")] == ["allow-reassignments"]
        last_requests.append(unsure[0])

    assert set(last_requests) == {"cancel-reassignments", "allow-reassignments"}


ASKING = msgspec.structs.replace(MOVING, by_requests=True)


def test_proposal_b_workload_sends_both_reassignment_requests() -> None:
    """C-19, R-245, R-250: no extra znode and no cancellation; the legacy znode still works."""
    *_, admin = generate("admin-storm", 5, ASKING)
    requests_sent = {i.f for i in run(admin, "faults", until_ms=300_000) if "reassign" in i.f}

    assert requests_sent == {"reassign", "reassign-request"}


def test_proposal_b_cancels_by_requesting_the_old_replicas() -> None:
    """R-247: a request for the previous replicas; the same again undoes that too."""
    *_, admin = generate("admin-storm", 5, ASKING)
    assert isinstance(admin, Administrator)
    before: dict[PartitionName, tuple[tuple[int, ...], ...]] = {
        PartitionName("orders", 0): ((1, 2),),
        PartitionName("orders", 1): ((2, 3),),
    }
    back = 0
    for step in run(admin, "faults", until_ms=300_000):
        if step.f in ("reassign", "reassign-request"):
            name = PartitionName(step.topic, step.partition)
            back += step.assignment[0] in before.setdefault(name, ())[:-1]
            before[name] = (*before[name], *step.assignment)

    assert back > 10


def test_proposal_b_workload_ends_with_one_request_or_none() -> None:
    """R-247: half of the storms undo the last request, the others let moves in flight end."""
    last_requests = []
    for draws in range(8):
        *_, admin = generate("admin-storm", draws, ASKING)
        run(admin, "faults")
        last_requests.append(tuple(i.f for i in run(admin, "quiet", Completion(type=OpType.INFO), until_ms=10_000)))

    assert set(last_requests) == {(), ("reassign-request",)}
