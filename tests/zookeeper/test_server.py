"""LocalZooKeeper starts, removes its files, and says what is missing; the transaction log is read back."""

import os
from pathlib import Path

import pytest

from highwater.backends.real.zookeeper import local
from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing
from highwater.backends.real.zookeeper.transaction_log import LogError, read_log
from highwater.errors import HarnessError
from highwater.rig.commits import NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from reference.coordination.api import Check, Create, Delete, SetData
from tests.zookeeper.bench import Client


def test_zookeeper_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local, "_jars", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert missing() == (
        "a real ZooKeeper needs Java 17 or newer, but there is no java on the PATH: "
        "install a Java 17 runtime (Debian, Ubuntu: apt install default-jre-headless)"
    )
    with pytest.raises(HarnessError, match="no java on the PATH"), LocalZooKeeper():
        pass


def test_zookeeper_error_for_too_old_java_quotes_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\necho more >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setattr(local, "_jars", lambda: tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert missing() == (
        f'a real ZooKeeper needs Java 17 or newer, but {tmp_path}/java says: openjdk version "11.0.2" 2019-01-15; '
        "install a Java 17 runtime (Debian, Ubuntu: apt install default-jre-headless)"
    )


def test_zookeeper_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda _: None)

    assert missing() == (
        "a real ZooKeeper needs the jars that come with PySpark, which is not installed: pip install 'highwater-harness[spark]'"
    )


def test_zookeeper_log_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").write_bytes(b"something else")

    with pytest.raises(LogError, match=r"log\.1 is not a transaction log of ZooKeeper: it begins with b'some'"):
        read_log(tmp_path)


def test_empty_zookeeper_log_has_no_commits(tmp_path: Path) -> None:
    """Runs kill servers; an empty file must not make the other servers' logs unreadable."""
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.100000001").touch()

    assert read_log(tmp_path) == []


@pytest.mark.zookeeper
@pytest.mark.slow
def test_zookeeper_log_has_every_change_in_order() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with LocalZooKeeper() as server:
        client = Client(server.address)
        session = client.wait_for_state("connected")
        client.ask(Create("/a", b"0"), SetData("/a", b"1", 0), SetData("/a", b"refused", 0))
        client.ask(Check("/a", 1), Create("/a/b", b"e", ephemeral=True), SetData("/a", b"2", 1), atomic=True)
        client.ask(Check("/a", 7), Create("/rolled-back", b""), atomic=True)
        client.ask(Create("/gone", b""), Delete("/gone"), Create("/s-", b"", sequential=True))
        client.close()
        commits = read_log(server.data_dir)
        pid, folder = server.pid, server.data_dir.parent

    assert [type(commit) for commit in commits] == [
        *(NodeCreated, NodeWritten, NodeCreated, NodeWritten, NodeCreated, NodeDeleted, NodeCreated, SessionEnded)
    ]
    shown = [(c.path, c.data) for c in commits if isinstance(c, NodeCreated | NodeWritten)]
    assert shown == [("/a", b"0"), ("/a", b"1"), ("/a/b", b"e"), ("/a", b"2"), ("/gone", b""), ("/s-0000000002", b"")]
    assert [c.version for c in commits if isinstance(c, NodeWritten)] == [1, 2]
    assert [c.ephemeral for c in commits if isinstance(c, NodeCreated)] == [False, True, False, False]
    assert {c.session for c in commits} == {session}
    zxids = [c.zxid for c in commits]
    assert zxids == sorted(zxids)
    assert zxids[2] == zxids[3]  # one multi
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
