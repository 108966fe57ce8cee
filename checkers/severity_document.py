"""checkers/severity.txt: the kinds of anomalies that the checkers declare, worst first, each behind the name of its harm.

`python -m checkers.severity_document > checkers/severity.txt` writes it.
"""

import sys

from checkers.registry import ALL, OF_BLACK_BOXES


def document() -> str:
    """Return the text of checkers/severity.txt."""
    kinds = {kind for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.reports if kind.is_anomaly}
    return "".join(f"{kind.harm.name} {kind.name}\n" for kind in sorted(kinds, key=lambda kind: (kind.harm, kind.rank)))


if __name__ == "__main__":
    sys.stdout.write(document())
