"""The skeleton of a launch file, guessed from a kernel: what only the user knows says FILL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr, Mem, Operand, Reg, Sym, Variable
from kcheck.yaml_reader import FILL

# opcode -> the sources that hand a pointer on (an offset is added, never scaled)
_ADDITIVE = {
    "mov": (1,),
    "cvta": (1,),
    "cvt": (1,),
    "add": (1, 2),
    "sub": (1,),
    "selp": (1, 2),
    "mad": (3,),
}
# opcode -> (operand that holds the address, roles)
_ACCESS = {
    "ld": (1, "r"),
    "ldu": (1, "r"),
    "st": (0, "w"),
    "red": (0, "rw"),
    "atom": (1, "rw"),
}
# half formats, as they occur in opcodes -> dtype
_HALVES = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16"}
_ROLES = {"": "inout", "r": "in", "w": "out", "rw": "inout"}


@dataclass
class _Use:
    """What a kernel does with one parameter."""

    access: set[str] = field(default_factory=set)  # r, w
    types: list[str] = field(default_factory=list)  # PTX types of its loads and stores
    read: bool = False  # the parameter is loaded at all
    pointer: bool = False  # it goes through cvta

    @property
    def role(self) -> str:
        return _ROLES["".join(sorted(self.access))]


def launch_skeleton(kernel: Kernel) -> str:
    """The text of a launch file for the kernel.

    Parameters come in order, with dtype and role guessed from the loads and stores through them.
    Grid, shapes and integer scalars can't be known: they say FILL, which `parse_launch` refuses.
    """
    uses = _uses(kernel)
    guess = _usual_dtype(kernel)
    lines = [
        f"kernel: {kernel.name}",
        f"grid: [{FILL}, 1, 1]  # CTAs in x, y, z",
        _block_line(kernel),
        _shared_line(kernel),
        "params:" if kernel.params else "params: []",
    ]
    for i, variable in enumerate(kernel.params):
        lines += _param_lines(f"p{i}", variable, uses[variable.name], guess)
    return "\n".join(lines) + "\n"


def _block_line(kernel: Kernel) -> str:
    for key, note in (("reqntid", ""), ("maxntid", "  # CHANGE: .maxntid is an upper bound")):
        if key in kernel.tuning:
            return f"block: {list((*kernel.tuning[key], 1, 1)[:3])}{note}"
    return f"block: [{FILL}, 1, 1]  # threads in x, y, z"


def _shared_line(kernel: Kernel) -> str:
    dynamic = any(v.space == "shared" and v.shape == (0,) for v in kernel.variables.values())
    note = "  # CHANGE: bytes; the kernel has an extern shared array" if dynamic else ""
    return f"dynamic_shared: 0{note}"


def _param_lines(name: str, variable: Variable, use: _Use, guess: str) -> list[str]:
    if variable.shape:
        return [
            f"- {{name: {name}, role: tensormap, tensormap: {{of: {name}_buffer, dims: [{FILL}],",
            f"    strides: [{FILL}], box: [{FILL}], element_strides: [{FILL}], interleave: 0,",
            "    swizzle: none, fill: zero},  # CHANGE: as given to cuTensorMapEncode",
            f"  buffer: {{name: {name}_buffer, dtype: f16, shape: [{FILL}], role: in}}}}  # CHANGE",
        ]
    pointer = "ptr" in variable.attributes or use.access or use.pointer or not use.read
    if variable.nbytes == 8 and pointer:
        dtype, note = _dtype(use, guess)
        compare = "" if use.access else ", compare: false"
        note = note if use.access else "  # CHANGE: no access through it found"
        return [
            f"- {{name: {name}, dtype: {dtype}, shape: [{FILL}], role: {use.role}{compare}}}{note}"
        ]
    dtype = variable.type if variable.type[0] in "fsu" else f"s{8 * variable.nbytes}"
    dtype = dtype.replace("u", "s")  # sizes and strides are signed nearly always
    value = "symbolic" if dtype.startswith("f") else FILL
    return [f"- {{name: {name}, dtype: {dtype}, role: scalar, value: {value}}}"]


def _usual_dtype(kernel: Kernel) -> str:
    """What untyped loads probably move: the half format that the kernel computes with, or f32."""
    words = [word for instr in kernel.code for word in instr.opcode]
    for word, dtype in _HALVES.items():
        if word in words:
            return dtype
    return "f32" if "f32" in words else "s32"


def _dtype(use: _Use, guess: str) -> tuple[str, str]:
    """The dtype of a buffer, and a comment where it is only a guess.

    Compilers use b and u types for whatever has the width; f and s types mean what they say.
    """
    types = set(use.types)
    if len(types) == 1 and min(types)[0] in "fs":
        return min(types), ""
    wide = types and types <= {"f64", "b64", "u64"} and "f64" in types
    return "f64" if wide else guess, "  # CHANGE: dtype is a guess"


def _uses(kernel: Kernel) -> dict[str, _Use]:
    """Parameter name -> use, by one flow-insensitive fixpoint over the registers."""
    uses = {variable.name: _Use() for variable in kernel.params}
    holds: dict[str, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for instr in kernel.code:
            found = _handed_on(instr, uses, holds)
            if not found:
                continue
            for register in _registers(instr.operands[0]):
                known = holds.setdefault(register, set())
                changed = changed or not found <= known
                known |= found
    for instr in kernel.code:
        _note_access(instr, uses, holds)
    return uses


def _handed_on(instr: Instr, uses: dict[str, _Use], holds: dict[str, set[str]]) -> set[str]:
    """The parameters whose value the first operand may point into after the instruction."""
    if instr.opcode[0] == "ld" and "param" in {m.partition("::")[0] for m in instr.opcode}:
        base = instr.operands[1].base if isinstance(instr.operands[1], Mem) else None
        if isinstance(base, Sym) and base.name in uses:
            uses[base.name].read = True
            return {base.name}
        return set()
    found = {
        name
        for i in _ADDITIVE.get(instr.opcode[0], ())
        if i < len(instr.operands)
        for register in _registers(instr.operands[i])
        for name in holds.get(register, ())
    }
    if instr.opcode[0] == "cvta":
        for name in found:
            uses[name].pointer = True
    return found


def _note_access(instr: Instr, uses: dict[str, _Use], holds: dict[str, set[str]]) -> None:
    if instr.opcode[:2] == ("cp", "async"):
        addresses = [(operand, "r") for operand in instr.operands[1:2]]
    elif instr.opcode[0] in _ACCESS:
        at, access = _ACCESS[instr.opcode[0]]
        addresses = [(instr.operands[at], access)]
    else:
        return
    for operand, access in addresses:
        base = operand.base if isinstance(operand, Mem) else None
        for name in holds.get(base.name, ()) if isinstance(base, Reg) else ():
            uses[name].access |= set(access)
            if instr.opcode[0] != "cp":
                uses[name].types.append(instr.opcode[-1])


def _registers(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Reg):
        yield operand.name
    for item in getattr(operand, "items", ()):
        yield from _registers(item)
