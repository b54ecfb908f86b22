"""Nodes of one shape: against a plain recursive comparison, and what an attempt leaves behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.term.dag import ADD, ARITY, ATOM, CONST, FMA, MAX, NEG, Dag, Nodes
from kcheck.canon.term.shapes import COMMUTE, Shapes

OPS = (ADD, NEG, MAX, FMA, ATOM, CONST)
Steps = list[tuple[int, int, int, int]]
step = st.tuples(st.sampled_from(OPS), *[st.integers(-3, 40)] * 3)


def built(steps: Steps) -> Dag:
    """A graph; arguments are earlier nodes or one of three inputs."""
    dag = Dag()
    dag.block(CONST, np.array([0]))
    for op, *raw in steps:
        args = [i if i < 0 else i % dag.count for i in raw[: ARITY[op]]]
        number = {ATOM: [raw[1] % 2], CONST: [raw[0] % 2]}.get(op, [])
        dag.block(op, *(np.array([i], np.int32) for i in (*args, *number)))
    return dag


def same(dag: Dag, a: int, b: int, by_row: bool) -> bool:
    """By the definition."""
    if a == b or a < 0 or b < 0:
        return a == b
    op = dag.op[a]
    if op != dag.op[b] or op == CONST or (op == ATOM and dag.args[1, a] != dag.args[1, b]):
        return False
    first, second = dag.args[: ARITY[op], [a, b]].T.tolist()
    if by_row and op in COMMUTE:
        first[:2], second[:2] = sorted(first[:2]), sorted(second[:2])
    return all(same(dag, x, y, by_row) for x, y in zip(first, second, strict=True))


def nodes(*ids: int) -> Nodes:
    return np.array(ids, np.int32)


@given(st.lists(step, min_size=1, max_size=8), st.lists(step, max_size=4), st.data())
def test_alike_is_the_definition(steps: Steps, more: Steps, data: st.DataObject) -> None:
    dag = built(steps + steps + more)
    node = st.integers(-3, dag.count - 1)
    found, by_row = Shapes(dag), data.draw(st.booleans())
    for _ in range(4):  # one after the other: what failed must leave nothing behind
        pairs = data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=4))
        sides = (np.array(side, np.int32) for side in zip(*pairs, strict=True))
        alike = found.alike(*sides, by_row=by_row)
        assert alike == all(same(dag, a, b, by_row) for a, b in pairs)


def doubled(depth: int, *inputs: int) -> tuple[Dag, list[Nodes]]:
    """x + x, and that plus itself, `depth` times, for each input: 2^depth paths to it."""
    dag, tops = Dag(), []
    for x in inputs:
        top = nodes(x)
        for _ in range(depth):
            top = dag.block(ADD, top, top)
        tops.append(top)
    return dag, tops


def test_shared_parts_are_looked_at_once() -> None:
    dag, (one, other, bad) = doubled(200, -1, -1, -2)
    found = Shapes(dag)
    assert not found.alike(one, bad)
    assert not found.alike(one, other - 1)
    assert found.alike(one, other)


def test_a_node_beside_many() -> None:
    # one node on one side, several alike ones on the other
    dag = Dag()
    x, y, z = (int(dag.block(NEG, nodes(-1))[0]) for _ in range(3))
    left = dag.block(MAX, nodes(x, x, x), nodes(x, y, y))
    right = dag.block(MAX, nodes(x, y, z), nodes(z, z, x))
    assert Shapes(dag).alike(left, right)


def test_patience_ends() -> None:
    dag, (one, other, bad) = doubled(50, -1, -1, -2)
    found = Shapes(dag)
    found._patience = 10
    assert not found.alike(one, bad)
    assert not found.alike(one, other)  # no more attempts
