"""The store: one immutable file per finished piece of work, and an index that can be rebuilt from the files.

A record is JSON in `records/KK/KIND-KEY-DIGEST.json`. It is written to a temporary file, synced, renamed, and its
folder is synced, so that a reader sees all of it or nothing, whoever else writes at that moment. The digest in the name
is that of the content: a flipped bit is found when the record is read. Nothing is ever rewritten.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from presil.simulators.errors import BadInput

from .index import Index, Row, discard

Body = dict[str, Any]
FORMAT = 1
RECORDS = "records"
NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<key>[0-9a-zA-Z._-]+)-(?P<digest>[0-9a-f]{32})\.json")
FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
REFUSED = {errno.EROFS: "the file system is read-only", errno.EACCES: "permission denied", errno.EPERM: "not permitted"}


class CorruptRecord(BadInput):
    """A record whose content is not what its name says. Delete that file: its work is then done again."""


@dataclass(frozen=True, slots=True)
class Record:
    """One finished piece of work. `digest` is that of the file's bytes, `key` that of what was asked for."""

    kind: str
    key: str
    digest: str
    body: Body = field(compare=False, hash=False)


def digest_of(value: object) -> str:
    """32 hex digits that name a JSON value: equal values have equal ones, whatever the order of their keys."""
    return _hash(_encode(value))


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of records. Any number of processes may read and write it at once."""

    folder: Path

    def put(self, kind: str, key: str, body: Body) -> Record:
        """Writes a record and returns it. It is on disk when this returns.

        Raises BadInput where the folder cannot be written; what was stored before stays as it is.
        """
        data = _encode({"format": FORMAT, "kind": kind, "key": key, "body": body})
        record = Record(kind, key, _hash(data), body)
        path = self.path(record)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with Index.open(self.folder) as index:
                write_whole(path, data)
                with contextlib.suppress(sqlite3.Error):  # the file is the truth: the next reader mends the index
                    index.add((kind, key, record.digest), _summary(body))
        except OSError as error:
            raise self._cannot_write(error) from error
        return record

    def find(self, kind: str, key: str | None = None) -> list[Record]:
        """All records of a kind (and key), in the order of their names. Raises CorruptRecord for a damaged one."""
        try:
            with Index.open(self.folder) as index:
                index.match(self.names(), self._summary_of)
                rows = index.find(kind, key)
        except sqlite3.Error as error:
            if not isinstance(error, sqlite3.OperationalError):  # damaged, not just out of reach
                with contextlib.suppress(OSError):
                    discard(self.folder)
            rows = sorted(row for row in self.names() if row[0] == kind and key in {None, row[1]})
        return [self.read(*row) for row in rows]

    def read(self, kind: str, key: str, digest: str) -> Record:
        """One record. Raises CorruptRecord where its bytes do not hash to its name."""
        path = self.path(Record(kind, key, digest, {}))
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInput(f"cannot read the record: {error.strerror}", file=str(path)) from error
        if _hash(data) != digest:
            raise CorruptRecord(
                f"the record is damaged: its content hashes to {_hash(data)}, its name says {digest}; "
                "delete this file and run again with --resume: only this piece of work is repeated",
                file=str(path),
            )
        return Record(kind, key, digest, _body(data, path))

    def _summary_of(self, row: Row) -> Body:
        """The summary of a record; an empty one where it cannot be read: whoever asks for that very record is told."""
        try:
            return _summary(self.read(*row).body)
        except BadInput:
            return {}

    def names(self) -> Iterator[Row]:
        """(kind, key, digest) of every record file, whole by construction; temporary files are passed over."""
        for path in (self.folder / RECORDS).glob("*/*.json"):
            match = NAME.fullmatch(path.name)
            if match:
                yield match["kind"], match["key"], match["digest"]

    def path(self, record: Record) -> Path:
        """Where a record lies."""
        shelf = hashlib.sha256(record.key.encode()).hexdigest()[:2]
        return self.folder / RECORDS / shelf / f"{record.kind}-{record.key}-{record.digest}.json"

    def _cannot_write(self, error: OSError) -> BadInput:
        why = FULL.get(error.errno or 0) or REFUSED.get(error.errno or 0) or error.strerror or str(error)
        return BadInput(
            f"cannot write to the folder of the run: {why}. What was finished before is kept; "
            "make room or choose another folder with -o, and start again with --resume",
            file=str(self.folder),
        )


def _body(data: bytes, path: Path) -> Body:
    """The body in a record's bytes. Raises BadInput where another presil, or another program, wrote them."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    found = content.get("format") if isinstance(content, dict) else None
    if found is not None and found != FORMAT:
        message = f"the record has format {found}, this presil reads {FORMAT}: use the presil that wrote it"
        raise BadInput(message, file=str(path))
    if not isinstance(content, dict) or found is None or not isinstance(content.get("body"), dict):
        raise BadInput("this is no record: delete the file, and the work is done again", file=str(path))
    body: Body = content["body"]
    return body


def _encode(value: object) -> bytes:
    """The one JSON text of a value. NaN is refused: no JSON reader but Python's would take it."""
    return (json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _summary(body: Body) -> Body:
    """The short plain fields of a body."""
    return {k: v for k, v in body.items() if isinstance(v, int | float) or (isinstance(v, str) and len(v) <= 200)}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def write_whole(path: Path, data: bytes) -> None:
    """Writes `data` to `path` so that a crash at any moment leaves all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except BaseException:  # Ctrl-C too
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name is safe only once the folder is
    finally:
        os.close(folder)
