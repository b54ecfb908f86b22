"""What kcheck costs: a real pair, a long pair, large grids, races, single instructions.

    python -m benchmarks.speed [--only PART] [--data FOLDER]

Writes results.md (all parts) or prints one part. Wall time depends on what else the machine does
(the load average is given); processor time less so. The first two tables take the fastest of five
and of three processes.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import platform
import pstats
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kcheck
from benchmarks.instructions import CLASSES, per_instruction
from kcheck.canon.field import FieldDomain
from kcheck.canon.real import Reals
from kcheck.check import equivalent, safe
from kcheck.field_runs import field_run
from kcheck.launch_file import load_launch
from kcheck.loading import load_kernel
from kcheck.question import ask
from kcheck.semantics.execution import BATCH, execute
from kcheck.semantics.machine import Machine

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
GEMM = "tilelang/kernels/gemm/sm_80_s0", "tilelang/kernels/gemm/sm_80_s2"
LANES = (128, 512, 4096)
GROUPS = "tilelang/kernels", "tilelang/ladders", "triton"
# kernels with a defect
WRONG = "BAD", "RACY", "nosafe"
LEVELS = 3


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


def row(what: str, *arguments: str | Path, target: str = "", runs: int = 1) -> str:
    """The fastest of some processes as a row of a table."""
    measured = [command(*arguments) for _ in range(runs)]
    verdict, wall, processor, memory = min(measured, key=lambda run: run[1])
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
    times = []
    for _ in range(5):
        start = time.monotonic(), time.process_time()
        verdict = equivalent(a, b, safety=False, seed=1)
        times.append((time.monotonic() - start[0], time.process_time() - start[1]))
    wall, processor = min(times)
    lines.append(
        f"| the same, `equivalent()` alone | {verdict.verdict} | {wall:.2f} | {processor:.2f} | | |"
    )
    return lines


def long(data: Path) -> list[str]:
    """K = 1024, a 64 x 64 tile of 128 threads: scalar fma against mma.sync."""
    a, b = KERNELS / "gemm_fma.ptx", KERNELS / "gemm_mma.ptx"
    return [*HEAD, row("fma against mma.sync, K = 1024, one CTA", a, b, target="10 s", runs=3)]


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


def exact(data: Path) -> list[str]:
    """Exact proofs beside identity testing of the same."""
    a, b = KERNELS / "attention_rows.ptx", KERNELS / "attention_mma.ptx"
    c, d = KERNELS / "gemm_fma.ptx", KERNELS / "gemm_mma.ptx"
    launches = [KERNELS / f"gemm_{k}.k4096.launch.yaml" for k in ("fma", "mma")]
    options = ("--launch", launches[0], "--subject-launch", launches[1])
    attention = "attention, 16 queries, 512 keys, head 64: rows against online softmax by mma"
    gemm = "GEMM, a 64 x 64 tile, K = 4096: fma against mma.sync"
    target = "20 s, 2000 MB"
    return [
        *HEAD,
        row(f"{attention}, exact", a, b, "--engine", "term", target=target),
        row(f"{gemm}, exact", c, d, *options, "--engine", "term", target=target),
        two_trials(attention, a, b),
        two_trials(gemm, c, d, *launches),
    ]


def two_trials(what: str, reference: Path, subject: Path, *launches: Path) -> str:
    """Two trials of the field engine, without the bound, as a row of a table."""
    first, second = launches or (None, None)
    question = ask(reference, subject, first, second, None, None, None, None, 1)
    question.safety = False
    start = time.monotonic(), time.process_time()
    field_run(question, 2)
    wall, processor = time.monotonic() - start[0], time.process_time() - start[1]
    return f"| {what}, two trials | | {wall:.2f} | {processor:.2f} | | 5 s |"


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


def safety(data: Path) -> list[str]:
    """What looking for races costs: every kernel against itself, with and without."""
    lines = [
        "`equivalent()` of each sm_80 kernel and itself: user seconds (wall time says "
        "little on a shared machine). Memory: what the executor allocates at its peak, "
        "in megabytes; the largest surplus of one kernel, and the shared memory it has in flight.",
        "",
        "| kernels | number | off s | on s | on / off | worst kernel | off MB | on MB "
        "| surplus MB | shared MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in GROUPS:
        paths = [
            path
            for path in sorted((data / group).rglob("*.ptx"))
            if ".target sm_80" in path.read_text() and not any(w in path.stem for w in WRONG)
        ]
        times = []
        for path in paths:
            _user(path, False)  # the first run of each pays for what the others find made
            times.append((_user(path, False), _user(path, True)))
        off, on = (sum(column) for column in zip(*times, strict=True))
        ratios = {p: b / a for p, (a, b) in zip(paths, times, strict=True)}
        worst = max(paths, key=lambda path: ratios[path])
        name = worst.relative_to(data / group).with_suffix("")
        memory = [_peaks(path) for path in paths]
        less, more = (max(column) for column in list(zip(*memory, strict=True))[:2])
        surplus, shared = max((b - a, flight) for a, b, flight in memory)
        lines.append(
            f"| {group} | {len(paths)} | {off:.1f} | {on:.1f} | {on / off:.2f} | "
            f"{ratios[worst]:.2f} {name} | {less:.0f} | {more:.0f} | {surplus:.1f} | "
            f"{shared:.2f} |"
        )
    return lines


def racing(data: Path) -> list[str]:
    """What a kernel costs in which every access races, beside the same without a race."""
    lines = [
        "`safe()`, user seconds: 256 threads a CTA add 1 to an element 64 times, each to its own, "
        "or the CTAs to the same. All pairs of instructions are found and confirmed. Target: 3.",
        "",
        "| CTAs | apart s | together s | together / apart | confirmed by |",
        "|---|---|---|---|---|",
    ]
    for ctas in (64, 512):
        launch = KERNELS / f"turns.{ctas}.launch.yaml"
        seconds, by = [], set[str]()
        for which in ("apart", "together"):
            started = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            verdict = safe(KERNELS / f"turns_{which}.ptx", launch=launch, seed=1)
            seconds.append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - started)
            by |= {finding.confirmed for finding in verdict.findings}
        apart, together = seconds
        lines.append(
            f"| {ctas} | {apart:.2f} | {together:.2f} | {together / apart:.1f} | "
            f"{', '.join(sorted(by))} |"
        )
    return lines


def _user(path: Path, races: bool) -> float:
    """User seconds of a kernel against itself."""
    started = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    verdict = equivalent(path, path, safety=races, seed=1).verdict
    if verdict in ("refuted", "error"):
        raise ValueError(f"{path} is {verdict}")
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - started


def _peaks(path: Path) -> tuple[float, float, float]:
    """Megabytes without and with the monitor, and of shared memory in flight."""
    kernel, launch = load_kernel(path, None), load_launch(path.with_suffix(".launch.yaml"))
    peaks = []
    for races in (False, True):
        tracemalloc.start()
        execute(kernel, launch, FieldDomain(1, 4, LEVELS), races=races)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    machine = Machine(kernel, launch, Reals(FieldDomain(1, 4, LEVELS)), races=True)
    in_flight = min(launch.ctas, max(BATCH // machine.threads, 1)) * machine.regions.shared_bytes
    return peaks[0] / 1e6, peaks[1] / 1e6, in_flight / 1e6


PARTS: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "pair": ("A pair from a compiler", pair),
    "long": ("A long inner product", long),
    "grids": ("Large grids", grids),
    "exact": ("Exact proofs", exact),
    "safety": ("Races on and off", safety),
    "racing": ("A kernel full of races", racing),
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
        f"NumPy {np.__version__}, kcheck {kcheck.__version__}; load average "
        f"{os.getloadavg()[0]:.1f} before the start"
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
