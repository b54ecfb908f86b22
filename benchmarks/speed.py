"""What kcheck costs: a real pair, single instructions, a long pair, large grids.

    python -m benchmarks.speed [--only PART] [--data FOLDER]

Writes results.md (all parts) or prints one part. Times are of one run on whatever else the
machine does: wall time, and processor time beside it.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import platform
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kcheck
from benchmarks.instructions import CLASSES, per_instruction
from kcheck.check import equivalent

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
GEMM = "tilelang/kernels/gemm/sm_80_s0", "tilelang/kernels/gemm/sm_80_s2"
LANES = (128, 512, 4096)


def command(*arguments: str | Path) -> tuple[str, float, float, float]:
    """`kcheck equiv ... --no-safety` in a new process.

    The first word of its report, wall seconds, processor seconds, peak resident megabytes.
    """
    line = [sys.executable, "-m", "kcheck", "equiv", *arguments, "--no-safety", "--seed", "1"]
    started = time.monotonic()
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    verdict = process.stdout.read().split()[0]
    process.stdout.close()
    _, _, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    return verdict, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def row(what: str, *arguments: str | Path, target: str = "") -> str:
    """One process as a row of a table."""
    verdict, wall, processor, memory = command(*arguments)
    return f"| {what} | {verdict} | {wall:.2f} | {processor:.2f} | {memory:.0f} | {target} |"


HEAD = [
    "| pair | verdict | wall s | processor s | peak MB | target |",
    "|---|---|---|---|---|---|",
]


def pair(data: Path) -> list[str]:
    """A TileLang GEMM of 128 x 128 x 128, whole grid."""
    a, b = (data / f"{stem}.ptx" for stem in GEMM)
    lines = [
        *HEAD,
        row("TileLang GEMM 128 x 128 x 128, a new process", a, b, target="1.5 s, 500 MB"),
    ]
    equivalent(a, b, safety=False, seed=1)
    wall, processor = time.monotonic(), time.process_time()
    verdict = equivalent(a, b, safety=False, seed=1)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    lines.append(
        f"| the same, `equivalent()` alone | {verdict.verdict} | {wall:.2f} | {processor:.2f} | | |"
    )
    return lines


def long(data: Path) -> list[str]:
    """K = 1024, a 64 x 64 tile of 128 threads: scalar fma against mma.sync."""
    a, b = KERNELS / "gemm_fma.ptx", KERNELS / "gemm_mma.ptx"
    return [*HEAD, row("fma against mma.sync, K = 1024, one CTA", a, b, target="10 s")]


def grids(data: Path) -> list[str]:
    """How time and memory grow with the grid."""
    a, b = KERNELS / "gemm_fma.ptx", KERNELS / "gemm_mma.ptx"
    launches = [KERNELS / f"gemm_{k}.large.launch.yaml" for k in ("fma", "mma")]
    options = ("--launch", launches[0], "--subject-launch", launches[1])
    c, d = KERNELS / "add_scalar.ptx", KERNELS / "add_vector.ptx"
    small = [KERNELS / f"add_{k}.small.launch.yaml" for k in ("scalar", "vector")]
    few = ("--launch", small[0], "--subject-launch", small[1])
    return [
        *HEAD,
        row("fma against mma.sync, 1024 x 1024 x 256, 256 CTAs", a, b, *options),
        row("C = A + B, 2^20 elements, 4096 CTAs against 1024", c, d, *few),
        row("C = A + B, 2^24 elements, 65536 CTAs against 16384", c, d),
    ]


def instructions(data: Path) -> list[str]:
    """Time per vector instruction."""
    heads = [f"{n} lanes, {levels} level{'s'[: levels > 1]}" for levels in (1, 2) for n in LANES]
    lines = [
        "Microseconds of processor time per vector instruction; 4 trials, operands are inputs.",
        "",
        f"| instruction | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
    ]
    for name in CLASSES:
        cells = [per_instruction(name, n, levels) for levels in (1, 2) for n in LANES]
        shown = ("" if c is None else f"{1e6 * c:.1f}" for c in cells)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


def profile(data: Path) -> list[str]:
    """Where the time of the TileLang GEMM pair goes."""
    a, b = (data / f"{stem}.ptx" for stem in GEMM)
    equivalent(a, b, safety=False, seed=1)
    profiler = cProfile.Profile()
    profiler.enable()
    equivalent(a, b, safety=False, seed=1)
    profiler.disable()
    stats = pstats.Stats(profiler, stream=io.StringIO())
    entries = stats.get_stats_profile().func_profiles.items()
    total = stats.get_stats_profile().total_tt
    lines = [
        f"TileLang GEMM pair, {total:.2f} s under the profiler; own time by function.",
        "",
        "| function | calls | own s | share |",
        "|---|---|---|---|",
    ]
    for name, f in sorted(entries, key=lambda e: -e[1].tottime)[:16]:
        module = Path(f.file_name)
        where = "/".join(module.with_suffix("").parts[-2:]) if f.file_name != "~" else "built in"
        text = f"{where}: {name}".replace("|", "\\|")
        lines.append(f"| {text} | {f.ncalls} | {f.tottime:.3f} | {f.tottime / total:.0%} |")
    return lines


PARTS: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "pair": ("A pair from a compiler", pair),
    "long": ("A long inner product", long),
    "grids": ("Large grids", grids),
    "instructions": ("Instructions", instructions),
    "profile": ("Profile", profile),
}


def machine() -> str:
    """Processor and versions."""
    model = platform.processor() or "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return (
        f"{model}, {os.cpu_count()} processors; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, kcheck {kcheck.__version__}"
    )


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE.parent / "tests" / "data")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part; writes no file")
    arguments = parser.parse_args()
    text = ["# What kcheck costs", "", f"`python -m benchmarks.speed` on {machine()}."]
    for name, (title, part) in PARTS.items():
        if arguments.only in (None, name):
            lines = ["", f"## {title}", "", *part(arguments.data)]
            print("\n".join(lines), flush=True)
            text += lines
    if arguments.only is None:
        (HERE / "results.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
