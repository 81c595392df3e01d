"""Are the uses of a ring numbered as they are executed?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.emitters.systolic.sequence import numbered
from presil.simulators.program import Affine, Instruction, Loop, Node, Region, executed

USES = st.sampled_from(["advance", "stay", "other"]).map(
    lambda op: Instruction(op, (Region("plane" if op != "other" else "acc", Affine(5)), Region("x", Affine(9))))
)


def loops(children: st.SearchStrategy[tuple[Node, ...]]) -> st.SearchStrategy[tuple[Node, ...]]:
    loop = st.tuples(st.integers(1, 3), children).map(lambda pair: Loop(f"v{id(pair[1])}", *pair))
    return st.lists(loop | USES, min_size=1, max_size=3).map(tuple)


BODIES = st.recursive(st.lists(USES, min_size=1, max_size=3).map(tuple), loops, max_leaves=12)


def renamed(nodes: tuple[Node, ...], depth: int = 0) -> tuple[Node, ...]:
    """Loop variables by depth: a nest never names one twice."""
    return tuple(
        Loop(f"v{depth}", node.trips, renamed(node.body, depth + 1)) if isinstance(node, Loop) else node
        for node in nodes
    )


@given(BODIES)
def test_each_use_has_the_number_of_those_that_advanced_before_it(nodes):
    nodes = renamed(nodes)
    before = 0
    for instruction, values in executed(numbered(nodes, "plane", lambda i: i.op == "advance"), {}):
        ring, other = instruction.operands
        assert other == Region("x", Affine(9))
        if instruction.op == "other":
            assert ring == Region("acc", Affine(5))
            continue
        assert ring.slot.at(values) == before
        before += instruction.op == "advance"


@given(BODIES)
def test_nothing_else_is_changed(nodes):
    nodes = renamed(nodes)

    def bare(body: tuple[Node, ...]) -> list[object]:
        return [(n.var, n.trips, bare(n.body)) if isinstance(n, Loop) else n.op for n in body]

    assert bare(numbered(nodes, "plane")) == bare(nodes)


def test_by_hand():
    use = Instruction("use", (Region("ring", Affine()),))
    nodes = (use, Loop("i", 4, (use, use)), use)
    first, loop, last = numbered(nodes, "ring")
    assert first.operands[0].slot == Affine(0)
    assert [n.operands[0].slot for n in loop.body] == [Affine(1, (("i", 2),)), Affine(2, (("i", 2),))]
    assert last.operands[0].slot == Affine(9)
