"""Functions of the CUDA math library as nvcc expands them, read from compiled one-line kernels.

`kcheck/data/library.ptx` holds one kernel per function (`data/library.cu`): its last argument is
the output, the others are inputs. What lies between the loads and the store is the pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kcheck.ptx_frontend.dataflow import DataFlow, Value, sources
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.powers import LITERALS, OF_SQUARES, Literal, as_bits
from kcheck.ptx_frontend.tree import Flt, Imm, Instr, Mem, Reg, Sym

SNIPPETS = Path(__file__).parent.parent / "data" / "library.ptx"
# The product of two factors: the multiplication may be fused with what follows, or occur twice.
PRODUCTS = frozenset({"expf", "exp10f"})
# two functions of one argument whose branches are the same
PAIRS = (
    ("sinf_sincos", "cosf_sincos"),
    ("sinf_sincos_indexed", "cosf_sincos_indexed"),
)
# opcodes that few kernels hold
RARE = ("add.rz.f32", "copysign.f32", "fma.rm.f32", "cvt.rni.f32.f32")
_LITERAL = re.compile(r"\b0f([0-9A-F]{8})\b")
# words of an opcode that mean nothing over the reals, or are the default
_SILENT = frozenset({"ftz", "rn", "uni"})


@cache
def plain(opcode: tuple[str, ...]) -> tuple[str, ...]:
    """An opcode without words that make no difference here."""
    return tuple(word for word in opcode if word not in _SILENT)


@dataclass
class Pattern:
    """A function's instructions, by their places in the code of its own kernel.

    `roots`: the results, definitions of one register; of a product the last instruction of each
    factor. `inputs`: the loads of the arguments, in order, or the square of the first (of
    `OF_SQUARES`). `scratch`: it uses local memory. `inner`: the blocks between the first one and
    `exit`. `literal`: an argument that is folded into the code; `literals`: the words that stand
    for it.
    """

    name: str
    kernel: Kernel
    flow: DataFlow
    roots: tuple[int, ...]
    inputs: tuple[int, ...]
    scratch: bool
    inner: tuple[int, ...]
    exit: int
    literal: Literal | None
    literals: tuple[int, ...]

    def number(self, literal: float) -> int:
        """Words that stand for a literal are arguments too: which."""
        return len(self.inputs) + 1 + self.literals.index(as_bits(literal))

    @property
    def function(self) -> str:
        """The function's name, whatever the flags that its code was compiled with."""
        return self.name.partition("_")[0]

    @property
    def product(self) -> bool:
        """Its roots are two factors."""
        return self.function in PRODUCTS


@cache
def _texts() -> tuple[str, dict[str, str]]:
    """The head of the file, and the text of each kernel by its name."""
    head, *entries = SNIPPETS.read_text().split("\n.visible .entry ")
    return head, {entry.partition("(")[0]: f"\n.visible .entry {entry}" for entry in entries}


@cache
def signatures() -> dict[str, tuple[frozenset[int], frozenset[str]]]:
    """Function -> the float literals that are no short numbers, and rare opcodes, of its code."""
    found = {}
    for name, text in _texts()[1].items():
        literal = LITERALS.get(name)
        folded = set(map(as_bits, literal.all(literal.given))) if literal else set[int]()
        words = (int(word, 16) for word in _LITERAL.findall(text))
        rare = frozenset(word for word in RARE if f"\t{word}" in text)
        found[name] = frozenset(w for w in words if w & 0xFFFF and w not in folded), rare
    return found


@cache
def pattern(name: str) -> Pattern:
    """One function of the library."""
    head, texts = _texts()
    return _pattern(lower(parse(head + texts[name], str(SNIPPETS))))


def _pattern(kernel: Kernel) -> Pattern:
    flow = DataFlow(kernel)
    code = kernel.code
    (store,) = (at for at, instr in enumerate(code) if instr.opcode[:2] == ("st", "global"))
    loads = [at for at, instr in enumerate(code) if instr.opcode[:3] == ("ld", "global", "nc")]
    names = {param.name: n for n, param in enumerate(kernel.params)}
    arguments = {names.get(_parameter(flow, at), -1): at for at in loads}
    inputs = tuple(arguments[n] for n in range(len(kernel.params) - 1))
    if kernel.name in OF_SQUARES:
        (square,) = flow.readers(inputs[0])
        inputs = (square, *inputs[1:])
    result = flow.value(store, code[store].operands[1])
    assert result is not None
    roots = tuple(sorted(result.defs))
    exit_ = flow.block_of[store]
    inner = tuple(b for b in range(1, len(kernel.blocks)) if b != exit_)
    if kernel.name in PRODUCTS:
        factors = (flow.value(roots[0], o) for o in sources(code[roots[0]]))
        roots = tuple(at for v in factors if v for at in v.defs)
    scratch = any(v.space == "local" for v in kernel.variables.values())
    literal = LITERALS.get(kernel.name)
    words = tuple(map(as_bits, literal.all(literal.given))) if literal else ()
    return Pattern(kernel.name, kernel, flow, roots, inputs, scratch, inner, exit_, literal, words)


def _parameter(flow: DataFlow, at: int) -> str:
    """The parameter that a load's address comes from."""
    pending, seen = [at], {at}
    while pending:
        at = pending.pop()
        instr = flow.kernel.code[at]
        for operand in operands(instr):
            if isinstance(operand, Sym) and instr.opcode[:2] == ("ld", "param"):
                return operand.name
            value = flow.value(at, operand)
            new = (value.defs if value else frozenset()) - seen
            pending += new
            seen |= new
    return ""


def operands(instr: Instr) -> list[Reg | Sym | Imm | Flt]:
    """What an instruction reads, but for its guard; of an address its base."""
    out: list[Reg | Sym | Imm | Flt] = []
    for operand in sources(instr):
        if isinstance(operand, Mem):
            operand = operand.base
        if isinstance(operand, (Reg, Sym, Imm, Flt)):
            out.append(operand)
    return out


def same(a: Value | None, b: Value | None) -> bool:
    """Literals or names that agree."""
    return a is not None and b is not None and a.key == b.key
