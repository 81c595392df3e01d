"""Attention on GPUs, any shape: is every schedule right, is each way to go over the keys taken, is the prior near?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from presil.kernels.checking import check
from presil.kernels.emitters import emitter
from presil.kernels.emitters.gpu.attention import plan
from presil.kernels.emitters.gpu.flash import is_causal
from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import Workload
from presil.kernels.space import Schedule
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program, instructions
from presil.simulators.simulate import simulate

from .test_gpu_kernels import drawn

MACHINES = {name: load_machine(name).with_cores(3) for name in ("a100", "h100")}
H100 = MACHINES["h100"]
ATTENTION = emitter("attention", "gpu")


def can_run(workload: Workload, machine: Machine, schedule: Schedule) -> bool:
    """Not where the one block of queries sees no whole block of keys: see the test of that."""
    found = plan(workload, machine, schedule)
    return not (is_causal(workload) and found.blocks == 1 and found.seen == 0)


def require_right(workload: Workload, machine: Machine, schedule: Schedule) -> Program:
    program = ATTENTION.lower(workload, machine, schedule)
    verdict = check(program, workload, machine, seeds=1, patterns=("marker", "extremes"))
    assert verdict.right, (str(schedule), verdict.reasons)
    return program


@settings(max_examples=15)
@given(
    st.sampled_from(sorted(MACHINES)),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 150),
    st.integers(0, 150),
    st.sampled_from(["head=16,dtype=bf16", "head=64,dtype=bf16", "head=64,dtype=fp16", "head=48,dtype=fp16"]),
    st.sampled_from(["true", "false"]),
)
def test_any_attention_is_right(name, batch, kv_heads, shared, q, behind, kind, causal):  # noqa: PLR0917
    shape = f"batch={batch},heads={kv_heads * shared},kv_heads={kv_heads},q={q},kv={q + behind}"
    workload = parse_workload(f"attention:{shape},{kind},causal={causal}")
    for schedule in drawn(workload, MACHINES[name], 1, lambda s: can_run(workload, MACHINES[name], s)):
        require_right(workload, MACHINES[name], schedule)


# Keys: a multiple of the block, one more, one less, less than a block; causal, with as many keys as queries and more.
SHAPES = ("q=160,kv=161", "q=130,kv=191", "q=100,kv=30", "q=150,kv=201")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", ["false", "true"])
def test_each_way_over_the_keys_is_right(shape, causal):
    if causal == "true" and shape == "q=100,kv=30":
        pytest.skip("a query has no key to see")
    workload = parse_workload(f"attention:heads=2,kv_heads=1,{shape},head=32,dtype=bf16,causal={causal}")
    count = 0
    for ahead, outer in itertools.product((0, 1), ("heads", "queries")):
        wanted = lambda s, a=ahead, o=outer: (s["ahead"], s["outer"]) == (a, o) and can_run(workload, H100, s)  # noqa: E731
        for schedule in drawn(workload, H100, 1, wanted):  # small causal blocks that share an SM are no schedules
            require_right(workload, H100, schedule)
            count += 1
    assert count == 4 or (causal == "true" and count > 0)


# None of the keys is seen by all of the only block of queries.
@pytest.mark.parametrize("shape", ["q=2,kv=2", "q=128,kv=128", "q=65,kv=70"])
def test_one_block_of_causal_queries_is_right(shape):
    workload = parse_workload(f"attention:heads=2,kv_heads=1,{shape},head=32,dtype=bf16,causal=true")
    for schedule in drawn(workload, H100, 2):
        require_right(workload, H100, schedule)


@pytest.mark.parametrize("first", ["late", "early"])
def test_causal_blocks_in_either_order_multiply_the_same(first):
    workload = parse_workload("attention:heads=2,kv_heads=2,q=500,kv=612,head=32,dtype=bf16,causal=true")
    schedule = Schedule(
        (
            ("rows", 64), ("keys", 64), ("stages", 1), ("consumers", 1),
            ("ahead", 0), ("pack", 0), ("first", first), ("outer", "queries"),
        )
    )  # fmt: skip
    program = ATTENTION.lower(workload, H100, schedule)
    require_right(workload, H100, schedule)
    # A block of 64 queries from i goes over the keys up to i + 63 + 112, in blocks of 64.
    blocks = sum(-(-(i + 64 + 112) // 64) for i in range(0, 500, 64))
    assert simulate(program, H100).timing.multiply_adds == 2 * 2 * blocks * 64 * 64 * 32


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("causal", ["false", "true"])
@pytest.mark.parametrize("kv", [1, 150])
def test_decoding_packs_the_heads_that_share_keys(name, causal, kv):
    workload = parse_workload(f"attention:batch=2,heads=48,kv_heads=3,q=1,kv={kv},head=64,dtype=bf16,causal={causal}")
    for pack in (0, 1):
        (schedule,) = drawn(workload, MACHINES[name], 1, lambda s, pack=pack: s["pack"] == pack)
        program = require_right(workload, MACHINES[name], schedule)
        assert program.instances == (2 * 3 if pack else 2 * 48)
        # Packed, the 16 heads that share keys are the rows of one block.
        loaded = [i for s in program.streams for i, _ in instructions(s.body) if i.op == "copy"]
        assert {i.operands[1].dims[1].size for i in loaded if i.operands[1].name == "q"} == {16 if pack else 1}


def test_every_legal_schedule_of_a_small_space_can_run():
    workload = parse_workload("attention:heads=2,kv_heads=1,q=20,kv=40,head=16,dtype=bf16")
    space, seen = ATTENTION.space(workload, H100), 0
    inputs = operator("attention").inputs(workload, 3, "random")
    wanted = operator("attention").reference(workload, inputs)["y"]
    bound = operator("attention").error_bound(workload, inputs)["y"]
    for index in range(space.count()):
        schedule = space.unrank(index)
        if ATTENTION.legal(workload, H100, schedule) is not None:
            continue
        program = ATTENTION.lower(workload, H100, schedule)
        check_legality(program, H100)
        if seen % 7 == 0:
            run = simulate(program, H100, mode="full", inputs=inputs)
            assert (np.abs(run.outputs["y"].astype(np.float64) - wanted) <= bound).all(), str(schedule)
            assert run.stored_bytes["y"] == run.outputs["y"].nbytes  # each element once
        seen += 1
    assert seen > 20


@pytest.mark.parametrize(
    "text",
    [
        "attention:batch=2,heads=16,kv_heads=8,q=2048,kv=2048,head=128,dtype=bf16",
        pytest.param(
            "attention:batch=2,heads=16,kv_heads=8,q=2048,kv=2048,head=64,dtype=bf16,causal=true",
            marks=pytest.mark.xfail(
                strict=True, reason="rank correlation 0.29: the order of blocks is not in the prior"
            ),
        ),
        "attention:batch=16,heads=32,kv_heads=8,q=1,kv=4096,head=128,dtype=bf16",
    ],
)
def test_the_prior_is_near_the_simulation(text):
    machine, workload = load_machine("h100"), parse_workload(text)
    schedules = drawn(workload, machine, 24)
    prior = np.array([ATTENTION.prior_cycles(workload, machine, s) for s in schedules])
    cycles = np.array(
        [simulate(ATTENTION.lower(workload, machine, s), machine).timing.cycles for s in schedules], float
    )
    off = cycles / prior
    assert spearmanr(prior, cycles).statistic > 0.7
    assert off.min() > 0.3, off
    assert off.max() < 4, off
