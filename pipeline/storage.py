"""Files of a store on a local disk or in an object store, by names relative to the store's root.

A location is a path, or a URI such as `s3://bucket/folder?region=eu-central-1` or, for a server other than Amazon's,
`s3://bucket/folder?endpoint_override=http://host:port`. It can be handed to another process, which opens the same store with
`storage_at`; so it holds no credentials, which come from the environment of each process.

`write` makes a file whole or not at all. No other operation is atomic, and there is no rename: whoever writes several files gives
them their final names at once, and writes the one that names the others last.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import EINVAL
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import TypedDict
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from history.store import write_file, write_lines
from pipeline.errors import PipelineError

# Of one request to an object store. They are spread over some 25 s, in which a server may be restarted.
ATTEMPTS_MAX = 6
# An object store answers after some 20 ms: a million rows of a ledger, one after the other, would take hours.
_READERS = 32
_READ_AHEAD = 1_000  # files
_BUFFER = 1 << 20  # bytes
_TRANSPORT = re.compile(r"(https?)://([^/]+)/?")
_REASONS = (
    ("NO_SUCH_BUCKET", "the bucket does not exist"),
    ("NETWORK_CONNECTION", "the server does not answer"),
    (
        "INVALID_ACCESS_KEY_ID|SIGNATURE|ACCESS_DENIED|TOKEN|CREDENTIALS",
        "access is denied; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to credentials of this store",
    ),
)


class Storage:
    """The files at one location. Names are relative POSIX paths.

    An object store that cannot be reached, or that refuses, raises PipelineError; a local disk raises OSError.
    """

    def __init__(self, location: str, filesystem: fs.FileSystem, root: str) -> None:
        self.location = location
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    @property
    def folder(self) -> Path | None:
        """The folder of a store on a local disk; None for an object store."""
        return Path(self.root) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    def path(self, name: str) -> str:
        """The path of a file as its filesystem knows it."""
        return f"{self.root}/{name}" if name else self.root

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError where there is none."""
        if self.folder is not None:
            path = self.folder / name
            if not S_ISREG(path.stat().st_mode):  # to open a pipe would wait for its writer
                raise OSError(EINVAL, "not a regular file", str(path))
            return path.read_bytes()
        with self._refusals_in_words(), self.filesystem.open_input_file(self.path(name)) as file:
            data: bytes = file.read()
        return data

    def read_each(self, names: Iterable[str], *, ahead: int = _READ_AHEAD) -> Iterator[bytes]:
        """The contents of files, in the order of their names given; from an object store several at a time, up to `ahead`."""
        if self.folder is not None:
            yield from map(self.read, names)
            return
        remaining = iter(names)
        with ThreadPoolExecutor(_READERS) as pool:
            while chunk := list(islice(remaining, ahead)):
                yield from pool.map(self.read, chunk)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; replace an earlier one. It outlives a power loss from the moment it is there."""
        if self.folder is not None:
            write_file(self.folder / name, data, flush=True)
            return
        # An object appears when its upload completes; a killed process leaves none.
        with self._refusals_in_words(), self.filesystem.open_output_stream(self.path(name)) as stream:
            stream.write(data)

    def write_lines(self, name: str, lines: Iterable[bytes]) -> int:
        """Write lines to a file, one by one, and return their number; whole or not at all, as `write` does."""
        if self.folder is not None:
            return write_lines(self.folder / name, (line.decode() + "\n" for line in lines))
        count = 0
        try:
            with self._refusals_in_words(), self.filesystem.open_output_stream(self.path(name)) as stream:
                for count, line in enumerate(lines, 1):  # noqa: B007 - the last count is returned
                    stream.write(line + b"\n")
        except BaseException:
            self.delete([name])  # the upload was completed as far as it got
            raise
        return count

    def lines(self, name: str, *, buffer: int = _BUFFER) -> Iterator[bytes]:
        """The lines of a file, read one after the other, `buffer` bytes at a time."""
        with self._refusals_in_words(), self.filesystem.open_input_stream(self.path(name), buffer_size=buffer) as file:
            rest = b""
            while data := file.read(buffer):
                *whole, rest = (rest + data).split(b"\n")
                yield from whole
            if rest:
                yield rest

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        with self._refusals_in_words():
            return bool(self.filesystem.get_file_info(self.path(name)).type == fs.FileType.File)

    def names(self, under: str = "") -> list[str]:
        """The names of all files below a folder, sorted. Hidden files (unfinished ones) are left out."""
        with self._refusals_in_words():
            entries = self.filesystem.get_file_info(fs.FileSelector(self.path(under), recursive=True, allow_not_found=True))
        if not entries:
            self._check_bucket()
        files = (file.path.removeprefix(f"{self.root}/") for file in entries if file.type == fs.FileType.File)
        return sorted(name for name in files if not name.rpartition("/")[2].startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files. A file that is gone already is no error."""
        for name in names:
            with self._refusals_in_words(), suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path(name))

    def put_folder(self, folder: Path, under: str, *, last: str) -> None:
        """Copy the files of a local folder below `under`; the file named `last` is written after all others."""
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        for name in (*(name for name in names if name != last), last):
            self.write(f"{under}/{name}", (folder / name).read_bytes())

    def fetch_folder(self, under: str, folder: Path) -> None:
        """Copy all files below `under` into a local folder."""
        for name in self.names(under):
            write_file(folder / name.removeprefix(f"{under}/"), self.read(name))

    def _check_bucket(self) -> None:
        """Raise PipelineError if the bucket does not exist: to a listing it only looks empty."""
        if isinstance(self.filesystem, fs.S3FileSystem):
            with self._refusals_in_words():
                if self.filesystem.get_file_info(self.root.partition("/")[0]).type == fs.FileType.NotFound:
                    raise PipelineError(f"{self.location}: the bucket does not exist")

    @contextmanager
    def _refusals_in_words(self) -> Iterator[None]:
        """Turn a refusal of an object store into one sentence."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            if self.folder is not None:
                raise
            raise PipelineError(f"{self.location}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    words = " ".join(str(error).split())
    code = re.search(r"AWS Error (\w+)", words)
    return next((reason for codes, reason in _REASONS if code is not None and re.search(codes, code[1])), words)


def storage_at(location: str | Path) -> Storage:
    """Open the store at a path or URI. Raises PipelineError where the URI is of no known kind."""
    text = str(location)
    if "://" not in text:
        path = Path(text).absolute()
        return Storage(str(path), fs.LocalFileSystem(), str(path))
    try:
        filesystem, root = _s3_filesystem(text) if text.startswith("s3://") else fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{text}: no store that can be opened: {' '.join(str(error).split())}") from error
    return Storage(text, filesystem, root)


class S3Options(TypedDict):
    """The parts of an S3 URI."""

    bucket: str
    folder: str
    region: str | None
    endpoint: str | None  # http://host:port or https://host:port of another server than Amazon's


def s3_options(uri: str) -> S3Options:
    """The parts of an S3 URI. Raises ValueError for one that is none."""
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        raise ValueError("credentials belong into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), not into the URI")
    if not parts.netloc:
        raise ValueError("the bucket is missing, as in s3://bucket/folder")
    options = dict(parse_qsl(parts.query))
    unknown = sorted(options.keys() - {"region", "endpoint_override"})
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}; the options are region and endpoint_override")
    endpoint = options.get("endpoint_override")
    if endpoint is not None and not _TRANSPORT.fullmatch(endpoint):
        raise ValueError(f"endpoint_override must be http://host:port or https://host:port, not {endpoint}")
    folder = unquote(parts.path).strip("/")
    return S3Options(bucket=parts.netloc, folder=folder, region=options.get("region"), endpoint=endpoint)


def _s3_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The filesystem and root of an S3 URI. Raises ValueError for one that is none."""
    options = s3_options(uri)
    settings = {} if options["region"] is None else {"region": options["region"]}
    if options["endpoint"] is not None:
        scheme, _, address = options["endpoint"].partition("://")
        settings |= {"scheme": scheme, "endpoint_override": address.rstrip("/")}
    retries = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX)
    # A small file is one request, sent when it is closed.
    filesystem = fs.S3FileSystem(**settings, retry_strategy=retries, allow_delayed_open=True)
    return filesystem, f"{options['bucket']}/{options['folder']}"


def below(location: str | Path, name: str) -> str:
    """The location of a folder below another location."""
    text = str(location)
    if "://" not in text:
        return str(Path(text) / name)
    base, mark, options = text.partition("?")
    return f"{base.rstrip('/')}/{quote(name)}{mark}{options}"
