"""CUDA text -> PTX text, by the nvcc and the options that tilelang itself uses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from functools import cache, lru_cache
from pathlib import Path

from kcheck.passes.stamps import stamps
from kcheck.passes.tilelang.installed import tilelang
from kcheck.passes.tilelang.request import FAST_MATH, FLAGS, Request
from kcheck.passes.validation import digest

# one name for all: it becomes part of names in the PTX
SOURCE = "kernel.cu"
SECONDS = 600
# texts whose PTX is kept in memory: programs and configurations share rungs
KEPT = 64
# what nvcc -lineinfo adds, and comments
_LINES = re.compile(r"^\s*(?:\.loc|\.file|//).*$|\s*//.*$", re.MULTILINE)
_SECTIONS = re.compile(r"^\s*\.section\s+\S+\s*\{.*?^\s*\}", re.MULTILINE | re.DOTALL)
_LABELS = re.compile(r"^\$L__(?:tmp|info)\S*:?\s*$", re.MULTILINE)
# internal linkage: a hash of the file, and its name
_INTERNAL = re.compile(
    r"_ZN\d+_INTERNAL_[0-9a-f]+_\d+_\w*?_cu_[0-9a-f]{8}|_GLOBAL__N__[0-9a-f]{8}_\d+_\w*?_cu_[0-9a-f]{8}"
)


# variables that nvcc and its host compiler take options and folders of headers from
_VARIABLES = re.compile(r"NVCC_\w+|CPATH|C(?:PLUS)?_INCLUDE_PATH|GCC_EXEC_PREFIX|COMPILER_PATH")
# between an option and its path, and between paths
_BETWEEN = re.compile(r"[=,:]|^-(?:I|isystem|include)")


class CompileError(Exception):
    """nvcc failed; the message holds its first lines."""


def ptx(source: str, request: Request) -> str:
    """The PTX of a CUDA text, with line numbers of it (`.loc`). CompileError."""
    return _ptx(source, tuple(_options(request)), surroundings(request))


@lru_cache(KEPT)
def _ptx(source: str, options: tuple[str, ...], _around: str) -> str:
    with tempfile.TemporaryDirectory(prefix="kcheck-nvcc-") as folder:
        cu = Path(folder, SOURCE)
        cu.write_text(source, encoding="utf-8")
        out = cu.with_suffix(".ptx")
        command = [*_command(), *options, "-o", str(out), str(cu)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(str(error)) from error
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise CompileError("; ".join(errors[:3]) or done.stderr[:500])
        return out.read_text(encoding="utf-8")


@cache
def _command() -> tuple[str, ...]:
    tilelang()
    from tilelang.contrib.cc import get_cplus_compiler
    from tilelang.contrib.nvcc import get_nvcc_compiler

    host = get_cplus_compiler()
    return (get_nvcc_compiler(), *([f"-ccbin={host}"] if host else []), "--ptx", "-O3", "-w")


def _options(request: Request) -> list[str]:
    """As `tilelang_callback_cuda_compile` (tilelang/cuda/backend.py) makes them."""
    from tilelang.env import CUTLASS_INCLUDE_DIR, TILELANG_TEMPLATE_PATH

    arch = str(request.target.attrs["arch"])
    options = ["-lineinfo", f"-arch={arch}", "-std=c++20"]
    options += [f"-I{TILELANG_TEMPLATE_PATH}", f"-I{CUTLASS_INCLUDE_DIR}"]
    options += request.configs.get(FLAGS, ())
    return [*options, "--use_fast_math"] if request.configs.get(FAST_MATH) else options


def surroundings(request: Request) -> str:
    """What PTX is made from beside the CUDA text: options, variables, and the state of all files
    and folders that these name.
    """
    options = [*_command(), *_options(request)]
    variables = sorted(item for item in os.environ.items() if _VARIABLES.fullmatch(item[0]))
    words = [*options, *(word for _, value in variables for word in _words(value))]
    paths = dict.fromkeys(piece for word in words for piece in _BETWEEN.split(word) if piece)
    files = [[*stamps(path)] for path in paths if os.path.exists(path)]
    return digest(*options, str(variables), str(files), identity())


def _words(text: str) -> list[str]:
    """The words of options, as a shell reads them; the text itself where that has no end."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


@cache
def identity() -> str:
    """What tells one nvcc from another."""
    command = [_command()[0], "--version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS).stdout


def normalized(text: str) -> str:
    """PTX without line numbers, comments, debug sections and hashes of file names."""
    for pattern in (_SECTIONS, _LINES, _LABELS):
        text = pattern.sub("", text)
    text = _INTERNAL.sub("_INTERNAL_", text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def loc_lines(text: str) -> dict[int, int]:
    """PTX line -> line of the CUDA text that it was made from, where the PTX says so.

    Source: PTX ISA 9.0, 11.5.2 and 11.5.4 (`.file`, `.loc` with `inlined_at`).
    """
    files = {
        int(number): name
        for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.MULTILINE)
    }
    ours = {number for number, name in files.items() if Path(name).name == SOURCE}
    found: dict[int, int] = {}
    now: int | None = None
    for i, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words[:1] == [".loc"]:
            now = _outermost(words, ours) or now
        elif now is not None:
            found[i] = now
    return found


def _outermost(words: list[str], ours: set[int]) -> int | None:
    """The line of our file that a `.loc` names itself, or inlines at."""
    at = words.index("inlined_at") if "inlined_at" in words else 0
    file, line = words[at + 1 : at + 3]
    return int(line) if int(file) in ours else None
