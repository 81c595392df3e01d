# ruff: noqa: E501 - an instruction is one line
"""A small right matmul program as text, to break in many ways."""

from __future__ import annotations

# y[64, 64] = x[64, 96] @ w[96, 64] on a 16 x 16 array: tiles of x and w come in pairs of slots, sums of 6 inner tiles
# are gathered in the accumulator, cast to int8 and stored. Every stream runs beside the others.
MATMUL = """
program "matmul" on "gemmini-16"
workload "matmul:m=64,n=64,k=96"
tensor x: int8[1, 64, 96] in @dram
tensor w: int8[1, 96, 64] const @dram
tensor y: int32[1, 64, 64] out @dram
buffer xb: int8[32, 16] x2 @scratchpad+0
buffer wb: int8[16, 16] x2 @scratchpad+1024
buffer plane: int8[16, 16] x2 @planes+0
buffer acc: int32[32, 16] x2 @accumulator+0
semaphore x_full = 0
semaphore x_free = 2
semaphore w_full = 0
semaphore w_free = 2
semaphore p_full = 0
semaphore p_free = 2
semaphore a_full = 0
semaphore a_free = 2
stream loadx {
    loop m 2 {
        loop n 4 {
            loop k 6 {
                load xb{24*m + 6*n + k}, x[0 +: 1, 32*m +: 32, 16*k +: 16] wait(x_free, 1) signal(x_full, 1)
            }
        }
    }
}
stream loadw {
    loop m 2 {
        loop n 4 {
            loop k 6 {
                load wb{24*m + 6*n + k}, w[0 +: 1, 16*k +: 16, 16*n +: 16] wait(w_free, 1) signal(w_full, 1)
            }
        }
    }
}
stream weights {
    loop t 48 {
        shift plane{t}, wb{t} wait(w_full, 1) wait(p_free, 1) signal(w_free, 1) signal(p_full, 1)
    }
}
stream matrix {
    loop t 8 {
        matmul acc{t}, xb{6*t}, plane{6*t} accumulate=0 wait(a_free, 1) wait(x_full, 1) wait(p_full, 1) signal(x_free, 1) signal(p_free, 1)
        loop k 4 {
            matmul acc{t}, xb{6*t + k + 1}, plane{6*t + k + 1} accumulate=1 wait(x_full, 1) wait(p_full, 1) signal(x_free, 1) signal(p_free, 1)
        }
        matmul acc{t}, xb{6*t + 5}, plane{6*t + 5} accumulate=1 wait(x_full, 1) wait(p_full, 1) signal(x_free, 1) signal(p_free, 1) signal(a_full, 1)
    }
}
stream store {
    loop m 2 {
        loop n 4 {
            store y[0 +: 1, 32*m +: 32, 16*n +: 16], acc{4*m + n} wait(a_full, 1) signal(a_free, 1)
        }
    }
}
"""


def without(text: str, part: str, occurrence: int = 0) -> str:
    """`text` without the given occurrence of ` part`."""
    pieces = text.split(f" {part}")
    assert len(pieces) > occurrence + 1, part
    return f" {part}".join(pieces[: occurrence + 1]) + f" {part}".join(pieces[occurrence + 1 :])


def waits(text: str) -> list[tuple[str, int]]:
    """Every `wait(...)` of the text, as (part, occurrence)."""
    parts = [word for word in text.replace("wait(", "\nwait(").splitlines() if word.startswith("wait(")]
    names = [part[: part.index(")") + 1] for part in parts]
    return [(name, names[:i].count(name)) for i, name in enumerate(names)]
