"""Checks a text in a process of its own, under limits: the text may be anything.

The child reads one JSON object from its standard input and writes one to its standard output. It is believed only if it
ends with exit code 0 *and* its record carries the nonce it was given: a child that is killed, or that ends early with
code 0, has said nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .verdict import Reason, Verdict

MAX_RECORD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the child may take. `wall_seconds` is the parent's patience."""

    memory_bytes: int = 16 << 30
    cpu_seconds: int = 1800
    wall_seconds: float = 3600.0


def check_in_clean_process(
    text: str,
    workload: str,
    machine: str | Path,
    *,
    seeds: int | None = None,
    patterns: Sequence[str] | None = None,
    run_seed: int = 0,
    budget_seconds: float | None = None,
    limits: Limits | None = None,
) -> Verdict:
    """The verdict of `check_text` on a workload and a machine (a name or a file), made in a process of its own.

    A child that does not answer, or not within `limits`, gives a wrong verdict with the reason `process`.
    Raises BadInput as `check_text`, `parse_workload` and `load_machine` do.
    """
    limits = limits or Limits()
    options: dict[str, Any] = {"seeds": seeds, "run_seed": run_seed}
    options |= {} if patterns is None else {"patterns": list(patterns)}
    options |= {} if budget_seconds is None else {"budget_seconds": budget_seconds}
    nonce = secrets.token_hex(16)
    request = {"nonce": nonce, "text": text, "workload": workload, "machine": str(machine), "options": options}
    code, output = _spawn(json.dumps(request | {"limits": asdict(limits)}), limits)
    record = _record(output, nonce) if code == 0 else None
    if record is None:
        detail = f"the check ended with {_ending(code)} and without a verdict; allowed: {asdict(limits)}"
        return Verdict(right=False, reasons=(Reason("process", "check", detail),))
    if "error" in record:
        from presil.simulators.errors import BadInput

        raise BadInput(str(record["error"]))
    return Verdict.from_json(record["verdict"])


def _spawn(request: str, limits: Limits) -> tuple[int | None, str]:
    """(exit code or None where it took too long, what it wrote)."""
    # One thread: a library that splits its work gets slower where many checks run side by side.
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # -P: the folder it is started in must not be searched for modules.
    command = [sys.executable, "-P", "-m", "presil.kernels.clean_process"]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            child.communicate(request.encode(), timeout=limits.wall_seconds)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end(child)
        output.seek(0)
        return child.returncode, output.read(MAX_RECORD_BYTES + 1).decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child with all it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _record(output: str, nonce: str) -> dict[str, Any] | None:
    if len(output) > MAX_RECORD_BYTES:
        return None
    try:
        record = json.loads(output)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("nonce") == nonce else None


def _ending(code: int | None) -> str:
    if code is None:
        return "time running out"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def main() -> int:
    """The child: checks what it reads, under the limits it reads."""
    request = json.loads(sys.stdin.read())
    limits = request["limits"]
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"],) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_RECORD_BYTES + 1,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    from presil.simulators.errors import BadInput
    from presil.simulators.machine import load_machine

    from .checking import check_text
    from .operators.registry import parse_workload

    record: dict[str, Any] = {"nonce": request["nonce"]}
    try:
        machine, workload = load_machine(request["machine"]), parse_workload(request["workload"])
        record["verdict"] = check_text(request["text"], workload, machine, **request["options"]).to_json()
    except BadInput as error:
        record["error"] = str(error)
    sys.stdout.write(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
