"""How near do the models come to published figures, and is that known?

Each row is pinned with the error it has today: no band was chosen, nothing is said to pass. A change of a model that
moves an error shows here, better or worse. Sources stand in suites/published/systolic.csv.

What the errors may be set against: RTL cycles are deterministic, and a model of given mappings is called good at 10%
median and 25% worst; Google's own model of TPU v1 was 5.4 to 11.2% off (Jouppi 2017, Table 7).
"""

import json
import statistics

import numpy as np
import pytest
from typer.testing import CliRunner

from presil.kernels.operators import operator, parse_workload
from presil.simulators.errors import BadInput
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate
from presil.suites.cli import app
from presil.suites.store import Store
from presil.suites.validation import NOT_MODELLED, published_rows, validate
from presil.suites.validation.gemmini import gemmini_machine, gemmini_workload, given_mapping
from presil.suites.validation.gemmini_program import gemmini_program
from presil.suites.validation.library import conv_mapping, matmul_mapping
from presil.suites.validation.mapping import Mapping, parse_mapping
from presil.suites.validation.tpu_v1 import speedup

# (row, published, error in percent today). Shares that are published as 0 have the share itself.
ERRORS = (
    ("SYS-TPU1-001", 12.7, 14.7),
    ("SYS-TPU1-002", 12.5, 11.1),
    ("SYS-TPU1-003", 53.9, 21.4),
    ("SYS-TPU1-004", 15.9, 17.3),
    ("SYS-TPU1-005", 17.5, -92.2),
    ("SYS-TPU1-008", 12.3, 3.6),
    ("SYS-TPU1-017", 8.2, -43.5),
    ("SYS-TPU1-018", 8.2, -48.1),
    ("SYS-TPU1-019", 58.1, 29.4),
    ("SYS-TPU1-020", 15.8, 17.4),
    ("SYS-TPU1-021", 17.9, -90.9),
    ("SYS-TPU1-024", 3.7, 5.6),
    ("SYS-TPU1-033", 78.2, -9.2),
    ("SYS-TPU1-034", 78.2, -9.2),
    ("SYS-TPU1-035", 0.0, 0.0),
    ("SYS-TPU1-036", 0.0, 0.6),
    ("SYS-TPU1-037", 21.8, 30.1),
    ("SYS-TPU1-040", 86.0, -24.2),
    ("SYS-TPU1-059", 3.0, -9.4),
    ("SYS-V5E-004", 0.1271, -0.8),
    ("SYS-V5E-005", 0.8891, -8.4),
    ("SYS-GEM-001", 345931.0, -13.7),
    ("SYS-GEM-002", 305870.0, -1.6),
    ("SYS-GEM-003", 6706.0, 3.1),
    ("SYS-GEM-004", 7648.0, 13.6),
    ("SYS-GEM-005", 7517.0, -8.3),
    ("SYS-GEM-006", 7268.0, -5.2),
    ("SYS-GEM-007", 212475.0, -47.8),
    ("SYS-GEM-008", 62393.0, 11.2),
    ("SYS-GEM-009", 538484.0, -11.4),
    ("SYS-GEM-010", 468046.0, 1.8),
    ("SYS-GEM-011", 557954.0, 14.7),
    ("SYS-GEM-012", 293935.0, -0.4),
    ("SYS-GEM-013", 859685.0, -45.7),
    ("SYS-GEM-014", 234061.0, -3.9),
    ("SYS-GEM-015", 1273454.0, -26.7),
    ("SYS-GEM-016", 466899.0, -7.6),
    ("SYS-GEM-017", 506921.0, -29.8),
    ("SYS-GEM-018", 256113.0, -12.5),
    ("SYS-GEM-019", 632840.0, -60.7),
    ("SYS-GEM-020", 222570.0, 2.5),
    ("SYS-GEM-021", 630513.0, -25.3),
    ("SYS-GEM-022", 476248.0, 2.4),
    ("SYS-GEM-023", 1013370.0, -52.3),
    ("SYS-GEM-024", 781619.0, -44.6),
    ("SYS-GEM-025", 368984.0, 22.5),
    ("SYS-GEM-026", 304571.0, -1.7),
    ("SYS-GEM-027", 6854.0, -16.2),
    ("SYS-GEM-028", 6597.0, 2.5),
    ("SYS-GEM-029", 7472.0, -23.2),
    ("SYS-GEM-030", 7269.0, -5.2),
    ("SYS-GEM-031", 226179.0, -55.8),
    ("SYS-GEM-032", 81473.0, -14.8),
    ("SYS-GEM-033", 538764.0, -12.8),
    ("SYS-GEM-034", 474867.0, 0.3),
    ("SYS-GEM-035", 653902.0, -8.1),
    ("SYS-GEM-036", 317705.0, -7.9),
    ("SYS-GEM-037", 909964.0, -50.3),
    ("SYS-GEM-038", 237325.0, -5.2),
    ("SYS-GEM-039", 1379592.0, -34.5),
    ("SYS-GEM-040", 482371.0, -10.6),
    ("SYS-GEM-041", 587119.0, -39.4),
    ("SYS-GEM-042", 420123.0, -13.8),
    ("SYS-GEM-043", 695342.0, -64.6),
    ("SYS-GEM-044", 226786.0, 0.6),
    ("SYS-GEM-045", 636613.0, -26.1),
    ("SYS-GEM-046", 484283.0, 0.7),
    ("SYS-GEM-047", 1143548.0, -57.1),
    ("SYS-GEM-048", 786084.0, -44.9),
    ("SYS-SCS-001", 10.0, 0.0),
)
QUICK = (
    "SYS-TPU1",
    "SYS-SCS",
    "SYS-V5E-004",
    "SYS-GEM-002",
    "SYS-GEM-004",
    "SYS-GEM-003",
    "SYS-GEM-024",
    "SYS-GEM-046",
)


def quick(row: str) -> bool:
    return row.startswith(QUICK)


@pytest.mark.parametrize(
    ("row", "published", "error"),
    [pytest.param(*e, id=e[0], marks=() if quick(e[0]) else pytest.mark.slow) for e in ERRORS],
)
def test_the_error_of_each_row_is_the_one_that_is_known(row, published, error):
    (found,) = validate(rows=[row])
    assert found.published == published
    assert found.error_percent == pytest.approx(error, abs=0.06)


@pytest.mark.slow
def test_given_mappings_are_as_near_on_rows_that_were_held_out():
    # Held out weakly: suites/validation/gemmini.py says how.
    rows = [row for row in validate(rows=["SYS-GEM"]) if row.metric == "cycles_given_mapping"]
    errors = {held: [abs(r.error_percent) for r in rows if r.held_out == held] for held in (False, True)}
    assert [round(statistics.median(errors[held]), 1) for held in (False, True)] == [4.6, 5.3]
    # 512 to 256 channels on 28x28, in both halves, is 45% too fast: not explained. All others are within 14.2%.
    assert [round(max(errors[held]), 1) for held in (False, True)] == [44.6, 44.9]
    assert [sum(e > 14 for e in errors[held]) for held in (False, True)] == [1, 2]


def test_no_row_beats_the_array():
    # A 16x16 array does 256 multiply-adds a cycle.
    for row in validate(rows=["SYS-GEM-002", "SYS-GEM-003", "SYS-GEM-025", "SYS-GEM-046"]):
        layer = parse_workload(row.workload)
        assert row.ours >= operator(layer.operator).work(layer).multiply_adds / 256, row.row


def test_four_times_the_weight_bandwidth_helps_what_waits_for_weights():
    # Jouppi 2017, section 7: about 3x on average; convolutions hardly gain.
    assert 2.5 < speedup("MLP0") < speedup("LSTM0") < 4
    assert speedup("CNN0") == pytest.approx(1, abs=0.02)


MAPPINGS = (
    ("matmul:m=112,n=128,k=192,dtype=int8,out=int8", (("P", 2), ("K", 2)), {"P": 80, "K": 80, "C": 192}),
    ("matmul:m=112,n=128,k=192,dtype=int8,out=int8", (("P", 2), ("K", 2), ("C", 3)), {"P": 80, "K": 80, "C": 80}),
    (
        "conv2d:n=1,h=10,w=20,c=48,f=96,r=3,s=3,padding=1,dtype=int8,out=int8",
        (("P", 3), ("Q", 2), ("K", 2), ("C", 2)),
        {"P": 4, "Q": 12, "K": 64, "R": 3, "S": 3, "C": 32},
    ),
    (
        "conv2d:n=1,h=8,w=24,c=32,f=96,dtype=int8,out=int8",
        (("Q", 3), ("K", 2), ("P", 4)),
        {"P": 2, "Q": 8, "K": 48, "C": 32},
    ),
)


@pytest.mark.parametrize(("text", "blocks", "tile"), MAPPINGS)
def test_a_mapping_computes_the_layer(text, blocks, tile):
    layer = parse_workload(text)
    machine = gemmini_machine(layer)
    program = gemmini_program(layer, Mapping(blocks, dict.fromkeys("RSPQCKN", 1) | tile), machine)
    noise = np.random.default_rng(7)
    inputs = {t.name: noise.integers(-128, 128, t.shape, np.int8) for t in program.tensors if t.role != "out"}
    run = simulate(program, machine, mode="full", inputs=inputs)
    expected = operator(layer.operator).reference(layer, inputs)["y"]
    np.testing.assert_array_equal(run.outputs["y"], expected)
    assert run.timing.ticks == simulate(program, machine).timing.ticks
    # Gemmini shifts the next weights in behind the rows that still use the old ones; the rules here ask for a semaphore
    # between the two. Nothing else may be found.
    assert all(fault.kind == "race" and "plane slot" in fault.detail for fault in sanitize(program, machine))


def test_a_mapping_string_is_read_level_by_level():
    mapping = parse_mapping("L3[WIO] Q7 K2 - L2[WI] N1 K16X - L1[O] K4 C16 Q2 P2 C16X - L0[W] Q4 P28")
    assert mapping.blocks == (("Q", 7), ("K", 2))
    assert mapping.tile == {"R": 1, "S": 1, "P": 56, "Q": 8, "C": 256, "K": 64, "N": 1}


@pytest.mark.parametrize("text", ["", "L3[WIO] K6", "L3[WIO] 6K - L2[WI] N1 - L1[O] N1 - L0[W] N1"])
def test_what_is_no_mapping_is_refused(text):
    with pytest.raises(BadInput, match="not a"):
        parse_mapping(text)


def test_each_given_mapping_covers_its_layer():
    for row in published_rows().values():
        if row.metric == "cycles_given_mapping":
            mapping, layer = given_mapping(row), gemmini_workload(row)
            whole = dict(mapping.tile)
            for name, trips in mapping.blocks:
                whole[name] *= trips
            names = ("h", "c", "f") if layer.operator == "conv2d" else ("m", "k", "n")
            assert tuple(whole[d] for d in "PCK") == tuple(layer.int(n) for n in names), row.row


def test_the_library_fills_half_of_the_memories():
    # By hand, 256 KiB and 64 KiB: half the accumulator is 32 tiles, so 5x5 at first; then 5*48 + 6*48 > 512 tiles.
    mapping = matmul_mapping(128, 768, 768, scratchpad=262144, accumulator=65536)
    assert mapping.blocks == (("P", 2), ("K", 10))
    assert (mapping.tile["P"], mapping.tile["K"], mapping.tile["C"]) == (80, 80, 768)
    conv = conv_mapping(8, 16, 16, 3, scratchpad=262144, accumulator=65536)
    assert conv.blocks == ()  # small layers are one block


def test_unknown_rows_and_families_are_refused():
    with pytest.raises(BadInput, match=r"no published row 'SYS-GEN-002' \(did you mean 'SYS-GEM-002'\?\)"):
        validate(rows=["SYS-GEN-002"])
    with pytest.raises(BadInput, match="no published rows for the family 'abacus'; there are: gpu, systolic"):
        validate("abacus")


def test_the_command_prints_and_stores_the_rows(tmp_path):
    words = ["replicate", "systolic", "--row", "SYS-SCS", "-o", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.output)["rows"]
    assert (row["row"], row["published"], row["ours"], row["evidence"]) == ("SYS-SCS-001", 10, 10, "rtl-sim")
    assert [record.body for record in Store(tmp_path).find("validation")] == [row]


def test_every_row_is_compared_or_excused():
    # Rows of TPU v1 beside the eight counters: stalls that overlap others, the host, serving.
    known = {row for row, *_ in ERRORS} | {"SYS-V5E-001", "SYS-V5E-002"}
    left = [row for row in published_rows() if row not in known and not row.startswith(tuple(NOT_MODELLED))]
    metrics = {published_rows()[row].metric for row in left}
    assert metrics == {"raw_stall_cycles", "input_data_stall_cycles", "throughput", "host_interaction_time"}
