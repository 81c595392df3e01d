"""GPU kernels that look up in tables: paged attention and grouped matmul, of any shape, right and wrong."""

from __future__ import annotations

import functools
import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.kernels.checking import check, check_text
from presil.kernels.emitters import emitter
from presil.kernels.ignition.search import search
from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import Workload
from presil.kernels.space import Axis, Schedule, Space
from presil.simulators.assembly import parse, render
from presil.simulators.errors import Undefined, Unsupported
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program, instructions
from presil.simulators.simulate import simulate

from .test_gpu_kernels import drawn

H100 = load_machine("h100")
MACHINES = {name: load_machine(name).with_cores(3) for name in ("a100", "h100")}


def lowered(workload: Workload, machine: Machine, schedule: Schedule) -> Program:
    return emitter(workload.operator, "gpu").lower(workload, machine, schedule)


def require_right(workload: Workload, machine: Machine, count: int, **choices: int | str) -> None:
    of = emitter(workload.operator, "gpu")
    axes = (Axis(a.name, (choices[a.name],)) if a.name in choices else a for a in of.space(workload, machine).axes)
    space, chance = Space(tuple(axes)), random.Random(str(workload))
    order = chance.sample(range(space.count()), space.count())
    legal = (s for s in map(space.unrank, order) if of.legal(workload, machine, s) is None)
    found = list(itertools.islice(legal, count))
    assert found, choices
    for schedule in found:
        program = lowered(workload, machine, schedule)
        verdict = check(program, workload, machine, seeds=1)
        assert verdict.right, (str(schedule), verdict.reasons)
        assert any(i.op == "gather" for s in program.streams for i, _ in instructions(s.body))


@settings(max_examples=15)
@given(st.data())
def test_any_paged_attention_is_right(data):
    machine = MACHINES[data.draw(st.sampled_from(sorted(MACHINES)))]
    kv_heads, shared, q = (data.draw(st.integers(1, 3)) for _ in range(3))
    kv, page = data.draw(st.integers(q, 150)), data.draw(st.sampled_from([1, 8, 12, 16, 40, 64, 192]))
    shape = f"batch={data.draw(st.integers(1, 2))},heads={kv_heads * shared},kv_heads={kv_heads},q={q},kv={kv}"
    kind = data.draw(st.sampled_from(["dtype=bf16", "dtype=fp16", "dtype=bf16,causal=true"]))
    require_right(parse_workload(f"attention:{shape},head=32,page={page},{kind}"), machine, 1)


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("pack", [0, 1])
@pytest.mark.parametrize("kv", [192, 193, 200, 255, 256])  # last pages of all, 1, 8, 15 and 16 keys
def test_last_pages_and_last_blocks(kv, pack, ahead):
    workload = parse_workload(f"attention:batch=2,heads=4,kv_heads=2,q=1,kv={kv},head=32,page=16,dtype=bf16")
    require_right(workload, MACHINES["h100"], 2, ahead=ahead, pack=pack, keys=64)


def test_several_blocks_of_queries_read_the_same_pages():
    workload = parse_workload("attention:heads=2,kv_heads=1,q=150,kv=100,head=32,page=16,dtype=bf16")
    require_right(workload, MACHINES["h100"], 2, rows=64)
    require_right(parse_workload(f"{workload},causal=true".replace("kv=100", "kv=160")), MACHINES["h100"], 2)


def test_behind_the_last_page_it_stands_again():
    # 100 keys are 7 pages of 16. The second block of 64 has pages 4 to 6, and one place more.
    workload = parse_workload("attention:heads=1,kv_heads=1,q=1,kv=100,head=32,page=16,dtype=bf16")
    (schedule,) = drawn(workload, MACHINES["h100"], 1, lambda s: s["keys"] == 64)
    program = lowered(workload, MACHINES["h100"], schedule)
    tables = [i.operands[2].dims[1] for s in program.streams for i, _ in instructions(s.body) if i.op == "gather"]
    assert [(t.start.base, t.size) for t in tables] == [(0, 4), (0, 4), (4, 3), (6, 1), (4, 3), (6, 1)]


@settings(max_examples=15)
@given(st.data())
def test_any_grouped_matmul_is_right(data):
    machine = MACHINES[data.draw(st.sampled_from(sorted(MACHINES)))]
    align, tiles = data.draw(st.sampled_from([16, 48, 64, 128, 384])), data.draw(st.integers(1, 7))
    n, k, groups = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 200)), data.draw(st.integers(1, 9))
    kind = data.draw(
        st.sampled_from(["dtype=bf16", "dtype=fp32", "dtype=int8,out=int8,bias=yes", "dtype=bf16,out=bf16,bias=yes"])
    )
    shape = f"groups={groups},m={align * tiles},n={n},k={k},align={align}"
    require_right(parse_workload(f"grouped_matmul:{shape},{kind}"), machine, 1)


@pytest.mark.parametrize("place", ["dispatch", "persistent"])
@pytest.mark.parametrize(
    ("order", "group", "rows", "cluster"),
    # Tiles of 128 rows: groups along m of whole tiles, of one, of parts of one; along n, with a copy of x for two.
    [("m", 4, 64, 1), ("m", 2, 64, 1), ("m", 2, 32, 1), ("m", 1, 128, 1), ("n", 2, 64, 2), ("n", 1, 128, 1)],
)
def test_each_order_of_blocks(order, group, rows, cluster, place):
    workload = parse_workload("grouped_matmul:groups=4,m=512,n=128,k=128,dtype=bf16")
    chosen = {"order": order, "group": group, "rows": rows, "cluster": cluster, "place": place, "columns": 32}
    require_right(workload, MACHINES["h100"], 2, **chosen)


def test_every_legal_schedule_of_a_small_grouped_matmul_can_run():
    workload, machine = parse_workload("grouped_matmul:groups=3,m=192,n=40,k=70,align=64,dtype=bf16"), MACHINES["h100"]
    found, asked = emitter("grouped_matmul", "gpu"), operator("grouped_matmul")
    space = found.space(workload, machine)
    inputs = asked.inputs(workload, 3, "integers")
    wanted = asked.reference(workload, inputs)["y"]
    legal = [s for s in map(space.unrank, range(space.count())) if found.legal(workload, machine, s) is None]
    assert len(legal) > 50
    for number, schedule in enumerate(legal):
        program = lowered(workload, machine, schedule)
        check_legality(program, machine)
        assert parse(render(program)) == program
        if number % 17 == 0:
            run = simulate(program, machine, mode="full", inputs=inputs)
            np.testing.assert_array_equal(run.outputs["y"], wanted, str(schedule))
            assert run.stored_bytes["y"] == run.outputs["y"].nbytes  # each element once


TASKS = (
    "attention:batch=4,heads=32,kv_heads=8,q=1,kv=1000,head=128,page=16",
    "attention:batch=4,heads=32,kv_heads=8,q=1,kv=1000,head=128,page=64",
    "grouped_matmul:groups=8,m=2048,n=512,k=512,dtype=bf16",
)


@pytest.mark.parametrize("text", TASKS)
def test_time_is_the_same_in_part_and_on_any_data(text):
    workload, machine = parse_workload(text), MACHINES["h100"]
    (schedule,) = drawn(workload, machine, 1, lambda s: s["consumers"] == 1 and s.choices[1][1] == 64)
    program = lowered(workload, machine, schedule)
    skip = simulate(program, machine).timing
    for seed in (1, 2):
        inputs = operator(workload.operator).inputs(workload, seed, "random")
        full = simulate(program, machine, mode="full", inputs=inputs).timing
        for what in ("ticks", "traffic_bytes", "multiply_adds", "issued_instructions"):
            assert getattr(full, what) == getattr(skip, what), what


@pytest.mark.slow
@pytest.mark.parametrize("text", TASKS)
def test_the_search_finds_right_kernels(text):
    workload = parse_workload(text)
    result = search(workload, H100, check=check, budget=40, seed=1)
    assert (result.best.verdict, result.wrong) == ("right", 0)


def test_pages_cost_little_more_than_one_piece():
    # 16 keys of 128 elements are 4 KiB: 64 cycles of the port, above the set-up of 32. So it is latency, once a ring.
    schedule = {"rows": 4, "keys": 64, "stages": 4, "consumers": 1, "ahead": 1, "pack": 1, "first": "early"}
    cycles = []
    for page in ("0", "16"):
        workload = parse_workload(f"attention:batch=4,heads=32,kv_heads=8,q=1,kv=1000,head=128,page={page}")
        found = Schedule(tuple({**schedule, "outer": "heads"}.items()))
        assert emitter("attention", "gpu").legal(workload, H100, found) is None
        cycles.append(simulate(lowered(workload, H100, found), H100).timing.cycles)
    assert 1 < cycles[1] / cycles[0] < 1.03


REFUSED = [
    ("attention:heads=1,kv_heads=1,q=1,kv=300,head=32,page=256", "pages of 256 keys: a block of keys is 1 to 32 whole"),
    ("attention:heads=1,kv_heads=1,q=1,kv=300,head=32,page=100", "pages of 100 keys: .* a multiple of 8 keys, at most"),
    ("attention:heads=1,kv_heads=1,q=200,kv=300,head=32,page=16,causal=true", "200 causal queries over paged keys"),
    ("grouped_matmul:groups=2,m=40,n=8,k=8,align=20,dtype=bf16", "tiles of 20 rows: blocks have 16, 32, 64"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_not_built_is_refused_by_name(text, message):
    workload = parse_workload(text)
    with pytest.raises(Unsupported, match=message):
        emitter(workload.operator, "gpu").space(workload, H100)


PAGED = "attention:batch=2,heads=4,kv_heads=2,q=1,kv=250,head=64,page=16"
FULL = PAGED.replace("kv=250", "kv=256")
EXPERTS = "grouped_matmul:groups=4,m=256,n=64,k=128,align=32,dtype=bf16"


@functools.cache
def text_of(task: str) -> str:
    """A right kernel."""
    wanted = (lambda s: s["rows"] == 32 and s["inner"] == 64) if task == EXPERTS else (lambda s: s["keys"] == 64)
    (schedule,) = drawn(parse_workload(task), MACHINES["h100"], 1, wanted)
    return render(lowered(parse_workload(task), MACHINES["h100"], schedule))


def judged(task: str, *changes: tuple[str, str]) -> set[str]:
    """Kinds of what is wrong, once every place of each text is changed."""
    program = text_of(task)
    for old, new in changes:
        assert old in program, (old, program)
        program = program.replace(old, new)
    return {r.kind for r in check_text(program, parse_workload(task), MACHINES["h100"], seeds=1).reasons}


@pytest.mark.parametrize("task", [PAGED, FULL, EXPERTS])
def test_controls_pass(task):
    assert judged(task) == set()


PAGES = "table[b +: 1, 4*j +: 4]"
BACKWARDS = "table[b +: 1, -4*j + 12 +: 4]"
K_PAGES = f"k_pool[0 +: 36, g +: 1, 0 +: 16, 0 +: 64], {PAGES}"
MUTANTS = {
    "the table is read one page on": (PAGED, "numbers", ((PAGES, "table[b +: 1, 4*j + 1 +: 4]"),)),
    "the table is read one page past its end": (
        PAGED,
        "bounds",
        (("table[b +: 1, 12 +: 4]", "table[b +: 1, 13 +: 4]"),),
    ),
    "pages of the other sequence": (PAGED, "numbers", ((PAGES, PAGES.replace("b +:", "-b + 1 +:")),)),
    "pages of the first sequence": (PAGED, "numbers", ((PAGES, PAGES.replace("b +:", "0 +:")),)),
    "pages of keys alone are read backwards": (FULL, "numbers", ((K_PAGES, K_PAGES.replace(PAGES, BACKWARDS)),)),
    "pages are read backwards": (PAGED, "numbers", (("1, 12 +: 4]", "1, 0 +: 4]"), (PAGES, BACKWARDS))),
    "the first pages again and again": (PAGED, "numbers", ((PAGES, "table[b +: 1, 0 +: 4]"),)),
    "pages of the other head": (PAGED, "numbers", (("_pool[0 +: 36, g +:", "_pool[0 +: 36, -g + 1 +:"),)),
    "values from the pool of keys": (PAGED, "numbers", (("v_pool[", "k_pool["),)),
    "keys behind the last are not hidden": (PAGED, "numbers", (("most=250", "most=256"),)),
    "keys are multiplied before they are there": (PAGED, "race", ((" wait(k0, 1)", ""),)),
    "pages overwrite what is read": (PAGED, "race", ((" wait(freek0, 1)", ""),)),
    "only some entries of the pool are seen": (PAGED, "unsupported", (("_pool[0 +: 36", "_pool[0 +: 35"),)),
    "the expert of the tile behind": (EXPERTS, "bounds", (("expert[", "expert[1 + "),)),
    "the first expert for all": (EXPERTS, "numbers", (("expert[", "expert[0*"),)),
    "a group with no table": (EXPERTS, "unsupported", (("w[0 +: 4,", "w[0 +: 1,"),)),
    "tiles are multiplied before they are there": (EXPERTS, "race", ((" wait(full0, 2)", " wait(full0, 1)"),)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_refused(name):
    task, kind, changes = MUTANTS[name]
    assert kind in judged(task, *changes)


def test_keys_and_values_may_come_in_any_order_where_none_is_hidden():
    # Softmax does not ask for the order of the keys; with whole pages alone, read backwards is as right.
    assert judged(FULL, (PAGES, BACKWARDS)) == set()


@pytest.mark.parametrize(("task", "table", "at"), [(PAGED, "table", (1, 5)), (EXPERTS, "expert", (6,))])
def test_a_bad_table_is_named(task, table, at):
    workload = parse_workload(task)
    inputs = operator(workload.operator).inputs(workload, 1, "random")
    inputs[table][at] = -3
    with pytest.raises(Undefined) as error:
        simulate(parse(text_of(task)), MACHINES["h100"], mode="full", inputs=inputs)
    assert error.value.kind == "bounds"
    assert error.value.detail.startswith(f"{table}{list(at)} is -3; ")
