"""A store keeps the same contract on a local disk and on an S3 server."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from pipeline import storage as module
from pipeline.errors import PipelineError
from pipeline.storage import Storage, below, storage_at

# A large file is sent in parts of at least 5 MiB.
LARGE = bytes(range(256)) * 4 * 10_000
WEIRD = ("a b+c%20\u00e9.json", "100%.json", "a%2Fb", "q?x=1#y", "k=v/part 0.parquet")


@pytest.fixture(params=["disk", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty folder of either kind; its name needs quoting in a URI."""
    if request.param == "disk":
        return str(tmp_path / "a b+c%20")
    return below(request.getfixturevalue("s3"), "a b+c%20")


@pytest.fixture
def storage(location: str) -> Storage:
    return storage_at(location)


def test_written_file_is_read_listed_and_replaced(storage: Storage) -> None:
    storage.write("x/one", b"1")
    storage.write("x/one", b"2")

    assert (storage.read("x/one"), storage.names(), storage.exists("x/one")) == (b"2", ["x/one"], True)


@pytest.mark.parametrize("data", [b"", LARGE], ids=["empty", "large"])
def test_empty_and_large_files_are_read_as_written(data: bytes, storage: Storage) -> None:
    storage.write("file", data)

    assert storage.read("file") == data


def test_names_with_special_characters_are_kept(storage: Storage) -> None:
    for name in WEIRD:
        storage.write(name, name.encode())

    assert storage.names() == sorted(WEIRD)
    assert [storage.read(name).decode() for name in WEIRD] == list(WEIRD)
    assert storage.names("k=v") == ["k=v/part 0.parquet"]


def test_file_is_seen_by_another_process_at_its_location(storage: Storage, location: str) -> None:
    storage.write("x", b"1")

    assert storage_at(storage.location).read("x") == b"1"
    assert storage_at(below(location, "y z")).names() == []


def test_missing_file_is_an_error_to_read_and_none_to_delete(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read("none")

    storage.delete(["none"])

    assert (storage.names(), storage.names("none"), storage.exists("none")) == ([], [], False)


def test_folder_is_no_file(storage: Storage) -> None:
    storage.write("x/y", b"")

    assert not storage.exists("x")


def test_names_leave_hidden_files_out(storage: Storage) -> None:
    for name in ("a", ".b", "c/.d", "c/e"):
        storage.write(name, b"")

    assert storage.names() == ["a", "c/e"]


def test_deleted_file_is_gone_and_its_neighbour_stays(storage: Storage) -> None:
    storage.write("x/a", b"")
    storage.write("x/b", b"")

    storage.delete(["x/a"])

    assert storage.names() == ["x/b"]


@pytest.mark.slow
def test_names_lists_more_files_than_one_answer_holds(storage: Storage) -> None:
    """S3 answers with 1,000 names at a time."""
    names = [f"{number:04}.json" for number in range(1_050)]
    for name in names:
        storage.write(name, b"")

    assert storage.names() == names


def test_folder_is_copied_with_the_named_file_last(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that finds the last file finds all others."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    for name in ("manifest.json", "pages/z.html", "a b.parquet"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    written: list[str] = []
    write = storage.write

    def noted(name: str, data: bytes) -> None:
        written.append(name)
        write(name, data)

    monkeypatch.setattr(storage, "write", noted)

    storage.put_folder(source, "run", last="manifest.json")
    storage.fetch_folder("run", copy)

    assert written == ["run/a b.parquet", "run/pages/z.html", "run/manifest.json"]
    assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["a b.parquet", "manifest.json", "z.html"]
    assert (copy / "pages" / "z.html").read_text() == "pages/z.html"


_NAMES = st.text(alphabet="ab .+%?#&=\u00e9", min_size=1, max_size=6).map(lambda text: f"d/x{text}x")
_STEPS = st.lists(st.tuples(_NAMES, st.one_of(st.none(), st.binary(max_size=3))), max_size=6)


@pytest.mark.slow
@given(steps=_STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_writes_and_deletes_leave_the_last_content(steps: list[tuple[str, bytes | None]], location: str) -> None:
    storage = storage_at(below(location, uuid4().hex))
    expected: dict[str, bytes] = {}
    for name, data in steps:
        if data is None:
            storage.delete([name])
            expected.pop(name, None)
        else:
            storage.write(name, data)
            expected[name] = data

    assert {name: storage.read(name) for name in storage.names()} == expected


def _every_request(storage: Storage) -> list[Callable[[], object]]:
    return [
        lambda: storage.write("x", b""),
        lambda: storage.names(),
        lambda: storage.delete(["x"]),
        lambda: storage.exists("x"),
        lambda: storage.read("x"),
    ]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path.name)], ids=["pipe", "folder", "loop"])
def test_what_is_no_file_is_not_read(make: Callable[[Path], object], tmp_path: Path) -> None:
    """A reader of a pipe would wait for its writer for ever."""
    make(tmp_path / "x")

    with pytest.raises(OSError, match=re.escape(str(tmp_path / "x"))):
        storage_at(tmp_path).read("x")


def test_missing_bucket_is_named_by_writing_and_listing(s3: str) -> None:
    """A listing of a missing bucket is empty: a campaign would seem not begun, and each of its runs would fail."""
    storage = storage_at(s3.replace("bucket", "other", 1))

    for request in _every_request(storage)[:2]:
        with pytest.raises(PipelineError, match=r"^s3://other/.*: the bucket does not exist$"):
            request()


def test_silent_server_is_named_by_every_request(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS_MAX", 1)
    storage = storage_at("s3://bucket/x?endpoint_override=http://127.0.0.1:1")

    for request in _every_request(storage):
        with pytest.raises(PipelineError, match=r"^s3://bucket/x\?.*: the server does not answer$"):
            request()


def test_unknown_credentials_are_named_by_every_request(s3: str, s3_server: str) -> None:
    import requests

    storage = storage_at(s3)
    requests.post(f"{s3_server}/moto-api/reset-auth", data="0", timeout=10)  # from now on credentials are checked
    try:
        for request in _every_request(storage):
            with pytest.raises(PipelineError, match="access is denied; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
                request()
    finally:
        requests.post(f"{s3_server}/moto-api/reset-auth", data="inf", timeout=10)


_KILLED = """
import os, signal, sys
from pipeline.storage import storage_at
storage = storage_at(sys.argv[1])
stream = storage.filesystem.open_output_stream(storage.path("x"))
stream.write(b"half" * 5_000_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_writer_killed_during_an_upload_leaves_the_earlier_file(s3: str) -> None:
    storage = storage_at(s3)
    storage.write("x", b"whole")

    killed = subprocess.run([sys.executable, "-c", _KILLED, s3], cwd=Path(__file__).parents[2], check=False, timeout=60)

    assert killed.returncode == -signal.SIGKILL
    assert (storage.read("x"), storage.names()) == (b"whole", ["x"])


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3:///folder", "the bucket is missing, as in s3://bucket/folder"),
        ("s3://key:secret@bucket/x", "credentials belong into the environment"),
        ("s3://bucket/x?regoin=eu", "unknown option 'regoin'; the options are region and endpoint_override"),
        ("s3://bucket/x?endpoint_override=127.0.0.1:9000", "endpoint_override must be http://host:port or https://host:port"),
        ("ftp://host/x", "no store that can be opened"),
    ],
)
def test_invalid_location_is_refused_in_one_line(uri: str, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        storage_at(uri)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_region_and_endpoint_come_from_the_location() -> None:
    storage = storage_at("s3://bucket/a%20b?region=eu-central-1&endpoint_override=https://host:9000")

    assert isinstance(storage.filesystem, fs.S3FileSystem)
    assert (storage.filesystem.region, storage.root) == ("eu-central-1", "bucket/a b")


def test_folder_below_a_location_keeps_its_options() -> None:
    assert below("s3://bucket/a?region=x", "b c/d+e%") == "s3://bucket/a/b%20c/d%2Be%25?region=x"
    assert below("/store", "b c") == "/store/b c"


def test_many_files_are_read_in_the_order_asked_for(storage: Storage) -> None:
    for name in "abc":
        storage.write(name, name.encode())

    assert list(storage.read_each("cab")) == [b"c", b"a", b"b"]
    with pytest.raises(FileNotFoundError):
        list(storage.read_each(["a", "none"]))
