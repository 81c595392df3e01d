"""The judge: what is scored is what was checked.

A kernel is rendered, read back from its text, timed again and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from presil.simulators.assembly import parse, render
from presil.simulators.bound import lower_bound_ticks, peak_multiply_adds_per_cycle
from presil.simulators.errors import PresilError, Undefined, Unsupported
from presil.simulators.machine import Machine
from presil.simulators.program import Program

from ..operators import operator
from ..operators.operator import Workload
from ..verdict import Reason, Verdict
from .candidates import Candidates
from .result import Ranked, Roofline, Word

Check = Callable[[Program, Workload, Machine], Verdict]


def check_kernel(program: Program, workload: Workload, machine: Machine) -> Verdict:
    """The three layers of `presil.kernels.checking`, imported when first needed."""
    from ..checking import check

    return check(program, workload, machine)


class Judge:
    """Verdicts on the schedules of one search, each given once. After Ctrl-C (`interrupted`) it checks no more."""

    def __init__(self, candidates: Candidates, check: Check, *, interrupted: bool) -> None:
        self.interrupted = interrupted
        self._candidates, self._check = candidates, check
        self._verdicts: dict[int, tuple[Word, tuple[str, ...]]] = {}
        self._of_text: dict[tuple[str, int | None], tuple[Reason, ...]] = {}  # by text and ticks
        self._roofline: Roofline | None = None

    def first_right(self, ranks: Sequence[int]) -> int | None:
        """The first that is right, or None. Once interrupted: the first that is not known to be wrong."""
        return next((rank for rank in ranks if self._verdict(rank) != "wrong"), None)

    def ranked(self, rank: int) -> Ranked:
        """A timed schedule with the verdict it has so far."""
        evaluator, outcome = self._candidates.evaluator, self._candidates.outcomes[rank]
        assert outcome.ticks is not None
        verdict, reasons = self._verdicts.get(rank, ("not checked", ()))
        return Ranked(
            schedule=self._candidates.schedule(rank),
            ticks=outcome.ticks,
            clock_hz=evaluator.machine.clock_hz,
            roofline=self._bound(rank),
            verdict=verdict,
            reasons=reasons,
        )

    def text(self, rank: int) -> str:
        """The program text of a schedule."""
        return render(self._candidates.evaluator.program(rank))

    def _verdict(self, rank: int) -> Word:
        if rank not in self._verdicts and not self.interrupted:
            try:
                reasons = self._faults(rank)
            except KeyboardInterrupt:
                self.interrupted = True
                return "not checked"
            texts = tuple(f"{reason.kind} at {reason.where}: {reason.detail}" for reason in reasons)
            self._verdicts[rank] = ("wrong" if texts else "right", texts)
        return self._verdicts.get(rank, ("not checked", ()))[0]

    def _faults(self, rank: int) -> tuple[Reason, ...]:
        """Why the kernel is wrong; nothing if it is right. Raises BadInput where the task itself is no task."""
        evaluator, ticks = self._candidates.evaluator, self._candidates.outcomes[rank].ticks
        where = str(self._candidates.schedule(rank))
        try:
            text = self.text(rank)
            if (text, ticks) in self._of_text:
                return self._of_text[text, ticks]
            program = parse(text)
            again = evaluator.measure(program, evaluator.machine, None).ticks
        except PresilError as error:  # it was timed before, so its text must be at fault
            return (Reason("text", where, str(error)),)
        if again != ticks:
            return (Reason("text", where, f"read back from its text it takes {again:,} ticks, not {ticks:,}"),)
        if again < self._bound(rank).ticks:
            return (
                Reason("bound", where, f"{again:,} ticks are less than the roofline's {self._bound(rank).ticks:,}"),
            )
        try:
            verdict = self._check(program, evaluator.workload, evaluator.machine)
        except Undefined as error:
            return (Reason(error.kind, error.where, error.detail),)
        except Unsupported as error:
            return (Reason("unsupported", where, str(error)),)
        faults = () if verdict.right else verdict.reasons or (Reason("check", where, "no reason given"),)
        self._of_text[text, ticks] = faults
        return faults

    def _bound(self, rank: int) -> Roofline:
        """The roofline of the workload. A program is asked only in which memory its tensors lie."""
        if self._roofline is None:
            evaluator = self._candidates.evaluator
            workload, machine = evaluator.workload, evaluator.machine
            work, dtype = operator(workload.operator).work(workload), str(workload["dtype"])
            traffic: dict[str, int] = {}
            phases = evaluator.program(rank).phases
            for tensor in {t.name: t for phase in phases for t in phase.tensors}.values():
                moved = work.tensor_bytes.get(tensor.name, 0)
                traffic[tensor.memory] = traffic.get(tensor.memory, 0) + moved
            self._roofline = Roofline(
                ticks=lower_bound_ticks(work.multiply_adds, dtype, traffic, machine),
                multiply_adds=work.multiply_adds,
                peak=peak_multiply_adds_per_cycle(dtype, machine),
            )
        return self._roofline
