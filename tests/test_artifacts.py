"""What a witness leaves behind: files that stand alone, and say the same as the report."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.canon.ieee.engine import Ieee, values
from kcheck.check import equivalent
from kcheck.driver_program import _HEAD, Unwritable, _format, driver_program
from kcheck.launch import DTYPE_BYTES, Launch, Scalar, Tensor
from kcheck.launch_file import load_launch
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.verdict import Verdict, Witness
from kcheck.witness import Subject
from tests.corpus import CASES
from tests.semantics.harness import entry, known, launch_of, out, symbol

CASE = CASES / "19-ldmatrix-trans-omitted"
NVCC = shutil.which("nvcc")
CXX = shutil.which("g++") or shutil.which("c++")


def verdict_in(folder: Path, case: Path = CASE) -> Verdict:
    paths = [case / f"{side}.ptx" for side in ("ref", "bug")]
    return equivalent(*paths, safety=False, seed=1, witness_dir=folder)


def test_files(tmp_path: Path) -> None:
    witness = verdict_in(tmp_path).witness
    assert witness is not None
    names = sorted(path.name for path in tmp_path.iterdir())
    ends = ("cu", "npz", "py", "reference.launch.yaml", "reference.ptx", "subject.launch.yaml",
            "subject.ptx")  # fmt: skip
    assert names == [f"ref-bug-C.{end}" for end in ends]
    assert witness.path == str(tmp_path / "ref-bug-C.npz")
    assert witness.scripts == (str(tmp_path / "ref-bug-C.py"), str(tmp_path / "ref-bug-C.cu"))
    for side, stem in (("reference", "ref"), ("subject", "bug")):
        text = (tmp_path / f"ref-bug-C.{side}.ptx").read_text()
        assert text == (CASE / f"{stem}.ptx").read_text()
        launch = load_launch(tmp_path / f"ref-bug-C.{side}.launch.yaml")
        assert launch.grid == load_launch(CASE / f"{stem}.launch.yaml").grid


def run_snippet(path: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(root), "PATH": ""},
    )  # fmt: skip


def test_snippet_shows_the_difference(tmp_path: Path) -> None:
    witness = verdict_in(tmp_path).witness
    assert witness is not None
    done = run_snippet(witness.scripts[0])
    assert done.stdout.splitlines() == [
        f"C[0,1] = {witness.reference[0]!r} in the reference",
        f"C[0,1] = {witness.subject[0]!r} in the subject",
    ]
    assert (done.returncode, done.stderr) == (1, "")
    # once the kernel is mended it is content
    (tmp_path / "ref-bug-C.subject.ptx").write_text((CASE / "fix.ptx").read_text())
    launch = (CASE / "fix.launch.yaml").read_text()
    (tmp_path / "ref-bug-C.subject.launch.yaml").write_text(launch)
    mended = run_snippet(witness.scripts[0])
    assert (mended.returncode, mended.stderr) == (0, "")


def test_snippet_shows_its_element_beside_others_that_divide_by_0(tmp_path: Path) -> None:
    """0 / 0 made an integer has no value over the reals: the element is shown in true formats."""
    params = (symbol("x", "f32", 8), symbol("y", "f32", 8), out("z", "s32", 8))
    load = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y]; div.rn.f32 %f3, %f1, %f2;"
    reference, subject = (
        entry(f"{load} {more} cvt.rni.s32.f32 %r1, %f3; st.global.b32 [%z], %r1;", params)
        for more in ("", "add.f32 %f3, %f3, 0f41000000;")
    )
    verdict = equivalent(
        reference, subject, launch=launch_of(params, block=8), safety=False, seed=1,
        witness_dir=tmp_path,
    )  # fmt: skip
    witness = verdict.witness
    assert witness is not None
    assert np.count_nonzero(witness.inputs["y"]) == 1
    done = run_snippet(witness.scripts[0])
    shown = f"z[{witness.index[0]}]"
    assert done.stdout.splitlines() == [
        f"{shown} = {values[0]!r} in the {side}, in true formats"
        for side, values in (("reference", witness.reference), ("subject", witness.subject))
    ]
    assert (done.returncode, done.stderr) == (1, "")
    # a kernel that no engine runs is no difference
    ptx = tmp_path / Path(witness.scripts[0]).with_suffix(".subject.ptx").name
    ptx.write_text(subject.replace("st.global", "mov.u32 %r1, %clock; st.global"))
    failed = run_snippet(witness.scripts[0])
    assert failed.returncode == 2
    assert failed.stderr.startswith("subject: ")


# every kind of parameter

TABLE = known("t", "s32", [0, -3, 5])
PARAMS = (
    symbol("x", "f16", 32),
    Tensor("y", "bf16", (4, 8), "in"),
    TABLE,
    Scalar("n", "s32", -2),
    Scalar("a", "f32", None),
    out("z", "f32", 32),
)
BODY = (
    "ld.global.b16 %h1, [%x]; cvt.f32.f16 %f1, %h1; ld.param.f32 %f2, [a];"
    "mul.f32 %f3, %f1, %f2; st.global.f32 [%z], %f3;"
)


def subject_of(body: str = BODY, params: Any = PARAMS, **launch: Any) -> Subject:
    made = launch_of(params)
    more = {"dynamic_shared": 50000, **launch}
    return Subject(lower(parse(entry(body, params))), Launch(**{**vars(made), **more}))


def witness_of(**more: Any) -> Witness:
    x, y = np.zeros(32), np.zeros(32)
    x[3], x[9], y[17] = 1.5, -2, -0.25
    inputs = {"x": x, "y": y, "a": np.array([0.5])}
    return Witness("z", (3,), (0.75, 0.75), (3.0, 3.0), "guided", inputs, **more)


def test_program_has_every_parameter() -> None:
    side = subject_of()
    text = driver_program(witness_of(), side, side)
    for word in ("reference", "subject"):
        table = re.search(rf"{word}_params\[\] = {{\n(.*?)\n}};", text, re.S)
        assert table is not None
        rows = [" ".join(row.split()) for row in table[1].splitlines()]
        assert rows == [
            f"{{true, 32, 2, {word}_0, 2, 0}}, // x: f16",
            f"{{true, 32, 2, {word}_1, 1, 0}}, // y: bf16",
            f"{{true, 3, 4, {word}_2, 2, 0}}, // t: s32",
            "{false, 1, 4, nullptr, 0, 0xfffffffeull},",
            "{false, 1, 4, nullptr, 0, 0x3f000000ull},",
            "{true, 32, 4, nullptr, 0, 0}, // z: f32",
        ]
        # 1.5 and -2 in f16, -0.25 in bf16
        assert f"{word}_0[] = {{{{3, 0x3e00ull}}, {{9, 0xc000ull}}}};" in text
        assert f"{word}_1[] = {{{{17, 0xbe80ull}}}};" in text
        assert f"{word}_2[] = {{{{1, 0xfffffffdull}}, {{2, 0x5ull}}}};" in text
        # the entry, its launch, the element and its format
        assert f'static const Kernel {word} = {{"k", {word}_ptx, {word}_params, 6,' in text
        assert "{1, 1, 1}, {32, 1, 1}, 50000, 5, 3, {8, 23, 0, true}};" in text
        assert f'{word}_ptx[] = R"kcheck({side.kernel.module.span.source.text})kcheck"' in text
    assert text.count("z[3]") == 3
    assert "std::fabs(a - b) <= 1.125" in text
    for call in ("cuInit", "cuModuleLoadData", "cuMemcpyHtoD", "cuLaunchKernel", "cuMemcpyDtoH"):
        assert f"CHECK({call}(" in text


@pytest.mark.parametrize(
    ("change", "why"),
    [({"cluster": (2, 1, 1)}, "clusters"), ({"externs": {"f": "exp"}}, "external functions")],
)
def test_what_it_can_not_set_up(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Unwritable, match=why):
        driver_program(witness_of(), subject_of(), subject_of(**change))


# a driver of our own: the program runs without a GPU

DRIVER = r"""
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
typedef int CUresult; typedef int CUdevice; typedef void *CUcontext;
typedef const char *CUmodule; typedef const char *CUfunction; typedef uintptr_t CUdeviceptr;
enum { CUDA_SUCCESS = 0, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
static int cuGetErrorString(int, const char **s) { *s = "failed"; return 0; }
static int cuInit(int) { return 0; }
static int cuDeviceGet(int *, int) { return 0; }
static int cuDevicePrimaryCtxRetain(void **, int) { return 0; }
static int cuCtxSetCurrent(void *) { return 0; }
static int cuCtxSynchronize() { return 0; }
static int cuModuleLoadData(const char **m, const char *t) { *m = t; return 0; }
static int cuModuleGetFunction(const char **f, const char *m, const char *name) {
  *f = m; return std::strcmp(name, "k"); }
static int cuFuncSetAttribute(const char *, int a, int n) { return a != 8 || n != 50000; }
static int cuMemAlloc(uintptr_t *p, size_t n) { *p = (uintptr_t)std::malloc(n); return 0; }
static int cuMemcpyHtoD(uintptr_t p, const void *s, size_t n) {
  std::memcpy((void *)p, s, n); return 0; }
static int cuMemcpyDtoH(void *d, uintptr_t p, size_t n) {
  std::memcpy(d, (void *)p, n); return 0; }
// z[3] = x[3] (f16, 1.5) times a, doubled where the text says so; t[1] and n must be right
static int cuLaunchKernel(const char *f, unsigned gx, unsigned, unsigned, unsigned bx, unsigned,
                          unsigned, unsigned shared, void *, void **params, void *) {
  if (gx != 1 || bx != 32 || shared != 50000) return 1;
  const uint16_t *x = *(uint16_t **)params[0];
  const int32_t *t = *(int32_t **)params[2];
  float *z = *(float **)params[5];
  if (x[3] != 0x3e00 || x[9] != 0xc000 || x[4] || t[1] != -3 || *(int32_t *)params[3] != -2)
    return 1;
  z[3] = 1.5f * *(float *)params[4] * (std::strstr(f, "0f40800000") ? 4 : 1);
  return 0;
}
"""


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
@pytest.mark.parametrize("same", [False, True])
def test_program_runs_on_a_driver_of_our_own(tmp_path: Path, same: bool) -> None:
    (tmp_path / "cuda.h").write_text(DRIVER)
    four = BODY.replace("st.global", "mul.f32 %f3, %f3, 0f40800000; st.global")
    text = driver_program(witness_of(), subject_of(), subject_of(BODY if same else four))
    (tmp_path / "x.cpp").write_text(text)
    assert CXX is not None
    command = [CXX, "-std=c++14", "-I", str(tmp_path), "-o", "x", "x.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "x"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "z[3] = 0.75 in the reference (0.75 over the reals)",
        f"z[3] = {0.75 if same else 3} in the subject (3 over the reals)",
    ]
    assert done.returncode == (0 if same else 1)


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
def test_nvcc_compiles_it(tmp_path: Path) -> None:
    witness = verdict_in(tmp_path).witness
    assert witness is not None
    assert NVCC is not None
    command = [NVCC, "-c", "-Werror", "all-warnings", "-o", "x.o", witness.scripts[1]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


FORMATS = {
    "f32": [0.0, 1.5, -2.25, 1e-40, np.inf, np.nan],
    "f16": [0.0, 1.5, -2.25, 6e-8, np.inf, np.nan],
    "bf16": [0.0, 1.5, -2.25, 1e-40, -np.inf, np.nan],
    "f64": [0.1, -5e-324, np.inf, np.nan],
    "e4m3": [0.0, 1.5, -448, 2.0**-9, np.nan],
    "e5m2": [0.0, 1.5, -57344, 2.0**-16, np.inf, np.nan],
    "s8": [-128, 127], "u8": [255], "s32": [-(2**31), 7], "u64": [2**63], "s64": [-(2**62)],
}  # fmt: skip


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_decoding(tmp_path: Path) -> None:
    """The host's decoder on numbers of every format, against the patterns of the ieee engine."""
    (tmp_path / "cuda.h").write_text(DRIVER)
    wanted, lines = [], []
    for dtype, numbers in FORMATS.items():
        bits = Ieee({}).patterns(np.array(numbers), dtype)
        wanted += values(bits, dtype).astype(float).tolist()
        lines += [
            f'  std::printf("%.17g\\n", decode({int(b)}ull, {DTYPE_BYTES[dtype]}, '
            f"Format{{{_format(dtype)}}}));"
            for b in bits
        ]
    (tmp_path / "x.cpp").write_text("\n".join([_HEAD, "int main() {", *lines, "}"]))
    assert CXX is not None
    command = [CXX, "-std=c++14", "-w", "-I", str(tmp_path), "-o", "x", "x.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "x"], capture_output=True, text=True, check=True)
    assert np.array_equal([float(x) for x in done.stdout.split()], wanted, equal_nan=True)


def test_an_input_of_the_subject_alone(tmp_path: Path) -> None:
    """It keeps apart from the reference's of the same name, in the files too."""
    x, y, z = symbol("x", "f32", 32), symbol("y", "f32", 32), out("z", "f32", 32)
    body = "ld.global.f32 %f1, [%x]; ld.global.f32 %f2, [%y]; sub.f32 %f3, %f1, %f2;"
    ptx = entry(f"{body} st.global.f32 [%z], %f3;", (x, y, z))
    verdict = equivalent(
        ptx, ptx, launch=launch_of((x, y, z)), mapping={"x": "y", "y": "x"}, safety=False,
        seed=1, witness_dir=tmp_path,
    )  # fmt: skip
    witness = verdict.witness
    assert witness is not None
    done = run_snippet(witness.scripts[0])
    values = [float(line.split()[2]) for line in done.stdout.splitlines()]
    assert values == [witness.reference[0], witness.subject[0]]
    assert (done.returncode, done.stderr) == (1, "")
