"""Does the store lose or hide anything, whoever writes, dies or damages it?"""

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from presil.simulators.errors import BadInput
from presil.suites import index as index_module
from presil.suites.index import Index
from presil.suites.store import CorruptRecord, Store, digest_of


def put_many(folder: Path, writer: str, count: int) -> None:
    store = Store(folder)
    for i in range(count):
        store.put("item", f"{writer}{i}", {"writer": writer, "i": i})


def files(folder: Path) -> list[Path]:
    return sorted((folder / "records").rglob("*.json"))


def test_what_was_put_is_found(tmp_path):
    store = Store(tmp_path)
    put = store.put("item", "abc", {"cycles": 7.5, "list": [1, 2]})
    assert store.find("item", "abc") == [put]
    assert store.find("item")[0].body == {"cycles": 7.5, "list": [1, 2]}
    assert store.find("run") == []


def test_equal_values_have_equal_digests_whatever_the_order_of_keys():
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 2, "b": 1})


def test_a_value_without_a_json_form_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Out of range float"):
        Store(tmp_path).put("item", "a", {"x": float("nan")})
    assert files(tmp_path) == []


def test_the_same_record_twice_is_one_file(tmp_path):
    Store(tmp_path).put("item", "a", {"x": 1})
    Store(tmp_path).put("item", "a", {"x": 1})
    assert len(files(tmp_path)) == len(Store(tmp_path).find("item")) == 1


def test_a_flipped_bit_is_detected_and_the_file_named(tmp_path):
    store = Store(tmp_path)
    store.put("item", "a", {"cycles": 1000})
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"1000")] ^= 1  # 0000: still valid JSON for most readers
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match="the record is damaged") as caught:
        store.find("item", "a")
    assert caught.value.file == str(path)


def test_a_torn_record_is_detected(tmp_path):
    store = Store(tmp_path)
    store.put("item", "a", {"cycles": 1000})
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(CorruptRecord):
        store.find("item", "a")


def test_a_record_of_another_format_is_refused(tmp_path):
    store = Store(tmp_path)
    text = json.dumps({"format": 99, "kind": "item", "key": "a", "body": {}})
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    path = store.path(store.put("item", "a", {}))
    path.unlink()
    path.with_name(f"item-a-{digest}.json").write_text(text)
    with pytest.raises(BadInput, match="format 99, this presil reads 1"):
        store.find("item", "a")


@pytest.mark.parametrize("damage", ["deleted", "garbage", "empty", "torn"])
def test_the_index_is_rebuilt_from_the_records(tmp_path, damage):
    store = Store(tmp_path)
    put_many(tmp_path, "w", 20)
    index = tmp_path / index_module.NAME
    if damage == "deleted":
        index.unlink()
    else:
        data = index.read_bytes()
        index.write_bytes({"garbage": b"not a database" * 300, "empty": b"", "torn": data[: len(data) // 2]}[damage])
    assert {r.body["i"] for r in store.find("item")} == set(range(20))
    assert {r.body["i"] for r in store.find("item")} == set(range(20))


def test_a_deleted_record_leaves_the_index(tmp_path):
    store = Store(tmp_path)
    put_many(tmp_path, "w", 3)
    store.path(store.find("item", "w1")[0]).unlink()
    assert [r.key for r in store.find("item")] == ["w0", "w2"]


def test_the_index_answers_questions_in_sql(tmp_path):
    Store(tmp_path).put("item", "a", {"machine": "tpu-v1", "cycles": 9.0, "program": "x" * 500})
    with sqlite3.connect(tmp_path / index_module.NAME) as connection:
        (row,) = connection.execute("SELECT summary ->> 'machine', summary ->> 'cycles', summary FROM records")
    connection.close()
    assert row[:2] == ("tpu-v1", 9.0)
    assert "program" not in json.loads(row[2])  # long texts stay in the files


def test_an_index_of_a_newer_presil_is_refused(tmp_path):
    store = Store(tmp_path)
    store.put("item", "a", {})
    with sqlite3.connect(tmp_path / index_module.NAME) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    for use in (lambda: store.find("item"), lambda: store.put("item", "b", {})):
        with pytest.raises(BadInput, match=r"newer presil .schema 7, this one knows 1.*delete the index"):
            use()
    assert len(files(tmp_path)) == 1


def test_an_index_that_stays_locked_costs_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.put("item", "a", {"x": 1})
    monkeypatch.setattr(index_module, "PATIENCE_SECONDS", 0.05)
    other = sqlite3.connect(tmp_path / index_module.NAME, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store.put("item", "b", {"x": 2})
    assert [r.key for r in store.find("item")] == ["a", "b"]
    other.execute("ROLLBACK")
    other.close()
    assert [r.key for r in store.find("item")] == ["a", "b"]
    with Index.open(tmp_path) as index:
        assert len(index.find("item")) == 2


def test_two_writers_and_a_reader_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=put_many, args=(tmp_path, name, 60)) for name in "ab"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for record in Store(tmp_path).find("item"):
            assert record.key == f"{record.body['writer']}{record.body['i']}"
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(Store(tmp_path).find("item")) == 120


@pytest.mark.parametrize("call", ["write", "fsync", "open", "rename"])
def test_a_full_disk_is_named_and_loses_nothing(tmp_path, monkeypatch, call):
    store = Store(tmp_path)
    store.put("item", "a", {"x": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((Path, "rename") if call == "rename" else (os, call)), full)
    with pytest.raises(BadInput, match=r"the disk is full\. What was finished before is kept"):
        store.put("item", "b", {"x": 2})
    monkeypatch.undo()
    assert [r.key for r in store.find("item")] == ["a"]
    assert [p.name for p in (tmp_path / "records").rglob("*") if p.is_file() and p.suffix != ".json"] == []


def test_a_short_write_goes_on(tmp_path, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, bytes(data[:10])))
    Store(tmp_path).put("item", "a", {"text": "x" * 100})
    monkeypatch.undo()
    assert Store(tmp_path).find("item", "a")[0].body == {"text": "x" * 100}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may reach; pytest's own is for its user only."""
    folder = Path(tempfile.mkdtemp(prefix="presil-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_folder_can_be_read_and_says_so_when_written(open_folder):
    put_many(open_folder, "w", 2)
    for path in (open_folder, *open_folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # nothing is read-only to root
    try:
        found = Store(open_folder).find("item")
        with pytest.raises(BadInput, match="cannot write to the folder of the run: permission denied") as caught:
            Store(open_folder).put("item", "b", {})
    finally:
        os.seteuid(user)
        for path in (open_folder, *open_folder.rglob("*")):
            path.chmod(0o755)
    assert len(found) == 2
    assert caught.value.file == str(open_folder)


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(BadInput, match=r"runs: cannot write to the folder of the run: Not a directory"):
        Store(tmp_path / "runs").put("item", "a", {})


def foreign(folder: Path, kind: str, data: bytes) -> Path:
    """A file with the name of a record, its digest right, that holds `data`."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    shelf = folder / "records" / hashlib.sha256(b"a").hexdigest()[:2]
    shelf.mkdir(parents=True, exist_ok=True)
    path = shelf / f"{kind}-a-{digest}.json"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data", [b"", b"not json", b"[]", b"{}", b'{"format":1}', b'{"format":1,"body":3}', b"[" * 99999]
)
def test_a_file_that_holds_no_record_is_named(data, tmp_path):
    path = foreign(tmp_path, "item", data)
    with pytest.raises(BadInput, match="this is no record: delete the file") as error:
        Store(tmp_path).find("item")
    assert error.value.file == str(path)


def test_a_record_of_a_newer_format_hinders_only_those_who_want_it(tmp_path):
    foreign(tmp_path, "item", b'{"format":2,"body":{}}')
    put = Store(tmp_path).put("run", "b", {"x": 1})
    assert Store(tmp_path).find("run") == [put]
    with pytest.raises(BadInput, match="the record has format 2, this presil reads 1"):
        Store(tmp_path).find("item")
