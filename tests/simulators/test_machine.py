"""Are the described machines those of their sources, and is a machine's identity its figures?"""

import math

import pytest

from presil.simulators.bound import peak_multiply_adds_per_cycle
from presil.simulators.errors import BadInput
from presil.simulators.family import family
from presil.simulators.machine import MACHINES, load_machine, machine_names, parse_machine

V1 = (MACHINES / "tpu-v1.yaml").read_text(encoding="utf-8")


def peak(name: str, dtype: str) -> float:
    """Operations per second: two per multiply-add, everything that multiplies busy each cycle."""
    machine = load_machine(name)
    return 2 * peak_multiply_adds_per_cycle(dtype, machine) * machine.clock_hz


@pytest.mark.parametrize("name", machine_names())
def test_loads_with_a_source_for_every_figure(name):
    machine = load_machine(name)
    assert machine.name == name
    assert isinstance(machine.spec, family(machine.family).spec_model)
    assert set(machine.sources) == set(machine.figures)
    own = {"systolic": "systolic.array.rows", "gpu": "gpu.cache.capacity"}[machine.family]
    assert {"clock_hz", "cores", own} <= set(machine.sources)
    assert all(source.strip() for source in machine.sources.values())


def test_the_machines_of_the_first_suite_are_there():
    assert {"tpu-v1", "tpu-v4", "gemmini-16"} <= set(machine_names())


@pytest.mark.parametrize(
    ("name", "dtype", "published"),
    [
        ("tpu-v1", "int8", 92e12),  # Jouppi 2017, Table 2
        ("tpu-v4", "bf16", 275e12),  # scaling-book, tpus.md
        ("tpu-v5e", "int8", 394e12),  # scaling-book, tpus.md
        ("tpu-v5e", "bf16", 197e12),  # scaling-book, tpus.md
        ("a100", "bf16", 312e12),  # MAMF tables, as the rest
        ("a100", "int8", 624e12),
        ("a100", "fp32", 19.5e12),
        ("h100", "bf16", 989e12),
        ("h100", "fp8", 1979e12),
        ("h200", "bf16", 989e12),
    ],
)
def test_peak_is_the_published_one(name, dtype, published):
    # Published peaks are rounded to two or three digits: one half in the last of the digits given is 0.6% at most.
    assert math.isclose(peak(name, dtype), published, rel_tol=0.006)


def test_a_weight_tile_of_tpu_v1_takes_1349_cycles():
    # 65,536 B / 34 GB/s x 700 MHz = 1,349.3 cycles: the figure of Jouppi 2017.
    machine = load_machine("tpu-v1")
    memory = machine.memories[machine.spec.weight_memory]
    cycles = machine.spec.weight_tile / (memory.bandwidth * memory.efficiency) * machine.clock_hz
    assert round(cycles) == 1349
    assert machine.spec.weight_buffer == 4 * machine.spec.weight_tile


@pytest.mark.parametrize(
    ("name", "scratchpad", "accumulator"),
    [
        ("gemmini-16", 262_144, 65_536),  # the generator's default
        ("gemmini-16-resnet50-a", 257_024, 200_704),  # the others: the FireSim rows of dosa
        ("gemmini-16-resnet50-b", 233_472, 229_376),
        ("gemmini-16-bert-b", 147_456, 32_768),
    ],
)
def test_gemmini_memories(name, scratchpad, accumulator):
    spec = load_machine(name).spec
    assert (spec.scratchpad, spec.accumulator) == (scratchpad, accumulator)


def test_an_extended_machine_differs_only_in_what_it_states():
    base, other = load_machine("gemmini-16"), load_machine("gemmini-16-bert-b")
    assert other.memories == base.memories
    assert other.spec.model_copy(update={"scratchpad": 262_144, "accumulator": 65_536}) == base.spec
    assert other.sources["systolic.scratchpad"].startswith("dosa")
    assert other.sources["systolic.array.rows"] == "Gemmini"


def test_figures_keep_their_spelling():
    machine = load_machine("tpu-v1")
    assert machine.figures["memories.ddr3.bandwidth"] == "34 GB/s"
    assert machine.sources["memories.ddr3.bandwidth"] == "Jouppi 2017, Table 2"
    assert machine.memories["ddr3"].bandwidth == 34e9


def test_digest_is_that_of_the_figures_not_of_the_words():
    digest = parse_machine(V1).digest
    assert len(digest) == 64
    assert parse_machine(V1.replace("700 MHz", "0.7 GHz")).digest == digest
    assert parse_machine(V1.replace("Table 2", "Tab. 2").replace("(2015)", "(2016)")).digest == digest
    changed = [("700 MHz", "701 MHz"), ("34 GB/s", "35 GB/s"), ("24 MiB", "23 MiB"), ("value: 20,", "value: 21,")]
    digests = {parse_machine(V1.replace(old, new, 1)).digest for old, new in changed}
    assert len(digests | {digest}) == 1 + len(changed)


def test_compares_and_hashes_by_value_and_cannot_be_changed():
    one, other = parse_machine(V1), parse_machine(V1)
    assert one == other
    assert hash(one) == hash(other)
    assert one != parse_machine(V1.replace("34 GB/s", "35 GB/s"))
    with pytest.raises(ValueError, match="frozen"):
        one.cores = 2


def test_by_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(V1.replace("name: tpu-v1", "name: mine"), encoding="utf-8")
    assert load_machine(path).name == load_machine(str(path)).name == "mine"


def test_unknown_name():
    with pytest.raises(
        BadInput, match=r"unknown machine 'tpu-v11' \(did you mean 'tpu-v1'\?\); there are: a100, gemmini-16, "
    ):
        load_machine("tpu-v11")
