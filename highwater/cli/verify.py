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
    given = read_certificate(certificate)
    refusal = ""
    try:
        verify_file(file, given)
    except HistoryError as error:
        raise UsageError(str(error)) from error
    except Refused as reason:
        refusal = str(reason)
    question = {"file": str(file), "model": given.model, "level": given.level, "initial": given.initial, "verdict": given.verdict}
    if json:
        say_json({**question, "verified": not refusal, "reason": refusal})
    else:
        begins = f", initial value {given.initial}" if given.initial else ""
        level = f", {given.level}" if given.level else ""
        words = f"{given.verdict}: {file}: {given.model}{level}{begins}"
        kind = given.witness.__struct_config__.tag
        say(f"not verified: {words}: {refusal}" if refusal else f"verified: {words}, by its {kind}")
    return REFUSED if refusal else ExitCode.VALID
