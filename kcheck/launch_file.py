"""Reading and writing X.launch.yaml. The format is in the README; nothing unknown is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcheck.contents import Contents
from kcheck.launch import (
    DTYPE_BYTES,
    FLOATS,
    Launch,
    LaunchError,
    Param,
    Scalar,
    Tensor,
    TensorMap,
    row_major,
)
from kcheck.launch_promises import PROMISES, aliases, promise, promise_fields
from kcheck.yaml_reader import FILL, Reader, read_yaml

SUFFIX = ".launch.yaml"
ROLES = ("in", "out", "inout")

# Limits of every GPU so far (CUDA programming guide, compute capabilities)
GRID = (2**31 - 1, 65535, 65535)
BLOCK = (1024, 1024, 64)
BLOCK_THREADS = 1024
CLUSTER_CTAS = 16
SHARED_BYTES = 228 * 1024

# dtype of a buffer -> NumPy dtype that holds its `values:`; a format without one can't have any
VALUES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    **{f"s{w}": np.dtype(f"i{w // 8}") for w in (8, 16, 32, 64)},
    **{f"u{w}": np.dtype(f"u{w // 8}") for w in (8, 16, 32, 64)},
}
# formats that are stored in a wider NumPy dtype -> the low bits that must be zero
UNUSED_BITS = {"bf16": 16, "tf32": 13}
# format -> its largest finite number
LARGEST = {
    "f64": float(np.finfo(np.float64).max),
    "f32": float(np.finfo(np.float32).max),
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "tf32": (2 - 2.0**-10) * 2.0**127,
    "e4m3": 448.0,
    "e5m2": 57344.0,
}

TILED = ("dims", "strides", "box", "element_strides")
IM2COL = ("dims", "strides", "element_strides", "lower_corner", "upper_corner")
IM2COL_COUNTS = ("pixels_per_column", "channels_per_pixel")
SWIZZLES = ("none", "32B", "64B", "128B")
INTERLEAVES = ("0", "none", "16B", "32B")
FILLS = ("zero", "nan")


def find_launch(ptx: Path) -> Path | None:
    """The launch file beside `X.ptx`: `X.launch.yaml`, or None if there is none."""
    beside = ptx.with_name(ptx.stem + SUFFIX)
    return beside if beside.exists() else None


def load_launch(path: str | Path) -> Launch:
    """Read a launch file. LaunchError if it can't be read or isn't a launch."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LaunchError(f"{path}: not a launch file: not UTF-8 text") from error
    except OSError as error:
        raise LaunchError(f"{path}: can't read the launch file: {error.strerror}") from error
    return parse_launch(text, path)


def parse_launch(text: str, path: str | Path = "<launch>") -> Launch:
    """The launch that a YAML text describes.

    `path` is named in errors, and a `values: file.npy` is looked for beside it. LaunchError
    otherwise: one line with file, line, key, what was found and what is expected.
    """
    root = read_yaml(text, str(path))
    unfilled = [reader.key for reader in root.walk() if reader.says(FILL)]
    if unfilled:
        raise LaunchError(f"{path}: still to fill in ({FILL}): {', '.join(unfilled)}")
    root.keys(
        required=("kernel", "grid", "block", "dynamic_shared", "params"),
        optional=("cluster", "externs", "alias"),
    )
    block = _extents(root["block"], BLOCK)
    if block[0] * block[1] * block[2] > BLOCK_THREADS:
        raise root["block"].error(
            f"{block[0] * block[1] * block[2]} threads", f"at most {BLOCK_THREADS} in a block"
        )
    grid = _extents(root["grid"], GRID)
    params = tuple(_param(reader, Path(path).parent) for reader in root["params"].items())
    _distinct(root["params"], params)
    return Launch(
        kernel=root["kernel"].string(),
        grid=grid,
        block=block,
        params=params,
        cluster=_cluster(root, grid),
        dynamic_shared=root["dynamic_shared"].integer(0, SHARED_BYTES),
        externs={k: v.string() for k, v in root["externs"].pairs()} if "externs" in root else {},
        path=str(path),
        alias=aliases(root["alias"], params) if "alias" in root else (),
    )


def _extents(reader: Reader, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    items = reader.items()
    if len(items) != 3:
        raise reader.error(f"{len(items)} numbers", "3 (x, y, z)")
    x, y, z = (item.integer(1, limit) for item, limit in zip(items, limits, strict=True))
    return x, y, z


def _cluster(root: Reader, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    if "cluster" not in root:
        return (1, 1, 1)
    cluster = _extents(root["cluster"], (CLUSTER_CTAS,) * 3)
    if cluster[0] * cluster[1] * cluster[2] > CLUSTER_CTAS:
        raise root["cluster"].error(str(list(cluster)), f"at most {CLUSTER_CTAS} CTAs")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise root["cluster"].error(str(list(cluster)), f"a divisor of the grid {list(grid)}")
    return cluster


def _distinct(reader: Reader, params: tuple[Param, ...]) -> None:
    """One name, one parameter; several tensormaps may describe one buffer."""
    names: set[str] = set()
    buffers: dict[str, Tensor] = {}
    for item, param in zip(reader.items(), params, strict=True):
        if param.name in names or (isinstance(param, Scalar) and param.name in buffers):
            raise item["name"].error(f"`{param.name}` again", "distinct names")
        names.add(param.name)
        if isinstance(param, Scalar):
            continue
        tensor = param.buffer if isinstance(param, TensorMap) else param
        known = buffers.setdefault(tensor.name, tensor)
        if _outline(known) != _outline(tensor):
            raise item.error(
                f"buffer `{tensor.name}` once more, with other properties", "the same each time"
            )


def _outline(tensor: Tensor) -> tuple[object, ...]:
    return (
        tensor.dtype,
        tensor.shape,
        tensor.role,
        tensor.strides,
        tensor.init,
        tensor.compare,
        tensor.promise,
    )


def _param(reader: Reader, folder: Path) -> Param:
    role = reader["role"].choice((*ROLES, "scalar", "tensormap"))
    if role == "scalar":
        return _scalar(reader)
    if role == "tensormap":
        return _tensormap(reader, folder)
    return _tensor(reader, folder)


def _scalar(reader: Reader) -> Scalar:
    reader.keys(required=("name", "dtype", "role", "value"), optional=(*PROMISES, "divisible"))
    dtype = reader["dtype"].choice(tuple(DTYPE_BYTES))
    value = reader["value"]
    number = None if value.says("symbolic") else _number(value, dtype)
    kept = promise(reader, dtype, () if number is None else (number,))
    return Scalar(reader["name"].string(), dtype, number, kept)


def _number(reader: Reader, dtype: str) -> int | float:
    if dtype in FLOATS:
        value = reader.real()
        if LARGEST[dtype] < abs(value) < np.inf:
            raise reader.error(str(value), f"a number that {dtype} can hold")
        return value
    bits = 8 * DTYPE_BYTES[dtype]
    if dtype.startswith("s"):
        return reader.integer(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return reader.integer(0, 2**bits - 1)


def _tensor(reader: Reader, folder: Path) -> Tensor:
    reader.keys(
        required=("name", "dtype", "shape", "role"),
        optional=("strides", "init", "values", "compare", *PROMISES),
    )
    name = reader["name"].string()
    role = reader["role"].choice(ROLES)
    dtype = reader["dtype"].choice(tuple(DTYPE_BYTES))
    shape = reader["shape"].integers(0)
    strides = _strides(reader, shape) if "strides" in reader else None
    if "init" in reader and role != "out":
        raise reader["init"].error(f"role {role}", "an init only for role out")
    if "compare" in reader and role == "in":
        raise reader["compare"].error("role in", "a compare only for role out or inout")
    if "values" in reader and role == "out":
        raise reader["values"].error("role out", "values only for role in or inout")
    if "values" in reader and strides not in (None, row_major(shape)):
        raise reader["values"].error("strides that aren't dense", "values of a dense tensor")
    for key in PROMISES:
        if key in reader and role == "out":
            raise reader[key].error("role out", f"a {key} only for role in or inout")
    values = _values(reader["values"], dtype, shape, folder) if "values" in reader else None
    return Tensor(
        name=name,
        dtype=dtype,
        shape=shape,
        role=role,
        strides=strides,
        init=reader["init"].choice(("undef", "zero")) if "init" in reader else "undef",
        values=values,
        compare=reader["compare"].boolean() if "compare" in reader else True,
        promise=promise(reader, dtype, () if values is None else values),
    )


def _strides(reader: Reader, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = reader["strides"].integers(0)
    if len(strides) != len(shape):
        raise reader["strides"].error(f"{len(strides)} strides", f"{len(shape)}, as in shape")
    return strides


def _values(reader: Reader, dtype: str, shape: tuple[int, ...], folder: Path) -> NDArray[Any]:
    """Known contents, flat and row-major, in the NumPy dtype of `VALUES`."""
    if dtype not in VALUES:
        raise reader.error(f"dtype {dtype}", f"values only for {', '.join(VALUES)}")
    array = (
        np.array([_number(item, dtype) for item in reader.items()], dtype=VALUES[dtype])
        if reader.is_list()
        else _load_npy(reader, folder / reader.string(), VALUES[dtype])
    )
    count = int(np.prod(shape, dtype=np.int64))
    if array.shape not in ((count,), shape):
        raise reader.error(f"{array.size} values, shape {list(array.shape)}", f"{list(shape)}")
    array = array.reshape(-1)
    low = UNUSED_BITS.get(dtype, 0)
    if low and (array.view(np.uint32) & np.uint32((1 << low) - 1)).any():
        raise reader.error("a value between two of the format", f"values that {dtype} can hold")
    array.setflags(write=False)
    return array


def _load_npy(reader: Reader, file: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise reader.error(f"{file}: {error}", "a list or a .npy file") from error
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        found = getattr(array, "dtype", "an archive")
        raise reader.error(f"{file} of dtype {found}", f"dtype {dtype}")
    return array


def _tensormap(reader: Reader, folder: Path) -> TensorMap:
    reader.keys(required=("name", "role", "tensormap", "buffer"))
    buffer = _tensor(reader["buffer"], folder)
    fields = reader["tensormap"]
    of = fields["of"].string()
    if of != buffer.name:
        raise fields["of"].error(f"`{of}`", f"the name of its buffer, `{buffer.name}`")
    return TensorMap(reader["name"].string(), _descriptor(fields), buffer)


def _descriptor(fields: Reader) -> dict[str, Any]:
    """The fields of a CUtensorMap (CUDA driver API, cuTensorMapEncodeTiled and -Im2col)."""
    im2col = "mode" in fields and fields["mode"].choice(("tiled", "im2col")) == "im2col"
    lists, counts = (IM2COL, IM2COL_COUNTS) if im2col else (TILED, ())
    fields.keys(
        required=("of", *lists, *counts, "interleave", "swizzle", "fill"), optional=("mode",)
    )
    found: dict[str, Any] = {"of": fields["of"].string(), "mode": "im2col" if im2col else "tiled"}
    rank = len(fields["dims"].items())
    if not 1 <= rank <= 5:
        raise fields["dims"].error(f"{rank} dimensions", "1 to 5")
    for key in lists:
        corner = key.endswith("corner")
        numbers = fields[key].integers(-(2**31) if corner else 1)
        expected = rank - 2 if corner else rank
        if len(numbers) != expected:
            raise fields[key].error(f"{len(numbers)} numbers", f"{expected} ({rank} dims)")
        found[key] = list(numbers)
    for key in counts:
        found[key] = fields[key].integer(1, 1024)
    interleave = fields["interleave"].choice(INTERLEAVES)
    found["interleave"] = 0 if interleave in ("0", "none") else interleave
    found["swizzle"] = fields["swizzle"].choice(SWIZZLES)
    found["fill"] = fields["fill"].choice(FILLS)
    return found


def dump_launch(launch: Launch) -> str:
    """The YAML text that `parse_launch` reads back as the same launch (`path` aside)."""
    lines = [f"kernel: {_word(launch.kernel)}"]
    lines += [f"grid: {list(launch.grid)}", f"block: {list(launch.block)}"]
    if launch.cluster != (1, 1, 1):
        lines.append(f"cluster: {list(launch.cluster)}")
    lines.append(f"dynamic_shared: {launch.dynamic_shared}")
    lines.append("params:" if launch.params else "params: []")
    lines += [f"- {_flow(_param_fields(param))}" for param in launch.params]
    if launch.alias:
        lines.append(f"alias: {_flow(launch.alias)}")
    if launch.externs:
        lines.append(f"externs: {_flow(dict(launch.externs))}")
    return "\n".join(lines) + "\n"


def with_fields(
    launch: Launch, given: Mapping[str, Mapping[str, Any]], where: str = "inputs"
) -> Launch:
    """The launch with further keys of its parameters, as they would stand in its file.

    `given`: name -> key (`values`, `range`, `positive`, ...) -> value.
    LaunchError for a name that there is not, a key that says more than what is known of contents,
    and as `parse_launch`, with `where` for the file.
    """
    names = [param.name for param in launch.params]
    for name in given:
        if name not in names:
            raise LaunchError(f"{where}: `{name}` is no parameter; there are {', '.join(names)}")
    params = []
    for param in launch.params:
        more = _known(param, given.get(param.name, {}), f"{where}: {param.name}")
        text = _flow(_param_fields(param) | more)
        params.append(_param(read_yaml(text, f"{where}: {param.name}"), Path()) if more else param)
    return replace(launch, params=tuple(params))


def _known(param: Param, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What is known of a parameter. LaunchError for keys that would make it another one."""
    scalar = isinstance(param, Scalar)
    allowed = ("value", *PROMISES, "divisible") if scalar else ("values", *PROMISES)
    for key in given:
        if key not in allowed:
            expected = ", ".join(allowed)
            raise LaunchError(f"{where}: {key}: found an unknown key; expected {expected}")
    fixed = param.value if isinstance(param, Scalar) else None
    if fixed is not None and given.get("value", fixed) != fixed:
        raise LaunchError(f"{where}: value: found {given['value']}; expected {fixed}, as launched")
    values = given.get("values")
    if not isinstance(values, Contents) or not isinstance(param, Tensor):
        return dict(given)
    dtype = VALUES.get(param.dtype)
    if dtype is not None and values.dtype != dtype.name:
        found = f"{values.path} of dtype {values.dtype}"
        raise LaunchError(f"{where}: values: found {found}; expected dtype {dtype}")
    if values.shape not in ((len(values.numbers),), param.shape):
        shapes = f"found shape {list(values.shape)}; expected {list(param.shape)}"
        raise LaunchError(f"{where}: values: {shapes}")
    return dict(given) | {"values": list(values.numbers)}


def _param_fields(param: Param) -> dict[str, Any]:
    if isinstance(param, Scalar):
        value = "symbolic" if param.value is None else param.value
        fields = {"name": param.name, "dtype": param.dtype, "role": "scalar", "value": value}
        return fields | promise_fields(param.promise)
    if isinstance(param, TensorMap):
        buffer = _tensor_fields(param.buffer)
        return {
            "name": param.name,
            "role": "tensormap",
            "tensormap": param.fields,
            "buffer": buffer,
        }
    return _tensor_fields(param)


def _tensor_fields(tensor: Tensor) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "role": tensor.role,
    }
    if tensor.strides is not None:
        fields["strides"] = list(tensor.strides)
    if tensor.init != "undef":
        fields["init"] = tensor.init
    if tensor.values is not None:
        fields["values"] = tensor.values.tolist()
    if not tensor.compare:
        fields["compare"] = False
    return fields | promise_fields(tensor.promise)


def _flow(value: Any) -> str:
    """A value in YAML's flow style, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).replace("inf", ".inf")
    return str(value) if isinstance(value, int) else _word(str(value))


def _word(text: str) -> str:
    """A word, quoted where YAML or this format would read it as something else."""
    plain = re.fullmatch(r"[A-Za-z_$][\w$.]*|[0-9]+B?", text) and text != FILL
    return text if plain else json.dumps(text)
