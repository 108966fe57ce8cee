"""The index of a campaign and its JUnit file."""

from xml.etree import ElementTree

from msgspec.structs import replace

from checkers.engine.verdict import Validity
from history.manifest import FaultCount
from reports.index import PASSED_SHOWN, FaultTotal, RunRow, campaign_of
from reports.junit import junit_xml
from reports.render import campaign_html
from tests.reports.campaigns import BANNER, goals, rows


def test_campaign_page_totals_count_every_run_once() -> None:
    totals = dict(campaign_of(rows(), title="", repeat="", banner=BANNER).totals)
    outcomes = ("valid", "invalid", "unknown", "harness failed")
    assert totals["runs"] == "5"
    assert [totals[name] for name in outcomes] == ["2", "1", "1", "1"]
    assert (totals["not live"], totals["excused losses"], totals["acknowledged"]) == ("1", "1", "150")
    assert totals["run seconds per worker second"] == "48.0 s"


def test_worst_runs_come_first_on_the_campaign_page() -> None:
    assert [row.name for row in campaign_of(rows(), title="", repeat="", banner=BANNER).rows] == ["s5", "s3", "s2", "s4", "s1"]


def test_campaign_page_counts_faults_begun_and_effective() -> None:
    assert campaign_of(rows(), title="", repeat="", banner=BANNER).faults == (
        FaultTotal(kind="crash", runs=2, begun=4, acted=4, runs_acted=2, invalid=1, anomalies=(1, 1)),
        FaultTotal(kind="disk-full", runs=2, begun=2, acted=0, runs_acted=0, invalid=0, anomalies=(0, 0)),
    )


def test_campaign_page_counts_anomalies_by_run_and_in_total() -> None:
    found = campaign_of(rows(), title="", repeat="", banner=BANNER).anomalies
    assert [(kind, runs, count) for kind, runs, count, _ in found] == [("lost-write", 1, 2), ("unclean-election", 1, 1)]


def test_each_kind_of_anomaly_is_linked_to_its_runs() -> None:
    found = campaign_of(rows(), title="", repeat="", banner=BANNER).anomalies
    assert [[row.link for row in first] for *_, first in found] == [["s3/report.html"], ["s3/report.html"]]


def _failed(name: str, signature: str, *, begun: int = 1, expected: bool | None = None, smaller: str = "") -> RunRow:
    faults = (FaultCount(kind="crash", begun=begun, acted=1),)
    changes = {"name": name, "signature": signature, "cause": f"cause of {name}", "expected": expected, "smaller": smaller}
    return replace(rows()[2], faults=faults, **changes)


def test_cause_of_unknown_runs_is_told_by_its_reason() -> None:
    unknown = replace(_failed("x", "a"), validity=Validity.UNKNOWN, cause="", words=("nobody was elected", "more"))

    assert [cause.words for cause in campaign_of([unknown], title="", repeat="", banner=BANNER).causes] == ["nobody was elected"]


def test_causes_have_one_row_each_with_the_smallest_plan() -> None:
    failed = [_failed("big", "a", begun=9), _failed("small", "a", begun=2), _failed("other", "b"), _failed("third", "a", begun=5)]
    causes = campaign_of(failed, title="", repeat="", banner=BANNER).causes

    assert [(cause.signature, cause.runs, cause.smallest.name) for cause in causes] == [("a", 3, "small"), ("b", 1, "other")]
    assert [row.name for row in causes[0].others] == ["third", "big"]


def test_cause_with_a_shrunk_plan_shows_that_plan() -> None:
    html = campaign_html(
        [_failed("big", "a", begun=9, smaller="store/x.yaml"), _failed("small", "a")], title="", repeat="", banner=BANNER
    )
    assert "highwater run --plan store/x.yaml" in html


def test_new_causes_come_first_and_expected_ones_last() -> None:
    failed = [_failed("x", "known"), _failed("y", "known"), _failed("z", "new"), _failed("bad", "wanted", expected=True)]
    page = campaign_of(failed, title="", repeat="", banner=BANNER, known={"known", "gone"})

    assert [(cause.signature, cause.new, cause.expected) for cause in page.causes] == [
        ("new", True, False),
        ("known", False, False),
        ("wanted", True, True),
    ]
    assert page.sentence == "3 runs failed, of 2 causes, 1 of them new, 1 failed as they had to"


def test_without_an_earlier_campaign_no_cause_is_called_new() -> None:
    assert [cause.new for cause in campaign_of([_failed("x", "a")], title="", repeat="", banner=BANNER).causes] == [False]


def test_campaign_page_tells_missed_goals_from_other_counts() -> None:
    page = campaign_html(rows(), title="", repeat="", banner=BANNER, goals=goals())
    row_of_goal = {goal.name: page.split(f"<td>{goal.name}</td>")[1].split("</tr>")[0] for goal in goals()}
    said = {name: [word for word in ("reached", "missed") if word in end] for name, end in row_of_goal.items()}

    assert said == {"message:leader-and-isr": ["reached"], "message:log-info": ["missed"], "error:NOT_CONTROLLER": []}


def test_huge_campaign_lists_failures_and_few_passed_runs() -> None:
    """A page with a row for each of a million runs opens in no browser."""
    good, bad = rows()[0], rows()[2]
    many = [replace(bad if n % 100 == 0 else good, name=f"run {n}") for n in range(PASSED_SHOWN + 600)]

    page = campaign_of(many, title="", repeat="", banner=BANNER)

    failures = [row.name for row in page.rows if row.validity is bad.validity]
    assert sorted(failures) == sorted(f"run {n}" for n in range(0, len(many), 100))
    assert (len(page.rows) - len(failures), page.left_out) == (PASSED_SHOWN, 600 - len(failures))
    assert dict(page.totals)["runs"] == str(len(many))
    assert f"{page.left_out} more valid and live runs" in campaign_html(many, title="", repeat="", banner=BANNER)


def test_campaign_without_runs_has_an_index_page() -> None:
    assert "harness failed" in campaign_html([], title="nothing", repeat="", banner=BANNER)


def suite() -> ElementTree.Element:
    element = ElementTree.fromstring(junit_xml(rows(), suite="campaign")).find("testsuite")
    assert element is not None
    return element


def test_each_run_outcome_has_its_junit_element() -> None:
    assert {case.get("name"): [child.tag for child in case] for case in suite()} == {
        "s1": [],
        "s2": ["skipped"],
        "s3": ["failure"],
        "s4": ["failure"],
        "s5": ["error"],
    }


def test_junit_failure_begins_with_the_cause() -> None:
    (lost,) = (row for row in rows() if row.validity is Validity.INVALID)
    xml = junit_xml([replace(lost, cause="b2 truncated its log")], suite="campaign")
    failure = ElementTree.fromstring(xml).find("testsuite/testcase/failure")
    assert failure is not None
    assert (failure.text or "").startswith("b2 truncated its log\n")


def test_junit_counts_agree_with_the_test_cases() -> None:
    found = {name: suite().get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert found == {"tests": "5", "failures": "2", "errors": "1", "skipped": "1", "time": "2.500"}


def test_junit_failure_names_anomalies_and_repeat_command() -> None:
    """A control character in a value must not make the file unreadable."""
    failure = suite().find("testcase[@name='s3']/failure")
    assert failure is not None
    assert failure.get("message") == "INVALID: 2 x lost-write, 1 x unclean-election: v1 is <gone>\ufffd & away"
    assert failure.text == "v1 is <gone>\ufffd & away\npage: s3/report.html\nrepeat: highwater run --seed 3 --protocol v3"


def _expected() -> list[RunRow]:
    """A run that had to fail and did, one that had to be VALID and was not, and one that had to fail and did not."""
    valid, _, invalid, *_ = rows()
    return [
        replace(invalid, name="caught", expected=True),
        replace(invalid, name="lost", expected=False, error="lost: INVALID instead of VALID"),
        replace(valid, name="escaped", expected=False, error="escaped: VALID instead of INVALID"),
    ]


def test_index_page_begins_with_the_causes() -> None:
    """Ten broken checks may have one cause; who reads their list first looks at it ten times."""
    html = campaign_html([_failed("x", "a")], title="", repeat="", banner=BANNER, broken=_expected()[1:])

    assert 0 < html.index('<section id="causes">') < html.index('<section id="broken">')


def test_index_separates_expected_failures_from_the_others() -> None:
    """A reader must not search for the one red run among forty known-bad ones."""
    broken = _expected()[1:]

    page = campaign_of(_expected(), title="", repeat="", banner=BANNER, broken=broken)

    assert [row.name for row in page.broken] == ["lost", "escaped"]
    assert [row.name for row in page.rows] == ["lost", "escaped"]
    assert [row.name for row in page.as_expected] == ["caught"]
    assert dict(page.totals)["failed as expected"] == "1"
    html = campaign_html(_expected(), title="", repeat="", banner=BANNER, broken=broken)
    assert html.index("lost: INVALID instead of VALID") < html.index("Failed as expected</h2>") < html.rindex(">caught</a>")


def test_junit_fails_what_is_not_as_expected_and_nothing_else() -> None:
    """A known-bad protocol that escapes is VALID, and a failure of the job."""
    element = ElementTree.fromstring(junit_xml(_expected(), suite="chaos"))[0]

    assert [[child.get("message") for child in case] for case in element] == [
        [],
        ["lost: INVALID instead of VALID"],
        ["escaped: VALID instead of INVALID"],
    ]
