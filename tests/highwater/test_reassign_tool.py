"""`highwater admin reassign`: its writes, its output, and its refusals before writing (KIP-236)."""

from pathlib import Path
from types import GeneratorType

import pytest

from highwater.admin import reassign_tool
from highwater.admin.reassign_tool import Command, entries_of
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from reference.client.commands import RequestReassignment, ops_of, script
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, Data, GetData, SetData
from reference.types import BrokerId, TopicPartition
from tests.reference.lab import T0, Lab
from tests.reference.moving import (
    OAR,
    RAR,
    assigned_replicas,
    broker_ids,
    cluster,
    fetches_from,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    request_extra_move,
    stuck_move,
    wait_until,
    write,
    znode_data,
)
from tests.reference.test_reassign_in_flight import by_requests, hold_fetches_of

MOVE = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,5,6]}]}'
CURRENT = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2,3]}]}'
GHOST = TopicPartition("ghost-0")


def run(lab: Lab, command: Command) -> tuple[str, ...]:
    """Run the command against the model of ZooKeeper."""
    try:
        expected = next(command)
        while True:
            answers, fired = lab.zk.submit(lab.admin, expected.ops, atomic=expected.atomic)
            lab.deliver_watches(fired)
            expected = command.send(answers)
    except StopIteration as done:
        lab.settle()
        lines: tuple[str, ...] = done.value
        return lines


def refusal(lab: Lab, command: Command) -> str:
    with pytest.raises(UsageError) as error:
        run(lab, command)
    return str(error.value)


def test_reassign_execute_writes_the_original_replicas() -> None:
    """R-148, R-232: the file has only `replicas`; the present replicas are read and written as `original_replicas`."""
    lab = cluster()
    lab.crash(1)
    lines = run(lab, reassign_tool.execute(entries_of(MOVE, "move.json")))

    assert pending_moves(lab) == reassignment_of(RAR, OAR)
    assert lines[:3] == ("Current partition replica assignment", "", CURRENT)
    assert lines[-1] == "Successfully started reassignment of partitions."
    lab = cluster(replicas=(3, 1, 2))
    lab.is_held = fetches_from(4, 5, 6)
    run(lab, reassign_tool.execute(entries_of(MOVE, "move.json")))

    assert pending_moves(lab) == reassignment_of(RAR, (3, 1, 2))


def test_reassign_generate_proposes_replicas_round_robin() -> None:
    """R-240, R-132: replica j of partition i on broker (i + j) mod n."""
    lab = cluster()
    lines = run(lab, reassign_tool.generate(("t",), (BrokerId(4), BrokerId(5), BrokerId(6))))

    assert lines == (
        "Current partition replica assignment",
        CURRENT,
        "",
        "Proposed partition reassignment configuration",
        MOVE.decode(),
    )
    assert pending_moves(lab) is None


def test_reassign_generate_begins_each_partition_elsewhere() -> None:
    """R-132: partition i begins at broker i mod n of the sorted ones, so that the leaders are spread."""
    lab = cluster()
    write(lab, Create(paths.topic_path("u"), paths.topic_payload((broker_ids(*OAR),) * 3)))
    lines = run(lab, reassign_tool.generate(("t", "u"), (BrokerId(6), BrokerId(4), BrokerId(5))))
    proposed = entries_of(lines[-1].encode(), "proposed")

    assert [(tp, entry.replicas) for tp, entry in sorted(proposed.items())] == [
        ("t-0", (4, 5, 6)),
        ("u-0", (4, 5, 6)),
        ("u-1", (5, 6, 4)),
        ("u-2", (6, 4, 5)),
    ]


def test_reassign_verify_prints_the_status_of_each_reassignment() -> None:
    """R-240: in progress, waiting in the extra znode, completed, or failed."""
    lab = stuck_move()
    line = "Reassignment of partition t-0 "
    command = reassign_tool.verify
    assert run(lab, command(reassignment_of(RAR)))[1:] == (line + "is still in progress",)
    write(lab, Create(admin_paths.REASSIGN_CANCEL, b""))
    request_extra_move(lab, RAR)
    assert run(lab, command(reassignment_of(RAR)))[1:] == (line + f"is waiting in {admin_paths.REASSIGN_EXTRA}",)
    both = stuck_move()
    both.cut_off_from_zk.add(1)  # the controller does not read the second request
    request_extra_move(both, RAR)
    assert run(both, command(reassignment_of(RAR)))[1:] == (line + f"is waiting in {admin_paths.REASSIGN_EXTRA}",)
    done = cluster()
    reassign(done)

    assert run(done, command(reassignment_of(RAR)))[1:] == (line + "completed successfully",)
    assert run(done, command(reassignment_of(OAR)))[1:] == (line + "failed",)
    assert run(done, command(reassignment_of(OAR, (), GHOST)))[1:] == ("Reassignment of partition ghost-0 failed",)


def test_reassign_cancel_prints_what_is_rolled_back() -> None:
    """R-240, R-241, R-233, R-239: the exact output; the cluster rolls back."""
    lab = stuck_move()
    lines = run(lab, reassign_tool.cancel())

    assert lines == (
        "Rolling back the current pending reassignments "
        "Map(t-0 -> Map(replicas -> Buffer(4, 5, 6), original_replicas -> Buffer(1, 2, 3)))",
        "Successfully submitted cancellation of reassignments.",
    )
    assert wait_until(lab, lambda: is_moved_to(lab, OAR))
    assert run(lab, reassign_tool.remove_cancel()) == ("Successfully remove the znode /admin/reassign_cancel.",)
    assert znode_data(lab, admin_paths.REASSIGN_CANCEL) is None


def test_remove_cancel_is_refused_during_a_rollback() -> None:
    """R-239, R-244: --cancel, then --remove-cancel at once, as in KIP-236's session, would complete the move instead."""
    lab = stuck_move()
    lab.cut_off_from_zk.add(1)  # the controller has not read the cancellation yet
    run(lab, reassign_tool.cancel())
    words = refusal(lab, reassign_tool.remove_cancel())

    assert words == (
        "reassignments are still being rolled back (1, first t-0); without /admin/reassign_cancel they would go on to their new "
        "replicas; try again later"
    )
    assert znode_data(lab, admin_paths.REASSIGN_CANCEL) == b""


def test_remove_cancel_ignores_extra_reassignments() -> None:
    """R-239, R-242: they wait for the end of the cancellation, so it must not wait for them."""
    lab = stuck_move()
    run(lab, reassign_tool.cancel())
    request_extra_move(lab, (2, 3, 4))
    run(lab, reassign_tool.remove_cancel())
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))


def test_cancel_holds_back_extra_reassignments_that_wait_alone() -> None:
    """R-239, R-242: nothing is in flight, and the controller has not yet read what is to begin."""
    lab = cluster()
    request = Create(admin_paths.REASSIGN_EXTRA, admin_paths.reassignments_payload(reassignment_of(RAR)))
    _, fired = lab.zk.submit(lab.admin, (request,))
    lines = run(lab, reassign_tool.cancel())
    lab.deliver_watches(fired)
    lab.settle()

    assert lines[2:] == ("Reassignment of partition t-0 waits in /admin/reassign_partitions_extra until --remove-cancel",)
    assert (pending_moves(lab), sorted(lab.isr())) == (None, sorted(OAR))
    run(lab, reassign_tool.remove_cancel())
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_printed_scala_map_equals_the_example_of_kip_236() -> None:
    """R-241: the output of KIP-236's own session."""
    reassignments = reassignment_of((832, 679, 680), (832, 679, 681), TopicPartition("test_topic-25"))

    assert f"Rolling back the current pending reassignments {reassign_tool.scala_map(reassignments)}" == (
        "Rolling back the current pending reassignments "
        "Map(test_topic-25 -> Map(replicas -> Buffer(832, 679, 680), original_replicas -> Buffer(832, 679, 681)))"
    )


def test_reassign_execute_extra_adds_to_those_in_flight() -> None:
    """R-240, R-231, R-243: --execute refuses, --execute-extra adds."""
    lab = stuck_move()
    assert "existing assignment" in refusal(lab, reassign_tool.execute(reassignment_of((2, 3, 4))))
    run(lab, reassign_tool.execute_extra(reassignment_of((2, 3, 4))))
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))
    waiting = stuck_move()
    waiting.cut_off_from_zk.add(1)  # the controller does not take it
    run(waiting, reassign_tool.execute_extra(reassignment_of((2, 3, 4))))

    assert znode_data(waiting, admin_paths.REASSIGN_EXTRA) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3,4]}]}'
    )


def test_proposal_b_requests_and_verifies_a_reassignment() -> None:
    """R-245, R-249, C-19: waiting as a request, in progress, completed."""
    line = "Reassignment of partition t-0 "
    (*_, written) = ops_of(script(RequestReassignment(id=1, tp=T0, replicas=broker_ids(*RAR))))  # by another client
    assert isinstance(written, Create)
    assert (written.sequential, written.ephemeral) == (True, False)
    cluster_a = cluster()
    (*_, made) = run(cluster_a, reassign_tool.request(reassignment_of(RAR)))
    assert made == f"Successfully submitted {admin_paths.REQUEST}0000000000."
    (znode,), _ = cluster_a.zk.submit(cluster_a.admin, (GetData(f"{admin_paths.REQUEST}0000000000"),))
    assert isinstance(znode, Data)
    assert znode.owner == 0  # it outlives the session of the command
    waiting = run(cluster_a, reassign_tool.verify_requests(reassignment_of(RAR)))
    assert waiting[1:] == (line + f"is waiting in {admin_paths.REQUESTS}",)

    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    run(lab, reassign_tool.request(reassignment_of(RAR)))
    assert run(lab, reassign_tool.verify_requests(reassignment_of(RAR)))[1:] == (line + "is still in progress",)
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))
    assert run(lab, reassign_tool.verify_requests(reassignment_of(RAR)))[1:] == (line + "completed successfully",)


def test_executing_the_saved_assignment_cancels_under_proposal_b() -> None:
    """R-247: "it is up to the client to record the old state"; --execute prints it as a file."""
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    lines = run(lab, reassign_tool.request(reassignment_of(RAR)))
    assert (lines[0], lines[2]) == ("Current partition replica assignment", CURRENT)

    run(lab, reassign_tool.request(entries_of(lines[2].encode(), "saved.json")))

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_rollback_file_of_a_move_in_flight_has_old_replicas() -> None:
    """R-247, C-20: AR is OAR + RAR then; executing that file would keep the new replicas."""
    lab = stuck_move()
    assert run(lab, reassign_tool.execute_extra(reassignment_of((2, 3, 4))))[2] == CURRENT
    lab = by_requests()
    hold_fetches_of(lab, 4, 5, 6)
    run(lab, reassign_tool.request(reassignment_of(RAR)))
    assert assigned_replicas(lab) == (*OAR, *RAR)
    lines = run(lab, reassign_tool.request(reassignment_of((4, 5))))
    assert lines[2] == CURRENT
    legacy = by_requests()
    hold_fetches_of(legacy, 4, 5, 6)
    reassign(legacy)
    assert run(legacy, reassign_tool.request(reassignment_of((4, 5))))[2] == CURRENT
    run(lab, reassign_tool.request(entries_of(lines[2].encode(), "saved.json")))

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_generate_extra_proposes_as_many_replicas_as_before() -> None:
    """R-240, C-20: a partition in flight has twice its replicas; a proposal of that size would make them permanent."""
    lab = stuck_move()
    lines = run(lab, reassign_tool.generate(("t",), ()))

    assert (lines[1], lines[4]) == (CURRENT, CURRENT)


def test_proposal_b_ignores_the_znode_reassign_cancel() -> None:
    """C-19: /admin/reassign_cancel is a znode of proposal A."""
    lab = by_requests()
    write(lab, Create(admin_paths.REASSIGN_CANCEL, b""))
    run(lab, reassign_tool.request(reassignment_of(RAR)))

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_reassign_execute_is_refused_during_a_cancellation() -> None:
    """R-239: refused before anything is written."""
    lab = cluster()
    write(lab, Create(admin_paths.REASSIGN_CANCEL, b""))

    assert "--remove-cancel" in refusal(lab, reassign_tool.execute(reassignment_of(RAR)))
    assert "--remove-cancel" in refusal(lab, reassign_tool.execute_extra(reassignment_of(RAR)))


def test_impossible_reassignment_is_refused_before_writing() -> None:
    """Each refusal is one sentence, and nothing is written."""
    lab = cluster()

    assert refusal(lab, reassign_tool.execute(reassignment_of(RAR, (), GHOST))) == "topic ghost does not exist"
    assert refusal(lab, reassign_tool.execute(reassignment_of(RAR, (), TopicPartition("t-9")))) == "t-9 does not exist"
    assert refusal(lab, reassign_tool.execute(reassignment_of((4, 9)))) == "brokers 9 are not registered"
    assert refusal(lab, reassign_tool.generate(("t",), (BrokerId(9),))) == "brokers 9 are not registered"
    assert "more than the 2 chosen brokers" in refusal(lab, reassign_tool.generate(("t",), (BrokerId(1), BrokerId(2))))
    assert "no reassignment is in progress" in refusal(lab, reassign_tool.cancel())
    assert refusal(lab, reassign_tool.remove_cancel()) == "/admin/reassign_cancel does not exist"
    assert pending_moves(lab) is None


def test_reassign_execute_is_refused_if_assignment_changed() -> None:
    """R-232: otherwise the originals would be wrong; the multi checks the versions of the znodes they were read from."""
    lab = cluster()
    command = reassign_tool.execute(reassignment_of(RAR))
    expected = next(command)
    while not expected.atomic:
        expected = command.send(lab.zk.submit(lab.admin, expected.ops)[0])
    write(lab, SetData(paths.topic_path("t"), paths.topic_payload(((BrokerId(3), BrokerId(2)),))))
    answers, _ = lab.zk.submit(lab.admin, expected.ops, atomic=True)
    with pytest.raises(UsageError, match="try again"):
        command.send(answers)

    assert pending_moves(lab) is None


def test_execute_says_that_another_administrator_was_faster() -> None:
    lab = cluster()
    command = reassign_tool.execute(reassignment_of(RAR))
    expected = next(command)
    while not expected.atomic:
        expected = command.send(lab.zk.submit(lab.admin, expected.ops)[0])
    lab.zk.submit(lab.admin, (Create(admin_paths.REASSIGN, MOVE),))
    answers, _ = lab.zk.submit(lab.admin, expected.ops, atomic=True)
    with pytest.raises(UsageError, match="another administrator was faster"):
        command.send(answers)

    assert znode_data(lab, admin_paths.REASSIGN) == MOVE


def test_payload_beyond_the_znode_limit_is_refused() -> None:
    """R-244: "the ZooKeeper-imposed limit of 1MB on znode size"."""
    with pytest.raises(UsageError, match="reassign in batches"):
        reassign_tool._fitting(b"x" * (1 << 20))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"version":1,"partitions":[]}', "no partition is listed"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":0}]}', "replicas"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "must be one or more"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "different brokers"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":-1,"replicas":[1]}]}', "negative"),
        (b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[-1]}]}', "negative"),
        (MOVE.replace(b"]}]", b']},{"topic":"t","partition":0,"replicas":[1]}]'), "t-0 is listed twice"),
    ],
)
def test_invalid_reassignment_file_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        entries_of(text, "move.json")

    assert str(error.value).startswith("move.json: ")


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["--cancel"], "cancel"),
        (["--remove-cancel"], "remove_cancel"),
        (["--generate-extra"], "generate"),
        (["--verify-extra", "move.json"], "verify"),
        (["--execute-extra", "move.json"], "execute_extra"),
        (["--execute", "move.json"], "execute"),
    ],
)
def test_each_reassign_option_runs_its_command(
    options: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-240: --cancel and --remove-cancel, and three options for extra moves, beside the older ones."""
    run_: list[str] = []

    async def perform(_: str, chosen: Command) -> tuple[str, ...]:
        assert isinstance(chosen, GeneratorType)
        run_.append(chosen.__name__)
        chosen.close()
        return ()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("highwater.cli.reassign._perform_command", perform)
    Path("move.json").write_bytes(MOVE)

    assert run_command_line(["admin", "reassign", "--zookeeper", "localhost:1", *options]) == 0
    assert run_ == [command]


def test_extra_and_cancel_options_write_lasting_znodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-231, R-233, R-240: what --execute-extra and --cancel submit outlives their sessions with ZooKeeper."""
    lab = stuck_move()
    lab.cut_off_from_zk.add(1)  # the controller, which would delete the first

    async def perform(_: str, chosen: Command) -> tuple[str, ...]:
        return run(lab, chosen)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("highwater.cli.reassign._perform_command", perform)
    Path("move.json").write_bytes(MOVE)
    for options in (["--execute-extra", "move.json"], ["--cancel"]):
        assert run_command_line(["admin", "reassign", "--zookeeper", "localhost:1", *options]) == 0
    paths_written = ("/admin/reassign_partitions_extra", "/admin/reassign_cancel")
    znodes, _ = lab.zk.submit(lab.admin, tuple(map(GetData, paths_written)))

    assert [znode.owner for znode in znodes if isinstance(znode, Data)] == [0, 0]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--zookeeper", "localhost:1"],
        ["--zookeeper", "nowhere:", "--cancel"],
        ["--zookeeper", "nowhere/", "--cancel"],
        ["--zookeeper", "localhost:1", "--cancel", "--remove-cancel"],
        ["--zookeeper", "localhost:1", "--execute", "absent.json"],
        ["--zookeeper", "localhost:1", "--generate", "--brokers", "one"],
        ["--zookeeper", "localhost:1", "--frobnicate"],
        ["--zookeeper", "localhost:1", "--requests"],
        ["--zookeeper", "localhost:1", "--requests", "--cancel"],
        ["--zookeeper", "localhost:1", "--requests", "--execute-extra", "absent.json"],
    ],
)
def test_bad_reassign_options_print_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-240: exactly one of the commands at a time."""
    monkeypatch.chdir(tmp_path)
    code = run_command_line(["admin", "reassign", *arguments])
    printed = capsys.readouterr()

    assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
