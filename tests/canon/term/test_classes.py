"""Elements that are one function of renamed inputs: against a plain recursive renaming."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kcheck.canon.term.classes import _ARGUMENTS, CLASSES, Classes
from kcheck.canon.term.dag import ADD, ATOM, CONST, DIV, EITHER, NEG, SUB, Dag, Nodes, TermValue
from kcheck.canon.term.domain import TermDomain

Step = tuple[int, int, int]
OPS = (ADD, SUB, NEG, ATOM, CONST, EITHER)
step = st.tuples(st.sampled_from(OPS), st.integers(-4, 30), st.integers(-4, 30))


def built(dag: Dag, steps: list[Step]) -> None:
    """Rows; arguments are earlier nodes or one of four inputs."""
    for op, *raw in steps:
        args = [i if i < 0 else i % dag.count for i in raw[: _ARGUMENTS[op]]]
        number = {ATOM: [raw[1] % 2], CONST: [raw[0] % 2]}.get(op, [])
        dag.block(op, *(np.array([i], np.int32) for i in (*args, *number)))


def renamed(dag: Dag, one: list[int], other: list[int]) -> bool:
    """Is there a renaming of inputs, that keeps them apart, from one element to another?"""
    to: dict[int, int] = {}

    def goes(a: int, b: int) -> bool:
        if a in to:
            return to[a] == b
        to[a] = b
        if a < 0 or b < 0:
            return a < 0 and b < 0
        op = dag.op[a]
        numbers = {CONST: 0, ATOM: 1}
        if op != dag.op[b]:
            return False
        if op in numbers and dag.args[numbers[op], a] != dag.args[numbers[op], b]:
            return False
        return all(goes(*dag.args[k, [a, b]].tolist()) for k in range(_ARGUMENTS[op]))

    if not all(goes(a, b) for a, b in zip(one, other, strict=True)):
        return False
    inputs = [b for a, b in to.items() if a < 0]
    return len(set(inputs)) == len(inputs)


@given(st.lists(step, max_size=6), st.lists(step, max_size=8), st.data())
def test_classes_are_the_definition(
    some: list[Step], more: list[Step], data: st.DataObject
) -> None:
    dag = Dag()
    dag.block(CONST, np.array([0]))
    for steps in (some, some, more):
        built(dag, steps)
    node = st.integers(-4, dag.count - 1)
    element = st.tuples(node, node)
    elements = data.draw(st.lists(element, min_size=1, max_size=CLASSES))
    found = Classes(dag).of(np.array(elements, np.int32).T).tolist()
    columns = [list(e) for e in elements]
    for i, mine in enumerate(columns):
        first = next(j for j in range(i + 1) if renamed(dag, columns[j], mine))
        assert found[i] == first


def inputs(domain: TermDomain, n: int) -> TermValue:
    return domain.input("x", n)


def test_a_wrong_element_among_many_is_found() -> None:
    """What is compared is one renaming for both sides: x / y and y / x are no class of x / y."""
    domain = TermDomain()
    x = inputs(domain, 2000).n.reshape(2, 1000)
    y = x.copy()
    y[:, 700] = y[::-1, 700]
    one, other = (domain.exp2(domain.div(TermValue(v[0]), TermValue(v[1]))[0]) for v in (x, y))
    twice = domain.exp2(domain.div(domain.add(TermValue(y[0]), other), TermValue(y[1]))[0])
    assert not domain.equal(one, other)[700]
    half = domain.constants([Fraction(2)], np.zeros(1, np.int64))
    sides = domain.mul(half, one), domain.add(other, other)
    right = domain.equal(*sides)
    assert not right[700]
    # what comes before the class that fails is proved
    assert right[:700].all()
    assert not domain.equal(twice, other).any()


def test_inputs_that_fall_together_are_apart() -> None:
    """1 / (x - y) where y is x divides by 0: nothing of x, y holds for it."""
    domain = TermDomain()
    x = inputs(domain, 4).n
    a, b = TermValue(x[[0, 2, 3]]), TermValue(x[[1, 2, 0]])
    found: Nodes = domain.dag.block(DIV, a.n, domain.sub(a, b).n)
    assert Classes(domain.dag).of(found[None]).tolist() == [0, 1, 0]


def test_elements_that_share_what_they_are_made_of_are_left_alone() -> None:
    dag = Dag()
    total = np.array([-1], np.int32)
    for i in range(2, 200):
        total = dag.block(ADD, total, np.array([-i], np.int32))
    # 2^20 sums of one long sum and an input: 200 rows each, one new
    each = dag.block(ADD, total, -np.arange(1000, 1000 + (1 << 20), dtype=np.int32))
    assert (Classes(dag).of(each[None]) == np.arange(1 << 20)).all()
    assert (Classes(dag).of(each[None, :100]) == 0).all()
