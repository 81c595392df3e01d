"""Do the words of the stall table name what was really waited for?"""

import pytest

from presil.simulators.assembly import parse
from presil.simulators.stalls import explain, stall_table, stall_text
from presil.simulators.timing import EngineTime, Timing

PROGRAM = parse("""\
program "matmul" on "tpu-v1"
workload "matmul:m=8,n=8,k=8"
tensor x: int8[8, 8] in @host
tensor w: int8[8, 8] const @ddr3
tensor y: int32[8, 8] out @host
buffer xb: int8[8, 8] x2 @scratchpad+0
buffer wb: int8[8, 8] x2 @weights+0
buffer wp: int8[8, 8] x2 @planes+0
buffer acc: int32[8, 8] x2 @accumulator+0
semaphore x_full
semaphore x_free = 2
semaphore w_full
semaphore p_full
semaphore acc_full
semaphore acc_free = 2
semaphore y_done
semaphore start
semaphore lost
stream x {
    load xb{0}, x wait(x_free) signal(x_full)
    load xb{1}, x wait(y_done)
    sync signal(start)
}
stream w {
    fill acc{0} value=0 signal(acc_free)
    load wb{0}, w signal(w_full) wait(start)
}
stream shifts {
    shift wp{0}, wb{0} wait(w_full) signal(p_full)
}
stream mm {
    matmul acc{0}, xb{0}, wp{0} accumulate=0 wait(x_full) wait(p_full) wait(acc_free) signal(acc_full) signal(x_free)
}
stream o {
    store y, acc{0} wait(acc_full) wait(lost) signal(acc_free) signal(y_done)
}
""")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("w_full", "waiting for w from ddr3 (semaphore w_full, signalled by load in stream w)"),
        ("x_full", "waiting for x from host (semaphore x_full, signalled by load in stream x)"),
        ("x_free", "waiting for a free slot of xb (semaphore x_free, signalled by matmul in stream mm)"),
        ("p_full", "waiting for wp from shift (semaphore p_full, signalled by shift in stream shifts)"),
        ("acc_full", "waiting for acc from matmul (semaphore acc_full, signalled by matmul in stream mm)"),
        (
            "acc_free",
            "waiting for a free slot of acc (semaphore acc_free, signalled by fill in stream w and store in stream o)",
        ),
        ("y_done", "waiting for y to reach host (semaphore y_done, signalled by store in stream o)"),
        ("start", "waiting for sync in stream x (semaphore start, signalled by sync in stream x)"),
        ("lost", "waiting for semaphore lost, which nothing signals"),
        ("link ddr3", "waiting for memory ddr3"),
        ("issue", "waiting for its sequencer"),
        ("done", "finished"),
    ],
)
def test_reason_in_words(reason: str, words: str) -> None:
    assert explain(reason, PROGRAM) == words


def _timing(ticks: int, engines: dict[str, EngineTime]) -> Timing:
    return Timing(ticks=ticks, clock_hz=7e8, fidelity="event", mode="full", engines=engines)


def test_longest_stall_of_an_engine_comes_first() -> None:
    matrix = EngineTime(busy_ticks=300, stall_ticks={"x_full": 100, "w_full": 530, "issue": 0, "done": 70})
    rows = stall_table(_timing(1000, {"matrix": matrix, "load": EngineTime(busy_ticks=1000, stall_ticks={})}), PROGRAM)
    assert [(r.engine, r.busy_percent, r.reason, r.stall_percent) for r in rows] == [
        ("matrix", 30.0, "w_full", 53.0),
        ("matrix", 30.0, "x_full", 10.0),
        ("matrix", 30.0, "done", 7.0),
        ("load", 100.0, "", 0.0),
    ]
    assert rows[0].sentence.startswith("matrix engine: 53% waiting for w from ddr3 (semaphore w_full")
    assert rows[3].sentence == "load engine: never waits"
    assert stall_text(rows[1:]).split("\n") == [
        "engine    busy  stalled",
        "matrix   30.0%    10.0%  waiting for x from host (semaphore x_full, signalled by load in stream x)",
        "matrix   30.0%     7.0%  finished",
        "load    100.0%        -  never waits",
    ]


def test_run_without_time_has_no_shares() -> None:
    rows = stall_table(_timing(0, {"matrix": EngineTime(busy_ticks=0, stall_ticks={})}), PROGRAM)
    assert [(r.busy_percent, r.stall_percent) for r in rows] == [(0.0, 0.0)]


def test_the_cause_behind_a_wait_is_named() -> None:
    """matrix waits for the shift, which itself waits for w from memory nearly all of that time; x is another matter."""
    engines = {
        "weights": EngineTime(busy_ticks=20, stall_ticks={"w_full": 80}),
        "matrix": EngineTime(busy_ticks=5, stall_ticks={"p_full": 90, "x_full": 5}),
    }
    rows = {(row.engine, row.reason): row.sentence for row in stall_table(_timing(100, engines), PROGRAM)}
    assert rows["matrix", "p_full"] == (
        "matrix engine: 90% waiting for w from ddr3 (semaphore w_full, signalled by load in stream w; "
        "held up through p_full)"
    )
    assert rows["matrix", "x_full"].startswith("matrix engine: 5% waiting for x from host (semaphore x_full")


def test_a_cause_must_cover_half_of_the_wait() -> None:
    engines = {
        "weights": EngineTime(busy_ticks=56, stall_ticks={"w_full": 44}),
        "matrix": EngineTime(busy_ticks=10, stall_ticks={"p_full": 90}),
    }
    last = stall_table(_timing(100, engines), PROGRAM)[-1]
    assert last.sentence.startswith("matrix engine: 90% waiting for wp from shift")
