"""The index of a store: a local SQLite database that says which records there are. It can be deleted at any time.

The record files are the truth. The index is matched with their names whenever it is read, so a writer that was killed
between its file and its row, a deleted file and a deleted or damaged index all mend themselves. Beside the name of a
record stands its summary (JSON), for questions across many runs in plain SQL; figures are taken from the files alone.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from presil.simulators.errors import BadInput

SCHEMA = 1  # user_version: counts up when the tables change
NAME = "index.sqlite"
PATIENCE_SECONDS = 30.0  # how long a writer waits for the others
Row = tuple[str, str, str]  # kind, key, digest
Summary = Mapping[str, object]
TABLES = """
CREATE TABLE IF NOT EXISTS records
(kind TEXT, key TEXT, digest TEXT, summary TEXT, PRIMARY KEY (kind, key, digest)) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Index:
    """An open index. Use `with Index.open(folder) as index`."""

    connection: sqlite3.Connection

    @staticmethod
    @contextlib.contextmanager
    def open(folder: Path) -> Iterator[Index]:
        """Opens the index of a store; one in memory where the folder cannot be written.

        A file that is no database is replaced. Raises BadInput for an index that a newer presil made.
        """
        connection = _connect(folder / NAME)
        try:
            yield Index(connection)
        finally:
            connection.close()

    def add(self, row: Row, summary: Summary) -> None:
        """Notes one record."""
        with self._writing():
            self._insert(row, summary)

    def match(self, names: Iterable[Row], summarise: Callable[[Row], Summary]) -> None:
        """Makes the rows those of `names`, the record files that there are. `summarise` reads one of them."""
        there = set(names)
        known = set(self.connection.execute("SELECT kind, key, digest FROM records"))
        if there == known:
            return
        summaries = {row: summarise(row) for row in sorted(there - known)}
        with self._writing():
            gone = "DELETE FROM records WHERE kind = ? AND key = ? AND digest = ?"
            self.connection.executemany(gone, sorted(known - there))
            for row, summary in summaries.items():
                self._insert(row, summary)

    def find(self, kind: str, key: str | None = None) -> list[Row]:
        """The records of a kind (and key), in order."""
        text = "SELECT kind, key, digest FROM records WHERE kind = ? AND (? IS NULL OR key = ?) ORDER BY key, digest"
        return list(self.connection.execute(text, (kind, key, key)))

    def _insert(self, row: Row, summary: Summary) -> None:
        text = json.dumps(summary, sort_keys=True)
        self.connection.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?)", (*row, text))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction. IMMEDIATE, since a reader that turns writer fails at once when another was quicker."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")


def discard(folder: Path) -> None:
    """Deletes the index. Nothing is lost: the next reader rebuilds it."""
    for name in (NAME, f"{NAME}-wal", f"{NAME}-shm"):
        (folder / name).unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    try:
        return _prepared(path, str(path))
    except sqlite3.OperationalError:  # no such folder, read-only, full, locked for long
        return _prepared(path, ":memory:")
    except sqlite3.DatabaseError:  # no database: damaged, or another file of that name
        discard(path.parent)
        return _prepared(path, str(path))


def _prepared(path: Path, target: str) -> sqlite3.Connection:
    connection = sqlite3.connect(target, timeout=PATIENCE_SECONDS, isolation_level=None)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        _refuse_newer(version, path)
        if version < SCHEMA:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(TABLES)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_newer(version: int, path: Path) -> None:
    if version > SCHEMA:
        raise BadInput(
            f"this index was made by a newer presil (schema {version}, this one knows {SCHEMA}): "
            "use that presil, or delete the index, which is rebuilt from the records",
            file=str(path),
        )
