"""Small PTX texts for the tests of the front end."""

from __future__ import annotations

from pathlib import Path

from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.ptx_frontend.printer import print_module
from kcheck.ptx_frontend.tree import Function, Instr, Module

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.ptx"))
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .b64 %rd<9>; .reg .f32 %f<99>;"
)


def entry(body: str, params: str = "", name: str = "k", head: str = "") -> str:
    """A module with one kernel."""
    return f"{HEAD}{head}\n.visible .entry {name}({params})\n{{\n{REGISTERS}\n{body}\n}}\n"


def checked(text: str) -> Module:
    """The tree of a text, after checking that printing it loses nothing."""
    module = parse(text)
    assert parse(print_module(module)) == module
    return module


def kernel(text: str, name: str | None = None) -> Kernel:
    """The lowered kernel of a text."""
    return lower(checked(text), name)


def lowered(body: str, head: str = "") -> Kernel:
    """The lowered kernel with this body."""
    return kernel(entry(body, head=head))


def function(module: Module, name: str = "k") -> Function:
    """A function of a module."""
    return next(f for f in module.functions if f.name == name and f.body)


def instructions(body: str) -> list[Instr]:
    """The instructions at the outermost level of a body, not lowered."""
    block = function(checked(entry(body))).body
    assert block is not None
    return [s for s in block.body if isinstance(s, Instr)]


def instruction(text: str) -> Instr:
    """The only one."""
    (only,) = instructions(text)
    return only
