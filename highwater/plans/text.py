"""Plans as readable YAML; every error names file and line.

Values equal to their default are omitted, except the protocol; each window, step and action is on one line. Always
`plan_from_yaml(plan_to_yaml(plan)) == plan`.
"""

from pathlib import Path

from highwater.plans.plan import Complaint, Plan, PlanError, complaints
from nemesis.text import Document, TextError, dump, flow, sparse

_ON_LINES = ("schedule", "script", "path")


def plan_to_yaml(plan: Plan) -> str:
    """Convert a plan to YAML text."""
    parts = {"name": plan.name, "protocol": plan.protocol, **sparse(plan)}
    lines = {name: parts.pop(name) for name in _ON_LINES if name in parts}
    after = {name: parts.pop(name) for name in ("required_marks", "hazard", "min_acked", "limit_events") if name in parts}
    text = dump(parts)
    for name in lines:
        text += f"{name}:\n" + "".join(f"  - {flow(entry)}\n" for entry in getattr(plan, name))
    return text + (dump(after) if after else "")


def plan_from_yaml(text: str, source: str = "plan") -> Plan:
    """Read a plan from YAML text and check it.

    Raises PlanError with one line "source:line: sentence" for the first mistake.
    """
    try:
        document = Document(text, source)
        if not isinstance(document.value, dict):
            raise document.error((), f"a plan must be a mapping, not {type(document.value).__name__}")
        plan = document.convert(Plan, document.value)
        for complaint in complaints(plan):
            raise _error_at(document, complaint)
    except TextError as error:
        raise PlanError(str(error)) from error
    return plan


def load_plan(path: Path) -> Plan:
    """Read a plan from a file. PlanError if the file is unreadable or the plan is invalid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"cannot read {path}: {reason}") from error
    return plan_from_yaml(text, str(path))


def _error_at(document: Document, complaint: Complaint) -> TextError:
    return document.error(complaint.path, complaint.sentence)
