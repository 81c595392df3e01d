"""What `presil calibrate` measures is what machine descriptions and the cost model say."""

import pytest

from presil.simulators.description import read_description
from presil.simulators.errors import BadInput
from presil.simulators.machine import CALIBRATION, MACHINES, load_machine, parse_machine
from presil.simulators.systolic.calibrate import PROBES, calibrate

STORED = MACHINES.parent / "systolic" / CALIBRATION


def test_the_figures_come_from_the_file():
    figures = read_description(STORED).data["figures"]["systolic"]
    machine = load_machine("systolic-8")
    assert machine.spec.issue == figures["issue"]["value"] == 2
    assert machine.spec.semaphore == figures["semaphore"]["value"] == 1
    assert machine.sources["systolic.issue"].startswith("measured on systolic-8")


def test_a_description_may_state_its_own_figure():
    text = "name: mine\ntitle: mine\nextends: systolic-16\nsystolic: {semaphore: {value: 3, source: chosen}}\n"
    machine = parse_machine(text)
    assert (machine.spec.semaphore, machine.spec.issue) == (3, 2)


@pytest.mark.parametrize("value", ["1", "maybe", "[]"])
def test_calibrated_is_true_or_nothing(value):
    with pytest.raises(BadInput, match="calibrated"):
        parse_machine(f"name: mine\ntitle: mine\nextends: systolic-16\ncalibrated: {value}\n")


def test_the_stored_probes_say_where_model_and_chip_differ():
    probes = read_description(STORED).data["probes"]
    assert len(probes) == len(PROBES)
    differ = [p["instruction"] for p in probes if any(p[k]["rtl"] != p[k]["model"] for k in p if k != "instruction")]
    # A short fill is there sooner than the model says: it charges the set-up that the next transfer waits for.
    assert differ == ["fill s{0}[0 +: 2, 0 +: 3] value=0"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 16])
def test_measuring_again_gives_the_stored_figures(size):
    found = calibrate(load_machine(f"systolic-{size}"))
    assert (found.issue_cycles, found.semaphore_cycles) == (2, 1)
    assert [p.instruction for p in found.probes if not p.agrees] == ["fill s{0}[0 +: 2, 0 +: 3] value=0"]
    if size == 8:
        assert found.to_yaml() == STORED.read_text(encoding="utf-8")
