"""A CUDA host program that runs two kernels on one input and compares one element.

It needs the driver API only (CUDA Driver API reference: Module Management, Execution Control).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kcheck.canon.ieee.engine import Ieee
from kcheck.canon.ieee.formats import FORMATS
from kcheck.launch import DTYPE_BYTES, FLOATS, Scalar, Tensor, TensorMap
from kcheck.verdict import Witness
from kcheck.verdict import element as shown
from kcheck.witness import Subject

SIDES = ("reference", "subject")


class Unwritable(Exception):
    """The launch needs what the program can't set up; the message says what."""


def driver_program(witness: Witness, reference: Subject, subject: Subject) -> str:
    """The text of a `.cu` file. Unwritable for tensor maps, clusters and external functions.

    The program exits with 1 if the two elements differ by more than half of what they differ by
    over the reals (rounding is no difference), with 0 if not, with 2 where CUDA fails.
    """
    name = shown(witness.buffer, witness.index)
    parts = [
        f"// {name} of two kernels on one input; written by kcheck.\n"
        "// nvcc -o witness THIS_FILE -lcuda && ./witness\n"
        "// Exits 1 if the kernels differ there, 0 if not, 2 if CUDA fails.\n",
        _HEAD,
    ]
    for word, side in zip(SIDES, (reference, subject), strict=True):
        parts.append(_side(word, side, witness))
    values = [_number(_middle(ends)) for ends in (witness.reference, witness.subject)]
    main = _MAIN.replace("@NAME@", _quoted(name)[1:-1])
    main = main.replace("@TOLERANCE@", repr(witness.gap / 2))
    return "\n".join([*parts, main.replace("@A@", values[0]).replace("@B@", values[1])])


def _side(word: str, side: Subject, witness: Witness) -> str:
    """The data of one kernel: its PTX, its parameters, its launch."""
    launch = side.launch
    if launch.externs:
        raise Unwritable("external functions")
    if launch.cluster != (1, 1, 1):
        raise Unwritable("clusters")
    text = side.kernel.module.span.source.text
    if ')kcheck"' in text:
        raise Unwritable("a PTX text that ends the string it stands in")
    out = [f'static const char {word}_ptx[] = R"kcheck({text})kcheck";']
    rows, output = [], -1
    for i, param in enumerate(launch.params):
        if isinstance(param, TensorMap):
            raise Unwritable("tensor maps")
        width = DTYPE_BYTES[param.dtype]
        bits = _patterns(param, witness.inputs.get(param.name))
        if isinstance(param, Scalar):
            rows.append(f"{{false, 1, {width}, nullptr, 0, {_hex(int(bits[0]))}}}")
            continue
        if param.name == witness.buffer:
            output = i
        used = np.flatnonzero(bits)
        data = "nullptr"
        if used.size:
            data = f"{word}_{i}"
            entries = ", ".join(f"{{{at}, {_hex(int(bits[at]))}}}" for at in used.tolist())
            out.append(f"static const Entry {data}[] = {{{entries}}};")
        rows.append(f"{{true, {param.elements}, {width}, {data}, {used.size}, 0}}")
        rows[-1] += f",  // {_quoted(param.name)[1:-1]}: {param.dtype}"
    rows = [row if "//" in row else f"{row}," for row in rows]
    tensor = launch.buffers[witness.buffer]
    out.append(f"static const Param {word}_params[] = {{")
    out += [f"    {row}" for row in rows]
    out += [
        "};",
        f"static const Kernel {word} = {{{_quoted(side.kernel.name)}, {word}_ptx, {word}_params, "
        f"{len(rows)},",
        f"    {{{', '.join(map(str, launch.grid))}}}, {{{', '.join(map(str, launch.block))}}}, "
        f"{launch.dynamic_shared}, {output}, {tensor.flat(witness.index)}, "
        f"{{{_format(tensor.dtype)}}}}};",
        "",
    ]
    return "\n".join(out)


def _patterns(param: Tensor | Scalar, given: Any) -> Any:
    """The bits of all elements (zeros for what the host clears or leaves alone)."""
    plain = Ieee({})
    if isinstance(param, Scalar):
        value = given if param.value is None else [param.value]
        values: Any = np.asarray([0] if value is None else value)
    elif param.values is not None:
        values = np.asarray(param.values).reshape(-1)
    elif given is not None and param.role != "out":
        values = np.asarray(given).reshape(-1)
    else:
        values = np.zeros(0)
    return plain.patterns(values, param.dtype)


def _format(dtype: str) -> str:
    """Bits of the exponent (0: an integer) and of the fraction, unused low bits, infinities or
    sign."""
    if dtype in FLOATS:
        f = FORMATS[dtype]
        return f"{f.ebits}, {f.fbits}, {f.unused}, {str(f.infinite).lower()}"
    return f"0, 0, 0, {str(dtype[0] == 's').lower()}"


def _hex(bits: int) -> str:
    return f"{bits:#x}ull"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _number(value: float) -> str:
    return repr(value) if np.isfinite(value) else ("HUGE_VAL" if value > 0 else "-HUGE_VAL")


def _middle(ends: tuple[float, float]) -> float:
    low, high = ends
    return low / 2 + high / 2


_HEAD = r"""
#include <cuda.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

typedef unsigned long long Word;

// an element that is not 0, as bits
struct Entry {
  Word at, bits;
};

// a buffer of `count` elements of `width` bytes, or a scalar
struct Param {
  bool buffer;
  Word count;
  int width;
  const Entry *entries;
  Word entry_count;
  Word scalar;
};

// ebits 0: an integer, and then `special` says that it is signed; else that there are infinities
struct Format {
  int ebits, fbits, unused;
  bool special;
};

struct Kernel {
  const char *name, *ptx;
  const Param *params;
  int param_count;
  unsigned grid[3], block[3], shared;
  int output;    // the parameter and the element that are compared
  Word element;
  Format format;
};

static void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  const char *text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "%s: %s\n", call, text ? text : "unknown error");
  std::exit(2);
}
#define CHECK(call) check(call, #call)

static double decode(Word bits, int width, const Format &f) {
  if (!f.ebits) {
    if (f.special && width < 8 && bits >> (8 * width - 1)) bits |= ~Word(0) << 8 * width;
    return f.special ? double((long long)bits) : double(bits);
  }
  bits >>= f.unused;
  const Word top = (Word(1) << f.ebits) - 1, ones = (Word(1) << f.fbits) - 1;
  const Word fraction = bits & ones, exponent = bits >> f.fbits & top;
  const double sign = bits >> (f.fbits + f.ebits) & 1 ? -1 : 1;
  if (exponent == top && f.special) return fraction ? NAN : sign * HUGE_VAL;
  if (exponent == top && fraction == ones) return NAN;
  const int bias = int(top >> 1), least = exponent ? int(exponent) : 1;
  const double size = double(fraction + (exponent ? ones + 1 : 0));
  return sign * std::ldexp(size, least - bias - f.fbits);
}

static double run(const Kernel &k) {
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, k.ptx));
  CHECK(cuModuleGetFunction(&function, module, k.name));
  if (k.shared > 48 * 1024)
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k.shared));
  std::vector<Word> values(k.param_count);  // little endian: a narrow scalar comes first
  std::vector<void *> pointers(k.param_count);
  for (int i = 0; i < k.param_count; ++i) {
    const Param &p = k.params[i];
    pointers[i] = &values[i];
    values[i] = p.scalar;
    if (!p.buffer) continue;
    std::vector<unsigned char> bytes(p.count * p.width + 1, 0);
    for (Word e = 0; e < p.entry_count; ++e)
      std::memcpy(&bytes[p.entries[e].at * p.width], &p.entries[e].bits, p.width);
    CUdeviceptr device;
    CHECK(cuMemAlloc(&device, bytes.size()));
    CHECK(cuMemcpyHtoD(device, bytes.data(), bytes.size()));
    values[i] = device;
  }
  CHECK(cuLaunchKernel(function, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1],
                       k.block[2], k.shared, nullptr, pointers.data(), nullptr));
  CHECK(cuCtxSynchronize());
  const int width = k.params[k.output].width;
  Word bits = 0;
  CHECK(cuMemcpyDtoH(&bits, CUdeviceptr(values[k.output]) + k.element * width, width));
  return decode(bits, width, k.format);
}
"""

_MAIN = r"""int main() {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  const double a = run(reference), b = run(subject);
  std::printf("%s = %.9g in the reference (%.9g over the reals)\n", "@NAME@", a, @A@);
  std::printf("%s = %.9g in the subject (%.9g over the reals)\n", "@NAME@", b, @B@);
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return !(std::fabs(a - b) <= @TOLERANCE@);
}
"""
