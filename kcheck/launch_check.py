"""Does a launch fit its kernel, and do two launches fit one another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.launch import DTYPE_BYTES, FLOATS, Launch, LaunchError, Param, Scalar, Tensor, TensorMap
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Variable
from kcheck.verdict import UsageError

POINTER_BYTES = 8
TENSORMAP_BYTES = 128


def check_launch(launch: Launch, kernel: Kernel) -> None:
    """LaunchError (one line: file, key, found, expected) unless the launch fits the kernel.

    Source: PTX ISA 9.0, 11.4 (performance-tuning directives) and 11.7 (cluster directives).
    """
    if launch.kernel != kernel.name:
        raise _error(launch, "kernel", f"`{launch.kernel}`", f"the PTX's entry, `{kernel.name}`")
    if len(launch.params) != len(kernel.params):
        raise _error(
            launch,
            "params",
            f"{len(launch.params)} parameters",
            f"{len(kernel.params)}, as `{kernel.name}` declares",
        )
    for i, (param, variable) in enumerate(zip(launch.params, kernel.params, strict=True)):
        _check_param(launch, f"params[{i}]", param, variable)
    _check_alias(launch)
    _check_block(launch, kernel.tuning)
    _check_cluster(launch, kernel.tuning)


def _error(launch: Launch, key: str, found: str, expected: str) -> LaunchError:
    return LaunchError(f"{launch.path}: {key}: found {found}; expected {expected}")


def _check_param(launch: Launch, key: str, param: Param, variable: Variable) -> None:
    what, nbytes = {
        Tensor: ("a buffer (64-bit pointer)", POINTER_BYTES),
        TensorMap: ("a tensormap (128-byte array)", TENSORMAP_BYTES),
    }.get(type(param), ("", 0))
    if isinstance(param, Scalar):
        nbytes = DTYPE_BYTES[param.dtype]
        what = f"a scalar {param.dtype} ({8 * nbytes} bits)"
    array = isinstance(param, TensorMap)
    if variable.nbytes != nbytes or bool(variable.shape) != array:
        extents = "".join(f"[{n}]" for n in variable.shape)
        declared = f".{variable.type} {variable.name}{extents}"
        raise _error(launch, f"{key} (`{param.name}`)", what, f"what fits .param {declared}")


def _check_alias(launch: Launch) -> None:
    """A launch file is checked when it is read; a Launch may be made by hand."""
    tensors = {p.name: p for p in launch.params if isinstance(p, Tensor)}
    for group in launch.alias:
        known = [tensors[name] for name in group if name in tensors]
        outlines = {(t.dtype, t.shape, t.strides) for t in known}
        if len(known) < len(group) or len(outlines) > 1:
            expected = "buffers of one dtype, shape and strides"
            raise _error(launch, "alias", ", ".join(group), expected)


def _extents(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _check_block(launch: Launch, tuning: Mapping[str, tuple[int, ...]]) -> None:
    block = list(launch.block)
    if "reqntid" in tuning:
        required = list(_extents(tuning["reqntid"]))
        if block != required:
            raise _error(launch, "block", str(block), f"{required} (.reqntid)")
    if "maxntid" in tuning:
        # only the product is bounded, not each dimension
        most = int(np.prod(tuning["maxntid"], dtype=np.int64))
        if launch.threads > most:
            found = f"{block}, {launch.threads} threads"
            raise _error(launch, "block", found, f"at most {most} threads (.maxntid)")


def _check_cluster(launch: Launch, tuning: Mapping[str, tuple[int, ...]]) -> None:
    cluster = list(launch.cluster)
    if "reqnctapercluster" in tuning:
        required = list(_extents(tuning["reqnctapercluster"]))
        if cluster != required:
            raise _error(launch, "cluster", str(cluster), f"{required} (.reqnctapercluster)")
    if "maxclusterrank" in tuning:
        most = tuning["maxclusterrank"][0]
        if int(np.prod(cluster)) > most:
            raise _error(launch, "cluster", str(cluster), f"at most {most} CTAs (.maxclusterrank)")


def match_buffers(
    reference: Launch, subject: Launch, mapping: Mapping[str, str] | None = None
) -> list[tuple[Tensor, Tensor]]:
    """The buffers that both sides have, in the reference's order, as (reference, subject).

    `mapping`: reference name -> subject name, where they differ; it renames scalars too. Pairs
    agree in shape, strides, role and `values`, and in dtype unless both are floats. Outputs of a
    pair are compared unless one side says `compare: false`. A buffer without elements counts as
    absent.
    UsageError (one line) where names, outputs or properties do not fit.
    """
    names = _pair_names(reference, subject, mapping or {})
    _match_scalars(scalar_pairs(reference, subject, mapping))
    pairs = []
    for name, tensor in reference.buffers.items():
        other = subject.buffers.get(names.get(name, ""))
        if other is not None and bool(tensor.elements) == bool(other.elements):
            _match_pair(tensor, other)
            pairs.append((tensor, other))
    for side, tensor in _one_sided(reference, subject, pairs):
        if tensor.role != "in" and tensor.compare:
            raise UsageError(
                f"only the {side} has an output `{tensor.name}`: give --map REFERENCE=SUBJECT if "
                "it has another name on the other side, or set compare: false in its launch file"
            )
    return pairs


def match_ledger(
    reference: Launch,
    subject: Launch,
    pairs: list[tuple[Tensor, Tensor]],
    scalars: list[tuple[Scalar, Scalar]],
) -> list[str]:
    """The assumptions under which `match_buffers` paired: one-sided buffers, formats, compare."""
    notes = [
        f"{tensor.role} `{tensor.name}` only in the {side}"
        for side, tensor in _one_sided(reference, subject, pairs)
    ]
    for param, other in scalars:
        if param.value != other.value:
            notes.append(f"`{param.name}` is {param.value}, in the subject {other.value}")
    for a, b in pairs:
        if a.name != b.name:
            notes.append(f"`{a.name}` is the subject's `{b.name}` (--map)")
        if a.dtype != b.dtype:
            notes.append(f"`{a.name}` is {a.dtype} in the reference, {b.dtype} in the subject")
        if a.role != "in" and not (a.compare and b.compare) and a.elements:
            notes.append(f"`{a.name}` not compared (compare: false)")
    return notes


def _one_sided(
    reference: Launch, subject: Launch, pairs: list[tuple[Tensor, Tensor]]
) -> Iterator[tuple[str, Tensor]]:
    """(side, buffer) that is in no pair; a buffer of no elements isn't counted."""
    for side, launch, column in (("reference", reference, 0), ("subject", subject, 1)):
        paired = {pair[column].name for pair in pairs}
        for name, tensor in launch.buffers.items():
            if name not in paired and tensor.elements:
                yield side, tensor


def _names(launch: Launch) -> dict[str, None]:
    scalars = (p.name for p in launch.params if isinstance(p, Scalar))
    return dict.fromkeys([*launch.buffers, *scalars])


def _pair_names(reference: Launch, subject: Launch, mapping: Mapping[str, str]) -> dict[str, str]:
    """Reference name -> subject name."""
    ours, theirs = _names(reference), _names(subject)
    for a, b in mapping.items():
        for name, known, side in ((a, ours, "reference"), (b, theirs, "subject")):
            if name not in known:
                raise UsageError(
                    f"--map {a}={b}: the {side} has no parameter `{name}`; "
                    f"it has {', '.join(known) or 'none'}"
                )
    taken = set(mapping.values())
    if len(taken) < len(mapping):
        raise UsageError("--map: two reference names for one name of the subject")
    same = {n: n for n in ours if n in theirs and n not in mapping and n not in taken}
    return {**same, **mapping}


def scalar_pairs(
    reference: Launch, subject: Launch, mapping: Mapping[str, str] | None = None
) -> list[tuple[Scalar, Scalar]]:
    """The scalars that both sides have, by name or `mapping`, as (reference, subject)."""
    names = _pair_names(reference, subject, mapping or {})
    theirs = {p.name: p for p in subject.params if isinstance(p, Scalar)}
    ours = [p for p in reference.params if isinstance(p, Scalar)]
    return [(p, theirs[names[p.name]]) for p in ours if names.get(p.name) in theirs]


def _match_scalars(pairs: list[tuple[Scalar, Scalar]]) -> None:
    for param, other in pairs:
        if (param.value is None) != (other.value is None):
            raise _differ(param.name, other.name, "value", param.value, other.value)
        if not _same_dtype(param.dtype, other.dtype):
            raise _differ(param.name, other.name, "dtype", param.dtype, other.dtype)


def _match_pair(a: Tensor, b: Tensor) -> None:
    for key, ours, theirs in (
        ("shape", list(a.shape), list(b.shape)),
        ("strides", a.strides, b.strides),
        ("role", a.role, b.role),
        ("init", a.init, b.init),
    ):
        if ours != theirs:
            raise _differ(a.name, b.name, key, ours, theirs)
    if not _same_dtype(a.dtype, b.dtype):
        raise _differ(a.name, b.name, "dtype", a.dtype, b.dtype)
    if not _same_values(a.values, b.values):
        raise UsageError(f"`{a.name}`: values: must be the same on both sides (or on neither)")


def _same_dtype(a: str, b: str) -> bool:
    return a == b or (a in FLOATS and b in FLOATS)


def _same_values(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _differ(a: str, b: str, key: str, ours: object, theirs: object) -> UsageError:
    name = f"`{a}`" if a == b else f"`{a}` = `{b}`"
    shown = ["symbolic" if key == "value" and v is None else v for v in (ours, theirs)]
    return UsageError(
        f"{name}: {key} {shown[0]} in the reference, {shown[1]} in the subject; they must be the "
        "same: correct a launch file, or pair other names with --map REFERENCE=SUBJECT"
    )
