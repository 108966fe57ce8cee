"""The workloads of transactions and of consumer groups."""

from msgspec.structs import replace

from history.op import OpType
from tests.workloads.test_admin_storm import run
from workloads import share_groups, zombies
from workloads.client import Completion, Done, Invocation, Process, Sleep
from workloads.generate import generate
from workloads.groups import FINAL_ATTEMPTS_MAX, GROUP, AutoCommitter, Member
from workloads.parameters import AutoCommit, Parameters, PartitionName
from workloads.produce_consume import Producer
from workloads.read_process_write import Processor
from workloads.transactions import MICROS_MAX, FinalReader, Transactor

PARTITIONS = (PartitionName("t", 0), PartitionName("t", 1))
PARAMETERS = Parameters(partitions=PARTITIONS, producers=2, consumers=2, produce_per_s=20)
GIVEN = Completion(type=OpType.OK, positions=(("t", 0, 4), ("t", 1, 9)))


def first(process: Process, now_ms: int = 0) -> Invocation:
    asked = process.next(now_ms=now_ms, phase="final")
    assert isinstance(asked, Invocation)
    return asked


def test_transactions_send_unique_values_and_poll() -> None:
    invocations = [invocation for process in generate("transactions", 3, PARAMETERS) for invocation in run(process, "faults")]
    sent = [micro.value for invocation in invocations for micro in invocation.micros if micro.value is not None]

    assert {invocation.f for invocation in invocations} == {"txn"}
    assert all(1 <= len(invocation.micros) <= MICROS_MAX for invocation in invocations)
    assert len(set(sent)) == len(sent) > 100
    assert any(micro.value is None for invocation in invocations for micro in invocation.micros)


def test_some_transactions_with_a_send_are_aborted() -> None:
    invocations = [invocation for process in generate("transactions", 3, PARAMETERS) for invocation in run(process, "faults")]
    aborted = [invocation for invocation in invocations if invocation.aborts]

    assert 0.02 < len(aborted) / len(invocations) < 0.2
    assert all(any(micro.value for micro in invocation.micros) and invocation.deserves == "ABORTED" for invocation in aborted)


def test_transactors_are_done_in_the_final_phase() -> None:
    client = next(one for one in generate("transactions", 3, PARAMETERS) if isinstance(one, Transactor))

    assert isinstance(client.next(now_ms=0, phase="final"), Done)


def test_final_reader_polls_until_it_is_at_the_end() -> None:
    reader = next(client for client in generate("transactions", 3, PARAMETERS) if isinstance(client, FinalReader))
    reader.completed(first(reader), Completion(type=OpType.OK, positions=(("t", 0, 1),)))
    reader.completed(first(reader), Completion(type=OpType.OK))
    assert isinstance(reader.next(now_ms=0, phase="final"), Sleep)
    reader.completed(first(reader), Completion(type=OpType.OK, at_end=True))

    assert isinstance(reader.next(now_ms=0, phase="final"), Done)


def member() -> Member:
    return next(one for one in generate("groups", 3, PARAMETERS) if isinstance(one, Member))


def test_member_commits_each_partition_that_it_was_given() -> None:
    client = member()
    client.completed(first(client), GIVEN)
    commits = [first(client), first(client)]

    assert {(invocation.f, invocation.group, invocation.partition, invocation.offset) for invocation in commits} == {
        ("commit", GROUP, 0, 4),
        ("commit", GROUP, 1, 9),
    }


def test_member_commits_nothing_after_a_failed_poll() -> None:
    client = member()
    client.completed(first(client), Completion(type=OpType.FAIL, positions=(("t", 0, 4),)))

    assert first(client).f == "group-poll"


def test_member_that_was_at_the_end_before_polls_once_more() -> None:
    """Records may have been produced since; nobody would be given them."""
    client = member()
    polled = next(one for one in iter(lambda: client.next(now_ms=10_000_000, phase="quiet"), None) if isinstance(one, Invocation))
    client.completed(polled, Completion(type=OpType.OK, at_end=True))

    assert first(client).f == "group-poll"


def test_member_at_its_end_asks_for_all_positions() -> None:
    client = member()
    client.completed(first(client), Completion(type=OpType.OK, at_end=True))
    invocations = [first(client), first(client)]

    assert [(invocation.f, invocation.partition) for invocation in invocations] == [("committed", 0), ("committed", 1)]
    assert isinstance(client.next(now_ms=0, phase="final"), Done)


def test_member_gives_up_after_polls_without_records() -> None:
    client = member()
    for _ in range(FINAL_ATTEMPTS_MAX):
        client.completed(first(client), Completion(type=OpType.FAIL, error="_TIMED_OUT"))

    assert first(client).f == "committed"


def test_members_leave_and_ask_now_and_then() -> None:
    asked = [invocation.f for invocation in run(member(), "faults", until_ms=60_000)]

    assert {"group-poll", "group-leave", "committed"} <= set(asked)


def auto_committer() -> AutoCommitter:
    parameters = replace(PARAMETERS, auto_commit=AutoCommit())
    return next(one for one in generate("groups", 3, parameters) if isinstance(one, AutoCommitter))


def test_member_that_commits_automatically_makes_no_commit() -> None:
    client = auto_committer()
    client.completed(first(client), GIVEN)
    asked = list(run(client, "faults", until_ms=60_000))

    assert {invocation.f for invocation in asked} == {"group-poll", "group-leave", "group-abandon", "group-positions"}
    assert {invocation.commits for invocation in asked} == {"next-poll"}


def test_member_that_commits_automatically_dies_in_faults_alone() -> None:
    """In the quiet time the group must come to the end; the partitions of a dead member are free when its session is over."""
    asked = [invocation.f for invocation in run(auto_committer(), "quiet", until_ms=120_000)]

    assert "group-poll" in asked
    assert "group-abandon" not in asked


def test_member_that_commits_automatically_leaves_and_asks() -> None:
    """Its last records are committed as it leaves."""
    client = auto_committer()
    client.completed(first(client), Completion(type=OpType.OK, at_end=True))
    last = [first(client), first(client)]

    assert [(one.f, one.reads) for one in last] == [("group-leave", ()), ("group-positions", (("t", 0), ("t", 1)))]
    assert isinstance(client.next(now_ms=0, phase="final"), Done)


BOTH = replace(PARAMETERS, partitions=(*PARTITIONS, PartitionName("results", 0)))


def processor() -> Processor:
    return next(one for one in generate("read-process-write", 3, BOTH) if isinstance(one, Processor))


def test_processors_read_all_topics_but_the_last() -> None:
    invocations = [invocation for invocation in run(processor(), "faults", until_ms=60_000) if invocation.f == "process"]
    produced = [producer for producer in generate("read-process-write", 3, BOTH) if isinstance(producer, Producer)]

    assert {(invocation.reads, invocation.writes) for invocation in invocations} == {((("t", 0), ("t", 1)), (("results", 0),))}
    assert {invocation.topic for producer in produced for invocation in run(producer, "faults")} == {"t"}


def test_processors_leave_and_join_now_and_then() -> None:
    asked = [invocation.f for invocation in run(processor(), "faults", until_ms=60_000)]

    assert {"process", "group-leave"} == set(asked)


def test_processor_that_was_at_the_end_before_reads_once_more() -> None:
    client = processor()
    early = client.next(now_ms=0, phase="quiet")
    assert isinstance(early, Invocation)
    client.completed(replace(early, f="process"), Completion(type=OpType.OK, at_end=True))

    assert first(client).f == "process"


def test_processor_at_its_end_leaves_the_group() -> None:
    client = processor()
    client.completed(first(client), replace(GIVEN, at_end=True))
    client.completed(first(client), Completion(type=OpType.OK, at_end=True))

    assert first(client).f == "group-leave"
    assert isinstance(client.next(now_ms=0, phase="final"), Done)


def test_results_are_read_once_the_processors_have_left() -> None:
    clients = generate("read-process-write", 3, BOTH)
    reader = next(one for one in clients if isinstance(one, FinalReader))
    processors = [one for one in clients if isinstance(one, Processor)]

    assert isinstance(reader.next(now_ms=0, phase="final"), Sleep)
    for client in processors:
        client.completed(first(client), Completion(type=OpType.OK, at_end=True))
        assert first(client).f == "group-leave"
    assert first(reader).reads == (("results", 0),)
    reader.completed(first(reader), Completion(type=OpType.OK, at_end=True))
    assert isinstance(reader.next(now_ms=0, phase="final"), Done)


OK, FAILED = Completion(type=OpType.OK), Completion(type=OpType.FAIL, error="_FENCED")


def takers() -> list[zombies.Transactor]:
    return [one for one in generate("zombies", 3, PARAMETERS) if isinstance(one, zombies.Transactor)]


def next_due(client: zombies.Transactor, now_ms: int = 0) -> tuple[int, Invocation]:
    """What a client asks for when its next step is due, and when that is."""
    while isinstance(invocation := client.next(now_ms=now_ms, phase="faults"), Sleep):
        now_ms += invocation.ms
    assert isinstance(invocation, Invocation)
    return now_ms, invocation


def next_after(client: zombies.Transactor, *completions: Completion) -> tuple[int, Invocation]:
    """What it asks for when its first steps have ended so."""
    now_ms, invocation = next_due(client)
    for completion in completions:
        client.completed(invocation, completion)
        now_ms, invocation = next_due(client, now_ms)
    return now_ms, invocation


def test_two_clients_take_over_one_id_from_each_other() -> None:
    asked = [next_after(client)[1] for client in takers()]

    assert [(one.f, one.transactional_id) for one in asked] == [("init-transactions", "shared-0")] * 2


def test_transactor_sends_and_then_ends_its_transaction() -> None:
    _, sent = next_after(takers()[0], OK)

    assert sent.f == "txn-send"
    assert 1 <= len(sent.micros) <= zombies.SENDS_MAX
    assert next_after(takers()[0], OK, OK)[1].f in ("txn-commit", "txn-abort")


def test_client_that_was_refused_rests_and_takes_the_id_back() -> None:
    """What it could not send is never committed."""
    failed_ms, _ = next_after(takers()[0], OK)
    back_ms, invocation = next_after(takers()[0], OK, FAILED)

    assert invocation.f == "init-transactions"
    assert zombies.REST_MS_MIN <= back_ms - failed_ms <= zombies.REST_MS_MAX


def test_open_transaction_is_ended_in_the_final_phase() -> None:
    client = takers()[0]
    next_after(client, OK, OK)
    ending = first(client)
    client.completed(ending, OK)

    assert ending.f in ("txn-commit", "txn-abort")
    assert isinstance(client.next(now_ms=0, phase="final"), Done)
    assert client.done


def test_committed_records_are_read_when_transactors_are_done() -> None:
    clients = generate("zombies", 3, PARAMETERS)
    reader = next(one for one in clients if isinstance(one, FinalReader))

    assert isinstance(reader.next(now_ms=0, phase="final"), Sleep)
    for client in clients[:2]:
        assert isinstance(client.next(now_ms=0, phase="final"), Done)
    assert (first(reader).f, first(reader).reads) == ("read-committed", (("t", 0), ("t", 1)))


def sharers() -> tuple[list[share_groups.Member], share_groups.LastMember]:
    clients = generate("share-groups", 3, PARAMETERS)
    last = next(one for one in clients if isinstance(one, share_groups.LastMember))
    return [one for one in clients if isinstance(one, share_groups.Member)], last


def test_members_of_a_share_group_do_all_that_they_may() -> None:
    client = sharers()[0][0]
    kinds_sent, types = set(), set()
    now_ms = 0
    for _ in range(500):
        while isinstance(invocation := client.next(now_ms=now_ms, phase="faults"), Sleep):
            now_ms += invocation.ms
        assert isinstance(invocation, Invocation)
        kinds_sent.add(invocation.f)
        types |= set(invocation.acknowledges)
        client.completed(invocation, GIVEN if invocation.f == "share-poll" else Completion(type=OpType.OK))

    assert kinds_sent == {"share-poll", "share-acknowledge", "share-leave", "share-abandon"}
    assert types == {"accept", "release", "reject"}


def test_member_of_a_share_group_leaves_in_the_final_phase() -> None:
    client = sharers()[0][0]

    assert first(client).f == "share-leave"
    assert isinstance(client.next(now_ms=0, phase="final"), Done)


def test_last_member_takes_what_is_left_when_others_are_gone() -> None:
    members, last = sharers()
    assert isinstance(last.next(now_ms=0, phase="final"), Sleep)
    for client in members:
        first(client)
    last.completed(first(last), GIVEN)
    accepts = first(last)
    last.completed(accepts, OK)
    for _ in range(share_groups.LAST_POLLS_MAX):
        last.completed(first(last), OK)

    assert (accepts.f, accepts.acknowledges) == ("share-acknowledge", ("accept",))
    assert first(last).f == "share-leave"
    assert isinstance(last.next(now_ms=0, phase="final"), Done)
