"""Logs of early Jepsen tests are histories: the steps of clients stand among lines of the test itself."""

from pathlib import Path

from history.foreign.read import Form, calls, form_of

LOG = """
lein test jepsen.system.elasticsearch-test
INFO  jepsen.os.debian - :n5 setting up debian
INFO  jepsen.util - 0\t:invoke\t:add\t1
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 0\t:ok\t:add\t1
INFO  jepsen.util - 1\t:invoke\t:add\t2
INFO  jepsen.util - 1\t:info\t:add\t:timed-out
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t#{1 2}
{:valid? true,
 :set {:lost "#{}"}}
"""


def test_steps_are_read_from_between_the_lines_of_a_test(tmp_path: Path) -> None:
    path = tmp_path / "elasticsearch.log"
    path.write_text(LOG)

    calls_read = calls(path).calls

    assert form_of(path) is Form.JEPSEN_LOG
    assert [(call.f, call.argument, call.crashed) for call in calls_read] == [
        ("add", 1, False),
        ("add", 2, True),
        ("read", None, False),
    ]
    assert calls_read[2].result == frozenset({1, 2})
