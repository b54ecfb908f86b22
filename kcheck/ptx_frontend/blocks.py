"""Basic blocks, in an order that lets lanes meet again.

A group of lanes runs the smallest block first and waits at the larger ones. So the order is a
reverse post-order in which the blocks of a loop stand together, before all that follows the loop:
lanes that left it wait for those that still iterate; the join of an if stands behind both arms.

Source: Bourdoncle, "Efficient chaotic iteration strategies with widenings" (1993): a weak
topological order, from the strongly connected components of the graph, then of each component
without its head, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kcheck.ptx_frontend.kernel import BasicBlock
from kcheck.ptx_frontend.tree import Instr, Target, Vec

_JUMPS = frozenset({"bra", "brx"})
_ENDS = frozenset({"ret", "exit", "trap"})
_BARRIERS = frozenset({"bar", "barrier"})

Graph = Sequence[tuple[int, ...]]


def leaves(instr: Instr) -> bool:
    """Whether control never passes to the next instruction."""
    return instr.guard is None and instr.opcode[0] in _JUMPS | _ENDS


def may_block(instr: Instr) -> bool:
    """Whether a lane may have to wait for others behind this instruction."""
    opcode = instr.opcode
    if opcode[0] in _BARRIERS:
        return True
    if opcode[0] == "mbarrier":
        return len(opcode) > 1 and opcode[1] in ("try_wait", "test_wait")
    return opcode[:2] == ("griddepcontrol", "wait")


def targets(instr: Instr) -> tuple[int, ...]:
    """The indices that a branch may jump to."""
    if instr.opcode[0] not in _JUMPS:
        return ()
    found: list[int] = []
    for operand in instr.operands:
        items = operand.items if isinstance(operand, Vec) else (operand,)
        found += [item.index for item in items if isinstance(item, Target)]
    return tuple(found)


def basic_blocks(code: Sequence[Instr]) -> tuple[BasicBlock, ...]:
    """The blocks that can be reached from `code[0]`, the first one first.

    `successors` are places in the result: the targets of a branch, then the next block. A block
    ends with a branch, with `ret`, `exit`, `trap`, or with an instruction that may block.
    """
    borders = {0}
    for i, instr in enumerate(code):
        if instr.opcode[0] in _JUMPS | _ENDS or may_block(instr):
            borders.add(i + 1)
            borders.update(targets(instr))
    starts = sorted(border for border in borders if border < len(code))
    ends = [*starts[1:], len(code)]
    number = {start: i for i, start in enumerate(starts)}
    graph: list[tuple[int, ...]] = []
    for end in ends:
        last = code[end - 1]
        after = [number[target] for target in targets(last)]
        if not leaves(last) and end < len(code):
            after.append(number[end])
        graph.append(tuple(dict.fromkeys(after)))
    ranked = _order(graph)
    rank = {block: i for i, block in enumerate(ranked)}
    return tuple(BasicBlock(starts[b], ends[b], tuple(rank[s] for s in graph[b])) for b in ranked)


def _order(graph: Graph) -> list[int]:
    """The weak topological order of the nodes that node 0 reaches."""
    components = _components(graph, range(len(graph)), [0])
    entered_from: dict[int, set[int]] = {0: {-1}}
    for node in (node for component in components for node in component):
        for after in graph[node]:
            entered_from.setdefault(after, set()).add(node)
    order: list[int] = []
    pending = components[::-1]
    while pending:
        component = pending.pop()
        if len(component) == 1:
            order += component
            continue
        inside = set(component)
        head = min(node for node in component if not entered_from[node] <= inside)
        order.append(head)
        inside.discard(head)
        pending += _components(graph, inside, sorted(inside, reverse=True))[::-1]
    return order


def _components(graph: Graph, nodes: Collection[int], roots: Sequence[int]) -> list[list[int]]:
    """Strongly connected components of a subgraph in topological order (Tarjan, iterative).

    Far successors are visited first, so that among free choices the code's own order stays.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}  # of the nodes that are in no component yet
    opened: list[int] = []
    path: list[tuple[int, list[int]]] = []
    found: list[list[int]] = []

    def enter(node: int) -> None:
        index[node] = low[node] = len(index)
        opened.append(node)
        path.append((node, sorted(after for after in graph[node] if after in nodes)))

    for root in roots:
        if root not in index:
            enter(root)
        while path:
            node, rest = path[-1]
            if rest:
                after = rest.pop()
                if after not in index:
                    enter(after)
                elif after in low:
                    low[node] = min(low[node], index[after])
                continue
            path.pop()
            if path:
                parent = path[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(opened.pop())
                    del low[component[-1]]
                found.append(component)
    return found[::-1]
