"""`kcheck demo`: two checks of kernels that ship as package data.

`data/gemm_s0.ptx` and `gemm_s2.ptx` are one TileLang GEMM (128 x 128 x 128, f16) without and with
a two-stage cp.async pipeline; in `gemm_wrong.ptx` one mma reads one wrong register.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.resources import as_file, files

from kcheck.check import equivalent
from kcheck.launch_file import load_launch
from kcheck.report.text import verdict_text

# reference, subject, the verdict that must come out, what it shows
CHECKS = (
    ("gemm_s0", "gemm_s2", "proved", "software pipelining kept the values"),
    ("gemm_s0", "gemm_wrong", "refuted", "the same, with one register of one mma changed"),
)


def demonstrate(progress: Callable[[str, float], None] | None = None) -> tuple[bool, str]:
    """Run the checks; whether all came out as they must, and the report."""
    good, blocks = True, []
    data = files("kcheck") / "data"
    for reference, subject, expected, what in CHECKS:
        with ExitStack() as stack:
            ptx = [
                stack.enter_context(as_file(data / f"{name}.ptx")) for name in (reference, subject)
            ]
            launch = load_launch(stack.enter_context(as_file(data / f"{reference}.launch.yaml")))
            subject_launch = load_launch(
                stack.enter_context(as_file(data / f"{subject}.launch.yaml"))
            )
            verdict = equivalent(
                *ptx, launch=launch, subject_launch=subject_launch, progress=progress
            )
        command = f"$ kcheck equiv {reference}.ptx {subject}.ptx   # {what}"
        blocks.append(f"{command}\n{verdict_text(verdict)}")
        if verdict.verdict != expected:
            good = False
            blocks.append(f"kcheck demo expected `{expected}`: please report this")
    return good, "\n\n".join(blocks)
