"""Recorded histories against the abstract model: `highwater check RUN --refines`."""

from pathlib import Path

import msgspec
import pytest

from checkers.sketches import history_of
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.rules import VARIANTS
from highwater.runs.conformance import validate

SCENARIO = "kip101-scenario-1"


def _run_folder(protocol: str, store: Path) -> Path:
    run_command_line(
        ["run", "--plan", f"corpus/plans/{SCENARIO}.yaml", "--protocol", protocol, "--store", str(store), "--no-report"]
    )
    (folder,) = store.glob(f"{SCENARIO}/*")
    return folder


@pytest.mark.slow
def test_simulated_run_of_safe_is_a_behaviour_of_kip320(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _run_folder("safe", tmp_path)
    capsys.readouterr()

    assert run_command_line(["check", str(folder), "--refines", "kip320", "--json"]) == ExitCode.VALID

    result = msgspec.json.decode(capsys.readouterr().out)
    assert result["unfit"] == []
    assert {"elect", "follow", "fetch", "raise HW", "leader adds", "controller removes", "crash"} <= set(result["explained"])


EMPTIED = (
    "state-written node=b3 leader=b1 leader_epoch=0 isr=b1,b2",
    "became-leader node=b1 leader_epoch=0 isr=b1,b2",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b1 leader_epoch=0 offset=0 value=x detail=leader",
    "append node=b1 leader_epoch=0 offset=1 value=y detail=leader",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
    "append node=b2 leader_epoch=0 offset=1 value=y detail=follower",
    "node-stopped node=b2",
    "wound node=b2 offset=0 detail=swapped",
    "node-started node=b2",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
)


@pytest.mark.parametrize("wounded", [True, False])
def test_log_that_a_fault_destroyed_is_no_truncation(wounded: bool) -> None:
    """An empty log has no row when its broker starts again; without the fault it is a truncation that nobody asked for."""
    rows = EMPTIED if wounded else tuple(row for row in EMPTIED if not row.startswith("wound"))
    trace = validate(history_of(*rows), VARIANTS["kip320"])

    assert [unfit.wrong for unfit in trace.unfit] == ([] if wounded else ["b2 truncated its log while it followed b1"])


ASKED = (
    "state-written node=b2 leader=b1 leader_epoch=0 zk_version=0 isr=b1",
    "became-leader node=b1 leader_epoch=0 isr=b1",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b1 leader_epoch=0 offset=0 value=x detail=leader",
    "hw node=b1 leader_epoch=0 hw=1 detail=leader",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
    "isr-change-sent node=b1 leader_epoch=0 zk_version=0 isr=b1,b2",
    "node-stopped node=b1",
    "state-written node=b2 leader=b1 leader_epoch=0 zk_version=1 isr=b1,b2",
)
NOT_ASKED = "the ISR changed in ZooKeeper, but its leader does not lead in this epoch and asked for no such ISR"


def asked_but(old: str, *rows: str) -> tuple[str, ...]:
    at = next(place for place, row in enumerate(ASKED) if row.startswith(old))
    return (*ASKED[:at], *rows, *ASKED[at + 1 :])


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (ASKED, []),
        (asked_but("node-stopped", "resigned node=b1 leader_epoch=0"), []),
        (asked_but("node-stopped", "node-stopped node=b1", "wound node=b1 offset=0 detail=swapped"), []),
        (asked_but("isr-change-sent"), [NOT_ASKED]),
        (asked_but("isr-change-sent", "isr-change-sent node=b1 leader_epoch=0 zk_version=0 isr=b1"), [NOT_ASKED]),
        (asked_but("isr-change-sent", "isr-change-sent node=b2 leader_epoch=0 zk_version=0 isr=b1,b2"), [NOT_ASKED]),
        (
            asked_but(
                "node-stopped", "state-written node=b2 leader=b1 leader_epoch=0 zk_version=1 isr=b1", "node-stopped node=b1"
            ),
            [NOT_ASKED],
        ),
        (
            asked_but("append node=b2"),
            ["b2 joined the ISR as b1 had asked, but lacks records below offset 1"],
        ),
    ],
    ids=[
        "crashed",
        "resigned",
        "disk lost",
        "not asked",
        "asked for another",
        "asked by another",
        "asked before",
        "lacks records",
    ],
)
def test_isr_of_a_stopped_leader_changes_as_it_asked(rows: tuple[str, ...], wrong: list[str]) -> None:
    """KIP-497: the controller performs a request on the version that it names, also after the leader has stopped."""
    trace = validate(history_of(*rows), VARIANTS["kip320"])

    assert [unfit.wrong for unfit in trace.unfit] == wrong
    assert trace.explained.get("ISR change in flight", 0) == (not wrong)


UNSHOWN = (
    "state-written node=b2 leader=b1 leader_epoch=0 isr=b1,b2",
    "became-leader node=b1 leader_epoch=0 isr=b1,b2",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b1 leader_epoch=0 offset=0 value=x detail=leader",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
    "node-stopped node=b1",
    "state-written node=b2 leader=b2 leader_epoch=1 isr=b2",
    "became-leader node=b2 leader_epoch=1 isr=b2",
    "append node=b2 leader_epoch=1 offset=1 value=z detail=leader",
    "node-started node=b1",
    "recovered node=b1 leo=2 hw=0",
    "became-follower node=b1 leader=b2 leader_epoch=1",
)


@pytest.mark.parametrize(("offset", "fits"), [(1, True), (0, False)])
def test_record_appended_as_the_leader_crashed_is_truncated(offset: int, fits: bool) -> None:
    """No row shows it. It is of epoch 0, so it is not what the next leader has at its offset (seed 98)."""
    truncated = f"truncate node=b1 leader_epoch=1 offset={offset}"
    fetched = f"append node=b1 leader_epoch=1 offset={offset} value=z detail=follower"
    trace = validate(history_of(*UNSHOWN, truncated, fetched), VARIANTS["kip320"])

    assert (not trace.unfit) is fits


TOLD_LATE = (
    "state-written node=b3 leader=b1 leader_epoch=0 zk_version=0 isr=b1",
    "became-leader node=b1 leader_epoch=0 isr=b1",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b1 leader_epoch=0 offset=0 value=x detail=leader",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
    "state-written node=b3 leader=b1 leader_epoch=0 zk_version=1 isr=b1,b2",
    "state-written node=b3 leader=b2 leader_epoch=1 zk_version=2 isr=b2",
)


@pytest.mark.parametrize(("isr", "version", "fits"), [("b1,b2", 1, True), ("b1,b2", 0, False), ("b1,b3", 1, False)])
def test_leader_hears_late_which_isr_zookeeper_had(isr: str, version: int, fits: bool) -> None:
    late_end = f"isr-change-ended node=b1 leader_epoch=0 zk_version={version} isr={isr} detail=applied"
    trace = validate(history_of(*TOLD_LATE, late_end), VARIANTS["kip320"])

    assert [unfit.wrong for unfit in trace.unfit] == ([] if fits else ["b1 counts on another ISR than the one in ZooKeeper"])
    assert trace.explained.get("learn ISR", 0) == fits


@pytest.mark.slow
def test_run_that_truncates_to_the_hw_leaves_kip320(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _run_folder("v3", tmp_path)
    capsys.readouterr()

    assert run_command_line(["check", str(folder), "--refines", "kip320"]) == ExitCode.INVALID

    assert "no step of kip320: b1 truncated its log from 123 to 0 and not to 122" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variant", "words"),
    [("kip3", "unknown variant 'kip3' of kafka-replication"), ("kip320", "--refines needs a run of highwater")],
)
def test_refinement_of_another_history_is_one_line(variant: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = "corpus/histories/linearizability/bad/register.edn"

    assert run_command_line(["check", file, "--refines", variant]) == ExitCode.USAGE

    assert words in capsys.readouterr().err
