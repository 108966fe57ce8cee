"""The commands that a document shows, and what they print."""

import re
from collections.abc import Iterator


def examples(text: str) -> Iterator[tuple[str, str]]:
    """The commands in the blocks of a document, each with the output that it shows."""
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def measured(text: str) -> str:
    """The text without what differs from run to run: seconds by the clock and memory."""
    text = re.sub(r"[\d.]+ s, [\d.]+ MB", "N s, N MB", text)
    return re.sub(r"(simulated|of run) in [\d.]+ s", r"\1 in N s", text)


def is_shown(output: str, printed: str) -> bool:
    """Whether a command printed what a document shows; the line `…` stands for any lines, and `…` in one for any words."""
    lines = (
        "(?:.*\n)*?" if line == "…\n" else ".*".join(map(re.escape, line.split("…")))
        for line in measured(output).splitlines(True)
    )
    pattern = "".join(lines)
    return re.fullmatch(pattern, measured(printed)) is not None
