"""The packages that the wheel contains."""

PACKAGES = (
    "history",
    "reference",
    "server",
    "nemesis",
    "workloads",
    "checkers",
    "reports",
    "pipeline",
    "verifier",
    "monitors",
    "highwater",
)
