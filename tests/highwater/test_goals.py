"""Goals of a campaign: the counts, the standard goals, and the exit code when one is missed."""

from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Campaign, exit_code
from highwater.campaigns.goals import (
    ELECTIONS_FROM_ELR,
    EXCUSED_LOSSES,
    IDEMPOTENT,
    LEGACY,
    NOT_MET,
    OTHER_PROPOSAL,
    OTHER_SYSTEM,
    RECOVERY_ELECTIONS,
    WOUNDS_SURVIVED,
    all_goals,
    chosen,
    never_taken,
    never_text,
    possible,
    read,
    registered,
    standard,
)
from highwater.campaigns.tally import Counts, tally
from highwater.coverage.branches import Step, branches, packed
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.rig.backend import Provenance
from highwater.runs.summary import CLIENTS, Done, Summary
from history.manifest import MessageCount
from nemesis.faults import Crash
from nemesis.schedule import Window
from nemesis.targets import Controller
from reference.errors import ErrorCode
from reference.messages import CONTROL_REQUESTS
from tests.highwater.backends.sim.simulations import plan
from workloads.client import RequestF

RUN = Summary(
    seed=1,
    protocol="safe",
    verdict="VALID",
    live=True,
    messages=(
        MessageCount(kind="leader-and-isr", count=3),
        MessageCount(kind="leader-and-isr-reply", error="NONE", count=2),
        MessageCount(kind="leader-and-isr-reply", error="STALE_BROKER_EPOCH", count=1),
        MessageCount(kind=CLIENTS, error="REQUEST_TIMED_OUT", count=4),
    ),
    recovery_elections=1,
    wounds_counted_on=2,
    plan="seed-1",
    plan_digest="",
    backend="sim",
    outcome="completed",
    repeat="highwater run --seed 1",
)


def counts(*summaries: Summary) -> dict[str, int]:
    return {goal.name: goal.count for goal in tally(summaries).reached}


def campaign(*summaries: Summary, goals: tuple[str, ...], wanted: int | None = None) -> Campaign:
    return Campaign(wanted=len(summaries) if wanted is None else wanted, summaries=summaries, tally=tally(summaries, goals))


def test_campaign_goals_table_adds_up_all_runs() -> None:
    counts_found = counts(RUN, RUN)

    assert (counts_found["message:leader-and-isr"], counts_found["error:STALE_BROKER_EPOCH"], counts_found["error:NONE"]) == (
        6,
        2,
        4,
    )
    assert counts_found["error:REQUEST_TIMED_OUT"] == 8
    assert counts_found["message:log-info"] == 0


def test_error_in_reply_and_client_report_is_counted_once() -> None:
    sent = MessageCount(kind="produce-reply", error="NOT_ENOUGH_REPLICAS", count=5)
    reported = MessageCount(kind=CLIENTS, error="NOT_ENOUGH_REPLICAS", count=4)

    assert counts(replace(RUN, messages=(sent, reported)))["error:NOT_ENOUGH_REPLICAS"] == 5


def test_uncounted_message_goals_are_not_listed() -> None:
    """On real nodes only clients report errors, and messages are not counted."""
    by_clients = replace(RUN, backend="docker", messages=(MessageCount(kind=CLIENTS, error="REQUEST_TIMED_OUT", count=4),))
    wanted = "message:leader-and-isr"

    count_by_goal = {line.name: line.count for line in tally([by_clients]).reached}
    missed = {line.name for line in tally([by_clients], (wanted,)).reached if line.missed}

    assert [name for name in count_by_goal if name.startswith(("message:", "error:"))] == ["error:REQUEST_TIMED_OUT"]
    assert count_by_goal[RECOVERY_ELECTIONS] == 1
    assert count_by_goal[EXCUSED_LOSSES] == 0
    assert missed == {wanted}


def test_goal_of_survived_data_loss_excludes_runs_that_lost() -> None:
    """docs/promise.md VAC-3."""
    names = (WOUNDS_SURVIVED, RECOVERY_ELECTIONS, ELECTIONS_FROM_ELR, EXCUSED_LOSSES)
    runs = (RUN, replace(RUN, excused=7, elections_from_elr=3), replace(RUN, verdict="INVALID"))

    assert [counts(*runs)[name] for name in names] == [2, 3, 3, 7]


def test_standard_goals_hold_every_reachable_goal() -> None:
    """Additions to the protocol become goals without a change here."""
    wanted = standard("beyond")

    assert len([name for name in wanted if name.startswith("message:")]) >= len(CONTROL_REQUESTS) + 1
    unmet = {*(f"error:{code.name}" for code in NOT_MET), OTHER_PROPOSAL, OTHER_SYSTEM}
    assert {name for name in all_goals() if name not in wanted} == unmet
    assert {f"error:{code.name}" for code in ErrorCode} <= set(all_goals())
    assert {f"admin:{f}" for f in get_args(RequestF)} <= set(all_goals())
    assert set(wanted) - set(standard("within")) == {EXCUSED_LOSSES, "error:OFFSET_OUT_OF_RANGE", "admin:elect-unclean"}


def test_goals_table_counts_admin_requests_and_participants() -> None:
    """R-064, R-206, B-66: a request or participant that no run had was not tested."""
    run = replace(RUN, done=(Done(f="remove-partition", count=2),), idempotent=30, legacy_brokers=1)
    counts_found = counts(RUN, run, run)

    assert [counts_found[name] for name in ("admin:remove-partition", IDEMPOTENT, LEGACY)] == [4, 60, 2]
    assert counts_found["admin:create-topic"] == 0


def test_missed_campaign_goal_exits_as_harness_failure() -> None:
    reached, missed = campaign(RUN, goals=("message:leader-and-isr",)), campaign(RUN, goals=("message:log-info",))

    assert exit_code(reached, unknown_allowed_percent=0) is ExitCode.VALID
    assert exit_code(missed, unknown_allowed_percent=0) is ExitCode.LABORATORY_FAILED
    assert missed.tally.missed == ("message:log-info",)


def test_interrupted_campaign_with_a_missed_goal_is_unknown() -> None:
    assert exit_code(campaign(RUN, goals=("message:log-info",), wanted=2), unknown_allowed_percent=0) is ExitCode.UNKNOWN


@pytest.mark.parametrize(
    ("goals", "by_default", "some"), [(None, True, True), (None, False, False), ("standard", False, True), ("none", True, False)]
)
def test_campaign_of_default_faults_gets_the_standard_goals(goals: str | None, by_default: bool, some: bool) -> None:
    assert chosen(goals, profile="within", by_default=by_default) == (standard("within") if some else ())


def test_goals_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "goals.yaml"
    path.write_text("- message:stop-replica:delete\n- elections-from-the-elr\n")

    assert read(path) == ("message:stop-replica:delete", ELECTIONS_FROM_ELR)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "goals.yaml:1: unknown goal 'a'"),
        ("- 'branch:replica.isr.maybe_shrink: if tired'\n", "goals.yaml:1: the protocol has no branch .* has: .*; if slow;"),
        ("- 'branch:replica.isr.sleep: called'\n", "there is no function replica.isr.sleep"),
        ("x: 1\n", "list"),
        ("", "empty"),
    ],
)
def test_invalid_goals_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "goals.yaml"
    path.write_text(text)

    with pytest.raises(UsageError, match=message):
        read(path)


def _summary_with_branches(*names: str) -> Summary:
    """A run that took these branches as leader without a fault."""
    numbers = tuple(number for number, branch in enumerate(branches()) if branch.name in names)
    return replace(RUN, reach=packed([Step(-1, 1, "leader calm", numbers), Step(900, 1, "leader pause-long", numbers)]))


SLOW = "replica.isr.maybe_shrink: if slow"
STEADY = "replica.isr.maybe_shrink: not slow"


def test_branch_goal_counts_the_runs_that_took_it() -> None:
    goals = (f"branch:{SLOW}", f"branch:{STEADY}")
    counts_found = {
        goal.name: goal for goal in tally([_summary_with_branches(SLOW), _summary_with_branches(SLOW), RUN], goals).reached
    }

    assert (counts_found[goals[0]].count, counts_found[goals[0]].missed) == (2, False)
    assert (counts_found[goals[1]].count, counts_found[goals[1]].missed) == (0, True)


def test_branch_goals_are_added_up() -> None:
    """Or a campaign on this machine, whose tally is a sum, would miss each branch that it took."""
    goals = (f"branch:{SLOW}", f"branch:{STEADY}")
    runs = [_summary_with_branches(SLOW), RUN, _summary_with_branches(SLOW)]

    counts = Counts()
    for part in (runs[:1], runs[1:]):
        counts.add_tally(tally(part, goals))

    assert counts.told(goals) == tally(runs, goals)


def test_missed_branch_goal_exits_as_harness_failure() -> None:
    campaign_found = campaign(_summary_with_branches(SLOW), goals=(f"branch:{STEADY}",))

    assert exit_code(campaign_found, unknown_allowed_percent=0) is ExitCode.LABORATORY_FAILED


def test_standard_goals_have_branches_where_they_are_counted() -> None:
    with_branches = chosen(None, profile="within", by_default=True, with_branches=True)

    assert f"branch:{SLOW}" in with_branches
    assert not [name for name in chosen("standard", profile="within", by_default=False) if name.startswith("branch:")]
    assert chosen(None, profile="within", by_default=False, with_branches=True) == ()


def test_registered_branches_are_possible_under_safe() -> None:
    assert set(registered()) <= {f"branch:{branch.name}" for branch in possible(["safe"])}


def test_branch_goals_of_a_file_need_counted_branches(tmp_path: Path) -> None:
    path = tmp_path / "goals.yaml"
    path.write_text(f'- "branch:{SLOW}"\n', encoding="utf-8")

    assert chosen(str(path), profile="within", by_default=False, with_branches=True) == (f"branch:{SLOW}",)
    with pytest.raises(UsageError, match="only --branches and --guided count"):
        chosen(str(path), profile="within", by_default=False)


def test_list_of_branches_never_taken_names_line_and_code() -> None:
    never = never_taken([_summary_with_branches(SLOW)], ["safe"])
    text = never_text(never)

    assert "reference/replica/isr.py replica.isr.maybe_shrink\n" in text
    assert "  not slow\n          if slow:\n" in text
    assert not [branch for branch in never if branch.name == SLOW]


def test_simulator_counts_each_delivered_message() -> None:
    """In a failover the new controller sends LeaderAndIsr, each broker replies, clients fetch."""
    window = Window(id="f1", kind="it", at_ms=500, until_ms=2500, fault=Crash(), target=Controller())
    run = SimBackend().perform(plan(window), Provenance(run_id="r", plan_digest="d"))
    counts_found = {(count.kind, count.error): count.count for count in run.history.manifest.messages}

    assert counts_found["leader-and-isr", None] >= 4
    assert counts_found["leader-and-isr-reply", "NONE"] >= counts_found["leader-and-isr", None] // 2
    assert counts_found["produce-reply", "NONE"] <= counts_found["produce", None]
    assert list(counts_found) == sorted(counts_found, key=lambda key: (key[0], key[1] or ""))
