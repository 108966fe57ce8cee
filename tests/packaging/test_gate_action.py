"""The GitHub Action `.github/actions/gate`, as GitHub performs it: its script, in the repository of a user."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.packaging.conftest import SAMPLE, User
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.xdist_group("wheel")

ACTION = ROOT / ".github" / "actions" / "gate"


@pytest.mark.slow
@pytest.mark.parametrize(("plans", "code", "failed"), [(["plans"], 0, 0), (["plans", "unfinished"], 11, 1)])
def test_gate_shows_red_plans_to_github(plans: list[str], code: int, failed: int, user: User, tmp_path: Path) -> None:
    for folder in plans:
        shutil.copytree(SAMPLE / folder, tmp_path / "plans", dirs_exist_ok=True)
    summary = tmp_path / "summary.md"

    completed = user.run("bash", str(ACTION / "gate"), cwd=tmp_path, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))

    assert (completed.returncode, completed.stderr) == (code, "")
    suite = ElementTree.parse(tmp_path / "store" / "chaos" / "junit.xml").getroot()
    assert len(list(suite.iter("testcase"))) == len(plans)
    annotations = re.findall(r"^::error file=(\S+?),title=.*$", completed.stdout, re.MULTILINE)
    assert annotations == ["plans/no-fault-acts.yaml"][:failed]
    assert ("no-fault-acts on safe: UNKNOWN instead of VALID" in summary.read_text().replace("\\", "")) == bool(failed)
    assert (tmp_path / "store" / "chaos" / "index.html").is_file()


@pytest.mark.slow
def test_gate_performs_plans_beside_a_file_that_is_none(user: User, tmp_path: Path) -> None:
    """One slip in one file must not hide what the others show."""
    shutil.copytree(SAMPLE / "plans", tmp_path / "plans")
    (tmp_path / "plans" / "broken.yaml").write_text("name: [\n")

    completed = user.run("bash", str(ACTION / "gate"), cwd=tmp_path, GITHUB_ACTIONS="true")

    assert (completed.returncode, completed.stderr) == (2, "")
    assert "::error file=plans/broken.yaml,title=broken not read::plans/broken.yaml:2: malformed YAML" in completed.stdout
    suite = ElementTree.parse(tmp_path / "store" / "chaos" / "junit.xml").getroot()
    assert len(list(suite.iter("testcase"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "code"), [("", 0), ("own", 10)])
def test_gate_says_on_which_protocol_a_plan_is_performed(protocol: str, code: int, user: User, tmp_path: Path) -> None:
    """A plan that pytest finds red was green in the gate, which performed it on `safe` and did not say so."""
    (tmp_path / "plans").mkdir()
    plan = (ROOT / "corpus/plans/kip101-scenario-1.yaml").read_text()
    (tmp_path / "plans" / "hw.yaml").write_text(plan)

    completed = user.run("bash", str(ACTION / "gate"), cwd=tmp_path, PROTOCOL=protocol)

    assert completed.returncode == code
    notice = "1 of them name another protocol: hw; --protocol own performs each on its own"
    assert (notice in completed.stdout) is (protocol == "")


@pytest.mark.slow
def test_gate_judges_histories_without_any_plan(user: User, tmp_path: Path) -> None:
    completed = user.run("bash", str(ACTION / "gate"), cwd=tmp_path, HISTORIES=str(SAMPLE / "history.edn"), MODEL="cas-register")

    assert (completed.returncode, completed.stderr) == (10, "")
    assert completed.stdout.startswith("INVALID: ")


def test_action_hands_every_input_to_its_script() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    (step,) = action["runs"]["steps"]

    read = set(re.findall(r"\$\{([A-Z]+):", (ACTION / "gate").read_text()))
    assert step["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    assert read == set(step["env"])
