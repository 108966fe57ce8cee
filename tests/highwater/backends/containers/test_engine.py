"""A machine without a Docker engine: a reason in one sentence, and nothing left open."""

import gc
import warnings
from pathlib import Path

import pytest

from highwater.backends.real.containers.engine import missing


@pytest.mark.parametrize("made", [False, True], ids=["no socket", "a file that nobody serves"])
def test_missing_engine_is_told_and_leaves_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool) -> None:
    """Docker's SDK forgets its socket: the warning came in any later test, whenever the collector found it."""
    socket = tmp_path / "docker.sock"
    if made:
        socket.touch()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    with warnings.catch_warnings(record=True) as warning_messages:
        warnings.simplefilter("always")
        reason = missing()
        gc.collect()

    assert reason is not None
    assert f"no Docker engine answers at unix://{socket}" in reason
    assert [str(warning.message) for warning in warning_messages] == []
