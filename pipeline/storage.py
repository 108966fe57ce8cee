"""Files of a store on a local disk or in an object store, by names relative to the store's root.

A location is a path or a URI that `pyarrow.fs` knows (`s3://bucket/folder?endpoint_override=...`). It can be handed to another
process, which opens the same store with `storage_at`. `write` makes a file whole or not at all; no other operation is atomic, so
whoever writes several files writes the one that names them last.
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from history.store import write_file
from pipeline.errors import PipelineError


class Storage:
    """The files at one location. Names are relative POSIX paths."""

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
        with self.filesystem.open_input_file(self.path(name)) as file:
            data: bytes = file.read()
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; replace an earlier one."""
        if self.folder is not None:
            write_file(self.folder / name, data)
            return
        # An object appears when its upload completes; a killed process leaves none.
        with self.filesystem.open_output_stream(self.path(name)) as stream:
            stream.write(data)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return bool(self.filesystem.get_file_info(self.path(name)).type == fs.FileType.File)

    def names(self, under: str = "") -> list[str]:
        """The names of all files below a folder, sorted. Hidden files (unfinished ones) are left out."""
        found = self.filesystem.get_file_info(fs.FileSelector(self.path(under), recursive=True, allow_not_found=True))
        files = (file.path.removeprefix(f"{self.root}/") for file in found if file.type == fs.FileType.File)
        return sorted(name for name in files if not name.rpartition("/")[2].startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        """Delete files. A file that is gone already is no error."""
        for name in names:
            if self.exists(name):
                self.filesystem.delete_file(self.path(name))

    def put_folder(self, folder: Path, under: str, *, last: str) -> None:
        """Copy the files of a local folder below `under`; the file named `last` is written after all others."""
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for name in (*(name for name in names if name != last), last):
            self.write(f"{under}/{name}", (folder / name).read_bytes())

    def fetch_folder(self, under: str, folder: Path) -> None:
        """Copy all files below `under` into a local folder."""
        for name in self.names(under):
            write_file(folder / name.removeprefix(f"{under}/"), self.read(name))


def storage_at(location: str | Path) -> Storage:
    """Open the store at a path or URI. Raises PipelineError where the URI is of no known kind."""
    text = str(location)
    if "://" not in text:
        path = Path(text).absolute()
        return Storage(str(path), fs.LocalFileSystem(), str(path))
    try:
        filesystem, root = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{text}: no store that can be opened: {' '.join(str(error).split())}") from error
    return Storage(text, filesystem, root)


def below(location: str | Path, name: str) -> str:
    """The location of a folder below another location."""
    text = str(location)
    if "://" not in text:
        return str(Path(text) / name)
    base, mark, options = text.partition("?")
    return f"{base.rstrip('/')}/{quote(name)}{mark}{options}"
