"""`--webhook URL`: tell another program of the outcome of a nightly `chaos` or `campaign`.

The body of the POST is the object that `--json` prints. A receiver that does not answer 2xx is a line on stderr: the exit code is
that of the job. Redirects are not followed, because a POST would become a GET.
"""

from http.client import HTTPException
from typing import Annotated, Literal
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import typer
from msgspec import Struct

from highwater import __version__
from highwater.cli.output import complain, encoded
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode

_PATIENCE_S = 10.0


class Webhook(Struct, frozen=True, kw_only=True):
    """The options of a webhook."""

    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="POST the object of --json to this address at the end, if the job is red.")
    ] = None
    webhook_when: Annotated[Literal["red", "always"], typer.Option(help="red: only if the exit code is not 0.")] = "red"

    def check(self) -> None:
        """UsageError for an address that nothing can be sent to."""
        if self.webhook is None:
            if self.webhook_when != "red":
                raise UsageError("--webhook-when needs --webhook")
            return
        try:
            parts = urlsplit(self.webhook)
            fits = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        except ValueError:  # of a port or an IPv6 address
            fits = False
        if not fits or not self.webhook.isascii() or any(sign <= " " for sign in self.webhook):
            raise UsageError(f"--webhook must be an address such as https://host/path, not {self.webhook!r}")

    def tell(self, outcome: object, code: ExitCode, *, patience_s: float = _PATIENCE_S) -> None:
        """Send the outcome of a job that ends with this code. A failure is a line on stderr."""
        if self.webhook is None or (self.webhook_when == "red" and code is ExitCode.VALID):
            return
        headers = {"Content-Type": "application/json", "User-Agent": f"highwater/{__version__}"}
        request = Request(self.webhook, data=encoded(outcome), headers=headers, method="POST")
        try:
            with build_opener(_NoRedirect).open(request, timeout=patience_s):
                pass
        except HTTPError as error:
            error.close()
            complain(f"--webhook: {self._place} answered {error.code} {error.reason}")
        except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            complain(f"--webhook: {self._place} was not told: {reason}")

    @property
    def _place(self) -> str:
        """The address without its path and password, which may be secrets."""
        parts = urlsplit(self.webhook or "")
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: it is an error then."""
