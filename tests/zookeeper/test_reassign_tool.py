"""`highwater admin reassign` against a real ZooKeeper, below a root znode of its own."""

from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, Data, Delete, GetData
from reference.types import BrokerId
from tests.zookeeper.bench import Client

pytestmark = pytest.mark.zookeeper

MOVE = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'


def test_reassign_tool_proposes_executes_and_cancels(zookeeper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R-239, R-240, R-241, R-232: there is no controller here, so the written requests stay until the test deletes them."""
    root = "/reassign-tool"
    client = Client(zookeeper)
    client.ask(Create(root, b""), *(Create(root + path, b"") for path in paths.PERSISTENT))
    client.ask(Create(root + paths.topic_path("t"), paths.topic_payload(((BrokerId(1), BrokerId(2)),))))
    client.ask(*(Create(root + paths.broker_path(BrokerId(i)), b"{}") for i in (1, 2, 3)))
    file = tmp_path / "move.json"
    file.write_text(MOVE)

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command_line(["admin", "reassign", "--zookeeper", zookeeper + root, *arguments])
        return code, capsys.readouterr().out

    assert run("--generate", "--brokers", "2,3")[1].splitlines()[-1] == MOVE
    assert run("--execute", str(file))[1].endswith("Successfully started reassignment of partitions.\n")
    assert run("--execute", str(file))[0] == 2
    (answer,) = client.ask(GetData(root + admin_paths.REASSIGN))
    assert isinstance(answer, Data)
    assert answer.data == MOVE.replace("]}]", '],"original_replicas":[1,2]}]').encode()
    assert run("--verify", str(file))[1].endswith("Reassignment of partition t-0 is still in progress\n")
    assert run("--cancel")[1].endswith(
        "original_replicas -> Buffer(1, 2)))\nSuccessfully submitted cancellation of reassignments.\n"
    )
    assert run("--remove-cancel") == (2, "")
    client.ask(Delete(root + admin_paths.REASSIGN))
    assert run("--remove-cancel") == (0, "Successfully remove the znode /admin/reassign_cancel.\n")
    client.close()
