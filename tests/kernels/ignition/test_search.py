"""The whole search, with a made-up emitter and a made-up check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import made_up
import pytest

from presil.kernels.ignition.candidates import LEADERS
from presil.kernels.ignition.result import NothingValid, Progress
from presil.kernels.ignition.search import search
from presil.kernels.operators import operator
from presil.kernels.verdict import Reason, Verdict
from presil.simulators.bound import lower_bound_ticks
from presil.simulators.errors import Undefined, Unsupported

WORK = made_up.workload(512, 512, 512)
TINY = made_up.workload(16, 16, 16)  # 36 schedules: fewer than the budget


def right(program, workload, machine):
    return Verdict(right=True)


def run(work=WORK, *, check=right, emitter=None, measure=made_up.measure, **options):
    evaluator = replace(made_up.evaluator(work, emitter), measure=measure)
    return search(work, made_up.MACHINE, check=check, evaluator=evaluator, **options)


def text(result) -> str:
    return json.dumps(result.to_json())


def test_the_same_seed_gives_the_same_bytes():
    assert text(run(seed=3, budget=60)) == text(run(seed=3, budget=60))


def test_jobs_change_nothing():
    assert text(run(seed=3, budget=60, jobs=2)) == text(run(seed=3, budget=60, jobs=1))


def test_the_object_is_that_of_the_command():
    result = run(budget=60).to_json()
    assert {"workload", "machine", "seed", "evaluated", "best", "leaderboard"} <= set(result)
    assert {"cycles", "seconds", "utilization", "bound_ratio", "schedule", "verdict"} <= set(result["best"])
    assert result["workload"] == str(WORK)
    assert result["machine"] == "tpu-v1"
    assert result["best"]["verdict"] == "right"
    assert result["best"] == result["leaderboard"][0]
    assert len(result["leaderboard"]) == LEADERS
    cycles = [entry["cycles"] for entry in result["leaderboard"]]
    assert cycles == sorted(cycles)


def test_figures_are_those_of_their_definitions():
    best = run(budget=60).best
    assert best.cycles == made_up.true_ticks(WORK, best.schedule) / 1024
    assert best.seconds == best.cycles / 700e6  # TPU v1 runs at 700 MHz
    assert best.utilization == pytest.approx(512**3 / (best.cycles * 256 * 256))  # one array of 256 x 256
    work = operator("matmul").work(WORK)
    memory = next(iter(made_up.MACHINE.memories))  # the made-up program has only y, in that memory
    bound = lower_bound_ticks(work.multiply_adds, "int8", {memory: 4 * 512 * 512}, made_up.MACHINE)
    assert best.bound_ratio == pytest.approx(best.cycles * 1024 / bound)


def test_the_budget_is_kept_and_reported():
    result = run(budget=37)
    assert result.evaluated <= result.budget == 37
    assert not result.exact


def test_the_first_correct_one_is_the_closed_form_pick():
    result = run(TINY)
    schedules = list(map(made_up.evaluator(TINY).space.unrank, range(result.schedules)))
    emitter = made_up.MadeUp()
    priors = [emitter.prior_cycles(TINY, made_up.MACHINE, s) for s in schedules]
    assert result.first is not None
    assert result.first.schedule == schedules[priors.index(min(priors))]
    assert result.first.verdict == "right"
    assert result.speedup == result.first.ticks / result.best.ticks >= 1


@pytest.mark.parametrize("options", [{}, {"exhaustive": True, "budget": 1}])
def test_a_small_space_is_exhausted(options):
    result = run(TINY, **options)
    schedules = map(made_up.evaluator(TINY).space.unrank, range(result.schedules))
    assert result.exact
    assert result.best.ticks == min(made_up.true_ticks(TINY, s) for s in schedules)


def test_a_wrong_winner_is_counted_and_the_next_taken():
    ranking = [entry.ticks for entry in run(budget=60).leaderboard]

    def check(program, workload, machine):
        ticks = int(program.name.split()[0])
        return Verdict(right=ticks > ranking[1], reasons=(Reason("race", "stream loadx", "xb is read too soon"),))

    result = run(budget=60, check=check)
    assert result.wrong == sum(ticks <= ranking[1] for ticks in ranking)
    assert result.best.ticks == min(ticks for ticks in ranking if ticks > ranking[1])
    assert [entry.verdict for entry in result.leaderboard][: result.wrong + 1] == ["wrong"] * result.wrong + ["right"]
    assert result.leaderboard[0].reasons == ("race at stream loadx: xb is read too soon",)


def test_a_check_that_raises_makes_the_candidate_wrong():
    def check(program, workload, machine):
        raise Undefined("race", "stream loadx", "xb is read while it is written")

    with pytest.raises(NothingValid, match=r"fastest schedules are all wrong.*race at stream loadx"):
        run(budget=30, check=check)


def test_only_what_was_checked_says_so():
    words = [entry.verdict for entry in run(budget=60).leaderboard]
    assert words[0] == "right"
    assert words.count("not checked") >= LEADERS - 2  # the best and the first pick were checked


def test_a_time_under_the_roofline_is_refused():
    def measure(program, machine, ceiling):
        return replace(made_up.measure(program, machine, None), ticks=1)

    with pytest.raises(NothingValid, match="less than the roofline"):
        run(budget=20, measure=measure)


def test_a_time_that_its_text_does_not_have_is_refused():
    times = iter(range(10**9, 10**9 + 1000))

    def measure(program, machine, ceiling):
        return replace(made_up.measure(program, machine, None), ticks=next(times))

    with pytest.raises(NothingValid, match="read back from its text"):
        run(budget=20, measure=measure)


def test_invalid_schedules_are_counted_and_the_rest_goes_on():
    result = run(budget=100, emitter=made_up.MadeUp(deadlocks=True))
    assert result.invalid["deadlock"] > 0
    assert result.best.schedule["order"] != "nmk"
    assert result.best.verdict == "right"


@dataclass(frozen=True)
class Refuses(made_up.MadeUp):
    def legal(self, workload, machine, schedule):
        return "tiles do not fit the scratchpad"


@dataclass(frozen=True)
class Crashes(made_up.MadeUp):
    def lower(self, workload, machine, schedule):
        raise KeyError("bm")


@pytest.mark.parametrize("work", [WORK, TINY])
@pytest.mark.parametrize(
    ("emitter", "reason"), [(Refuses(), "tiles do not fit the scratchpad"), (Crashes(), "defect KeyError")]
)
def test_nothing_valid_is_its_own_error_with_the_reasons(work, emitter, reason):
    with pytest.raises(NothingValid, match=reason) as caught:
        run(work, emitter=emitter, budget=40)
    assert isinstance(caught.value, Unsupported)


def interrupt(after: int) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        if progress.evaluated >= after:
            raise KeyboardInterrupt

    return show


def test_ctrl_c_keeps_what_was_finished():
    result = run(budget=200, progress=interrupt(24))
    assert result.interrupted
    assert 24 <= result.evaluated < 40
    assert result.best.verdict == "not checked"
    assert json.loads(text(result))["interrupted"] is True


def test_ctrl_c_while_checking_keeps_the_search():
    def check(program, workload, machine):
        raise KeyboardInterrupt

    result = run(budget=40, check=check)
    assert result.interrupted
    assert result.best.verdict == "not checked"


def test_ctrl_c_before_anything_was_timed():
    def measure(program, machine, ceiling):
        raise KeyboardInterrupt

    with pytest.raises(NothingValid, match="interrupted before any schedule was timed"):
        run(measure=measure)


def test_progress_counts_up_to_the_budget():
    seen: list[Progress] = []
    run(budget=40, progress=seen.append)
    assert [p.evaluated for p in seen] == sorted(p.evaluated for p in seen)
    assert seen[-1].evaluated <= 40
    bests = [p.best_cycles or math.inf for p in seen]
    assert bests == sorted(bests, reverse=True)


def test_a_larger_budget_is_never_worse_on_average():
    small = [run(seed=s, budget=16).best.ticks for s in range(3)]
    large = [run(seed=s, budget=120).best.ticks for s in range(3)]
    assert sum(large) <= sum(small)
