"""Plans as YAML that a person can read and edit; every error names file and line.

What equals its default is left out (but the protocol), windows and steps stand on one line each. The law is
`plan_from_yaml(plan_to_yaml(plan)) == plan`.
"""

from pathlib import Path

from highwater.plans.plan import Complaint, Plan, PlanError, complaints
from nemesis.text import Document, TextError, dump, flow, sparse

_ON_LINES = ("schedule", "script", "path")


def plan_to_yaml(plan: Plan) -> str:
    """The text form of a plan."""
    parts = {"name": plan.name, "protocol": plan.protocol, **sparse(plan)}
    lines = {name: parts.pop(name) for name in _ON_LINES if name in parts}
    after = {name: parts.pop(name) for name in ("required_marks", "min_acked", "limit_events") if name in parts}
    text = dump(parts)
    for name in lines:
        text += f"{name}:\n" + "".join(f"  - {flow(one)}\n" for one in getattr(plan, name))
    return text + (dump(after) if after else "")


def plan_from_yaml(text: str, source: str = "plan") -> Plan:
    """The plan that a text describes, found possible to perform.

    Raises PlanError with one line "source:line: sentence" for the first thing that is wrong.
    """
    try:
        document = Document(text, source)
        if not isinstance(document.value, dict):
            raise document.error((), "a plan is a mapping")
        plan = document.convert(Plan, document.value)
        for complaint in complaints(plan):
            raise _located(document, complaint)
    except TextError as error:
        raise PlanError(str(error)) from error
    return plan


def load_plan(path: Path) -> Plan:
    """The plan in a file. Raises PlanError, also for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"{path}: cannot be read: {reason}") from error
    return plan_from_yaml(text, str(path))


def _located(document: Document, complaint: Complaint) -> TextError:
    return document.error(complaint.path, complaint.sentence)
