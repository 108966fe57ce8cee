"""JUnit XML of a campaign or of the corpus: one test case for each run, for any tool that shows test results.

INVALID and not live are failures, UNKNOWN is skipped, and so is a run of a cause that the team ignores for a while; a failure of
the harness is an error. Where a certain verdict had to come, every other one is a failure. The message has the kinds of anomalies
and the first sentence; the text has the words of the verdict, the page and the command that repeats the run. Times are the wall
seconds of the rows; no clock is read.
"""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from checkers.engine.verdict import Validity
from reports.index import RunRow

# The characters that XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(rows: Sequence[RunRow], *, suite: str, left_out: int = 0) -> str:
    """Return the JUnit XML document, with one test case for each run, in order. `left_out`: passed runs without a row."""
    root = Element("testsuites")
    cases = SubElement(root, "testsuite", name=_clean(suite), tests=str(len(rows)))
    if left_out:
        properties = SubElement(cases, "properties")
        SubElement(properties, "property", name="passed runs that are not listed", value=str(left_out))
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for row in rows:
        case = SubElement(
            cases, "testcase", classname=_clean(f"{suite}.{row.protocol}"), name=_clean(row.name), time=f"{row.wall_seconds:.3f}"
        )
        outcome = _outcome(row)
        if outcome is not None:
            tag, counted, message = outcome
            counts[counted] += 1
            lines = [
                *([row.cause] if row.cause else []),
                *row.words,
                *([f"page: {row.link}"] if row.link else []),
                *([f"repeat: {row.repeat}"] if row.repeat else []),
            ]
            SubElement(case, tag, message=_clean(message)).text = _clean("\n".join(lines))
    for name, count in counts.items():
        cases.set(name, str(count))
    cases.set("time", f"{sum(row.wall_seconds for row in rows):.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _outcome(row: RunRow) -> tuple[str, str, str] | None:
    """The JUnit element (failure, error, skipped) and message for a judged run; None for a run that passed."""
    first = f": {row.words[0]}" if row.words else ""
    if row.expected:
        return None
    if row.is_ignored and not row.passed:
        return ("skipped", "skipped", row.mark)
    if row.validity is None:
        return ("error", "errors", f"the harness failed: {row.error}")
    if row.expected is False:
        return ("failure", "failures", row.error)
    if row.validity is Validity.INVALID:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in row.anomalies)
        return ("failure", "failures", f"INVALID: {kinds}{first}")
    if row.live is False:
        return ("failure", "failures", f"not live after healing ({row.validity.name}){first}")
    if row.validity is Validity.UNKNOWN:
        return ("skipped", "skipped", "UNKNOWN: " + "; ".join(row.words))
    return None


def _clean(words: str) -> str:
    return _FORBIDDEN.sub("\ufffd", words)
