"""`highwater clean`: remove what killed runs left behind."""

from highwater.backends.real import clean as cleaning
from highwater.cli import options
from highwater.cli.output import say, say_json
from highwater.exit_codes import ExitCode


def clean(*, json: options.AsJson = False) -> int:
    """Remove containers, networks, processes and folders of runs whose harness was killed; running ones are kept."""
    removed = []
    for line in cleaning.clean():
        removed.append(line)
        if not json:
            say(f"removed  {line}")
    if json:
        say_json({"removed": removed})
    elif not removed:
        say("nothing was left behind")
    return ExitCode.VALID
