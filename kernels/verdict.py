"""What the checks return: right, or wrong and exactly why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Fact = int | float | str | bool | list[str]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a program is wrong. `kind` is one word, `where` an instruction, a tensor or an element."""

    kind: str
    where: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`right` only where all checks passed. `facts` says what was done, so that a verdict can be weighed."""

    right: bool
    reasons: tuple[Reason, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`{"verdict": "right" | "wrong", "reasons": [{"kind", "where", "detail"}], "facts": {...}}`."""
        reasons = [{"kind": r.kind, "where": r.where, "detail": r.detail} for r in self.reasons]
        return {"verdict": "right" if self.right else "wrong", "reasons": reasons, "facts": dict(self.facts)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote. Raises KeyError or TypeError for anything else."""
        reasons = tuple(Reason(str(r["kind"]), str(r["where"]), str(r["detail"])) for r in data["reasons"])
        # Right only if it says so and gives no reason against it.
        return Verdict(right=data["verdict"] == "right" and not reasons, reasons=reasons, facts=dict(data["facts"]))
