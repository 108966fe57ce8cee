"""The index of a campaign and its JUnit file."""

from xml.etree import ElementTree

from msgspec.structs import replace

from reports.index import PASSED_SHOWN, FaultTotal, RunRow, campaign_of
from reports.junit import junit_xml
from reports.render import campaign_html
from tests.reports.campaigns import goals, rows


def test_campaign_page_totals_count_every_run_once() -> None:
    totals = dict(campaign_of(rows(), title="", repeat="").totals)
    outcomes = ("valid", "invalid", "unknown", "harness failed")
    assert totals["runs"] == "5"
    assert [totals[name] for name in outcomes] == ["2", "1", "1", "1"]
    assert (totals["not live"], totals["excused losses"], totals["acknowledged"]) == ("1", "1", "150")
    assert totals["run seconds per worker second"] == "48.0 s"


def test_worst_runs_come_first_on_the_campaign_page() -> None:
    assert [row.name for row in campaign_of(rows(), title="", repeat="").rows] == ["s5", "s3", "s2", "s4", "s1"]


def test_campaign_page_counts_faults_begun_and_effective() -> None:
    assert campaign_of(rows(), title="", repeat="").faults == (
        FaultTotal(kind="crash", runs=2, begun=4, acted=4, runs_acted=2, invalid=1, anomalies=(1, 1)),
        FaultTotal(kind="disk-full", runs=2, begun=2, acted=0, runs_acted=0, invalid=0, anomalies=(0, 0)),
    )


def test_campaign_page_counts_anomalies_by_run_and_in_total() -> None:
    assert campaign_of(rows(), title="", repeat="").anomalies == (("lost-write", 1, 2), ("unclean-election", 1, 1))


def test_campaign_page_tells_missed_goals_from_other_counts() -> None:
    page = campaign_html(rows(), title="", repeat="", goals=goals())
    ends = {goal.name: page.split(f"<td>{goal.name}</td>")[1].split("</tr>")[0] for goal in goals()}
    said = {name: [word for word in ("reached", "missed") if word in end] for name, end in ends.items()}

    assert said == {"message:leader-and-isr": ["reached"], "message:log-info": ["missed"], "error:NOT_CONTROLLER": []}


def test_huge_campaign_lists_failures_and_few_passed_runs() -> None:
    """A page with a row for each of a million runs opens in no browser."""
    good, bad = rows()[0], rows()[2]
    many = [replace(bad if n % 100 == 0 else good, name=f"run {n}") for n in range(PASSED_SHOWN + 600)]

    page = campaign_of(many, title="", repeat="")

    failures = [row.name for row in page.rows if row.validity is bad.validity]
    assert sorted(failures) == sorted(f"run {n}" for n in range(0, len(many), 100))
    assert (len(page.rows) - len(failures), page.left_out) == (PASSED_SHOWN, 600 - len(failures))
    assert dict(page.totals)["runs"] == str(len(many))
    assert f"{page.left_out} more valid and live runs" in campaign_html(many, title="", repeat="")


def test_campaign_without_runs_has_an_index_page() -> None:
    assert "harness failed" in campaign_html([], title="nothing", repeat="")


def suite() -> ElementTree.Element:
    found = ElementTree.fromstring(junit_xml(rows(), suite="campaign")).find("testsuite")
    assert found is not None
    return found


def test_each_run_outcome_has_its_junit_element() -> None:
    assert {case.get("name"): [child.tag for child in case] for case in suite()} == {
        "s1": [],
        "s2": ["skipped"],
        "s3": ["failure"],
        "s4": ["failure"],
        "s5": ["error"],
    }


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


def test_index_separates_expected_failures_from_the_others() -> None:
    """A reader must not search for the one red run among forty known-bad ones."""
    broken = _expected()[1:]

    page = campaign_of(_expected(), title="", repeat="", broken=broken)

    assert [row.name for row in page.broken] == ["lost", "escaped"]
    assert [row.name for row in page.rows] == ["lost", "escaped"]
    assert [row.name for row in page.as_expected] == ["caught"]
    assert dict(page.totals)["failed as expected"] == "1"
    html = campaign_html(_expected(), title="", repeat="", broken=broken)
    assert html.index("lost: INVALID instead of VALID") < html.index("Failed as expected</h2>") < html.index(">caught</a>")


def test_junit_fails_what_is_not_as_expected_and_nothing_else() -> None:
    """A known-bad protocol that escapes is VALID, and a failure of the job."""
    found = ElementTree.fromstring(junit_xml(_expected(), suite="chaos"))[0]

    assert [[child.get("message") for child in case] for case in found] == [
        [],
        ["lost: INVALID instead of VALID"],
        ["escaped: VALID instead of INVALID"],
    ]
