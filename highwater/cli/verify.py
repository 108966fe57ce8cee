"""`highwater verify`: does a certificate prove its verdict on a history? Exits with 0 if so, 1 if not, 2 for bad input."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import REFUSED, ExitCode
from highwater.foreign.certificates import read_certificate, verify_file
from history.errors import HistoryError
from verifier.certificate import Refused


def verify(
    file: Annotated[Path, typer.Argument(help="The history that was judged.")],
    certificate: Annotated[Path, typer.Argument(help="What `highwater check FILE --certificate` wrote.")],
    *,
    json: options.AsJson = False,
) -> int:
    """Verify the certificate of a verdict, without a judge."""
    parsed = read_certificate(certificate)
    refusal = ""
    try:
        verify_file(file, parsed)
    except HistoryError as error:
        raise UsageError(str(error)) from error
    except Refused as reason:
        refusal = str(reason)
    question = {
        "file": str(file),
        "model": parsed.model,
        "level": parsed.level,
        "initial": parsed.initial,
        "verdict": parsed.verdict,
    }
    if json:
        say_json({**question, "verified": not refusal, "reason": refusal})
    else:
        begins = f", initial value {parsed.initial}" if parsed.initial else ""
        level = f", {parsed.level}" if parsed.level else ""
        words = f"{parsed.verdict}: {file}: {parsed.model}{level}{begins}"
        kind = parsed.witness.__struct_config__.tag
        say(f"not verified: {words}: {refusal}" if refusal else f"verified: {words}, by its {kind}")
    return REFUSED if refusal else ExitCode.VALID
