"""Is the house as the design says: folders, links, sizes, and no call that bad input could turn against a user?"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("simulators", "kernels", "suites", "reports")
TOP_LEVEL = {
    *FOLDERS, "hw", "tests", ".ci", ".src",
    "pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
    ".gitignore", ".pre-commit-config.yaml",
}  # fmt: skip

FILE_WISH, FILE_LIMIT = 300, 400
FUNCTION_WISH, FUNCTION_LIMIT = 60, 80


def tracked() -> list[Path]:
    """The files git knows; in an unpacked source distribution all that are there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        return [p.relative_to(ROOT) for name in TOP_LEVEL for p in (ROOT / name).rglob("*") if p.is_file()]
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


SOURCES = [path for path in tracked() if path.suffix == ".py" and path.parts[0] in (*FOLDERS, "tests")]


def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse((ROOT / path).read_text(encoding="utf-8"))) for path in SOURCES]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_link_leads_to_its_folder(folder):
    link = ROOT / ".src" / "presil" / folder
    assert link.is_symlink()
    assert link.resolve() == ROOT / folder


def test_there_is_no_link_beside_those():
    assert sorted(p.name for p in (ROOT / ".src" / "presil").iterdir()) == sorted(FOLDERS)


def test_the_top_level_is_the_fixed_set():
    assert {path.parts[0] for path in tracked()} <= TOP_LEVEL


def test_every_folder_with_sources_is_a_package():
    folders = {path.parent for path in SOURCES if path.parts[0] in FOLDERS}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()] == []


def test_no_file_is_too_long(capsys):
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    _report(capsys, "lines in a file", {str(p): n for p, n in lengths.items() if n > FILE_WISH}, FILE_WISH)
    assert {str(p): n for p, n in lengths.items() if n > FILE_LIMIT} == {}


def test_no_function_is_too_long(capsys):
    lengths = {
        f"{path}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    _report(capsys, "lines in a function", {k: n for k, n in lengths.items() if n > FUNCTION_WISH}, FUNCTION_WISH)
    assert {k: n for k, n in lengths.items() if n > FUNCTION_LIMIT} == {}


def _report(capsys, what: str, found: dict[str, int], wish: int) -> None:
    with capsys.disabled():
        for place, length in sorted(found.items(), key=lambda item: -item[1]):
            print(f"\n  {length} {what}, {wish} wished: {place}", end="")  # noqa: T201  # the report is the point


FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "os.system"}


def imported(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, module) of every import in a file."""
    return [
        (node.lineno, name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    ]


def test_nothing_unpickles_or_evaluates_or_starts_a_shell():
    """Records, programs and descriptions come from strangers."""
    product = [(path, tree) for path, tree in trees() if path.parts[0] in FOLDERS]
    found = [
        f"{p}:{line} imports {name}"
        for p, tree in product
        for line, name in imported(tree)
        if name in FORBIDDEN_MODULES
    ]
    for path, tree in product:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found += [f"{path}:{c.lineno} calls {name}" for c in calls if (name := ast.unparse(c.func)) in FORBIDDEN_CALLS]
        found += [f"{path}:{c.lineno} starts a shell" for c in calls for k in c.keywords if k.arg == "shell"]
    assert found == []


def test_families_do_not_know_each_other_and_the_shared_files_know_none():
    families = {path.parent.name for path in (ROOT / "simulators").glob("*/isa.py")}
    found = [
        f"{path}:{line} imports {name}"
        for path, tree in trees()
        if path.parts[0] == "simulators"
        for line, name in imported(tree)
        if (families - set(path.parts)) & set(name.split("."))
    ]
    assert found == []


def test_every_machine_file_is_named_like_its_machine():
    from presil.simulators.machine import load_machine, machine_names

    assert [load_machine(name).name for name in machine_names()] == list(machine_names())


def test_what_is_imported_is_a_declared_dependency():
    """A library that only another one brings is gone when that one goes: the tests' environment would not show it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=~!\[ ]", line)[0].replace("-", "_").split(".")[0] for line in project["dependencies"]}
    imported = set()
    for path, tree in trees():
        for node in ast.walk(tree) if path.parts[0] in FOLDERS else ():
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).split(".")[0])
    transitive = {"pydantic_core"}  # pydantic's own other half, of one version with it
    assert imported - declared - transitive - set(sys.stdlib_module_names) - {"presil"} == set()
