"""Do the drawn programs keep what the strategies promise?"""

from hypothesis import HealthCheck, given, settings

from presil.simulators.program import Buffer, Program, Tensor, executed

from .strategies import programs


@given(programs(in_bounds=True))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_regions_in_bounds_stay_inside(program: Program) -> None:
    data: dict[str, Tensor | Buffer] = {t.name: t for t in program.tensors} | {b.name: b for b in program.buffers}
    last = {name: size - 1 for name, size in program.grid}
    # Coefficients are never negative there, so the first and the last instance hold the extremes.
    for values in (dict.fromkeys(last, 0), last):
        for stream in program.streams:
            for instruction, around in executed(stream.body, dict(values)):
                for region in instruction.operands:
                    for dim, extent in zip(region.dims, data[region.name].shape, strict=False):
                        first = dim.start.at(around)
                        assert first >= 0
                        assert first + (dim.size - 1) * dim.step < extent
