"""The launch of a lowered kernel, from the attributes of its device function."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from kcheck.launch import Launch, LaunchError, Param, Scalar, Tensor, row_major
from kcheck.launch_file import with_fields
from kcheck.passes.tilelang.installed import tvm
from kcheck.passes.tilelang.request import Request, Unsupported
from kcheck.verdict import UsageError

# element types of TIR -> of a launch
DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3": "e4m3",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "bool": "u8",
    **{f"int{w}": f"s{w}" for w in (8, 16, 32, 64)},
    **{f"uint{w}": f"u{w}" for w in (8, 16, 32, 64)},
}
# parameters that no buffer of the prim_func is: what they are, and what to do
_HANDLES = {
    "tensormap": (
        "a tensor map (TMA)",
        'pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}',
    ),
    "workspace": (
        "a buffer that is no parameter of the prim_func",
        "the buffer as a parameter (T.Tensor), instead of an allocation of global memory",
    ),
}
READ = 1  # of the mask of tvm_access_ptr


def launch_of(request: Request, device_mod: Any) -> Launch:
    """The launch of the one kernel of a module. Unsupported; UsageError for wrong `inputs`.

    Parameters of a device function are sorted by name: they are matched with the prim_func's
    buffers by the variable of the data, which is not always the name of the buffer.
    """
    functions = [f for _, f in device_mod.functions.items() if "thread_extent" in (f.attrs or {})]
    if len(functions) != 1:
        names = ", ".join(str(f.attrs["global_symbol"]) for f in functions)
        raise Unsupported(
            "several-kernels",
            f"the prim_func has {len(functions)} kernels ({names}); one is checked at a time",
            "a prim_func for each T.Kernel, with what one hands to the next as a parameter",
        )
    function = functions[0]
    extents = {str(k): _number(request, v) for k, v in function.attrs["thread_extent"].items()}
    grid, block = (
        tuple(extents.get(f"{word}.{axis}", 1) for axis in "xyz")
        for word in ("blockIdx", "threadIdx")
    )
    cluster = tuple(int(n) for n in function.attrs.get("cluster_dims", (1, 1, 1)))
    launch = Launch(
        str(function.attrs["global_symbol"]),
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        tuple(_params(request, function)),
        cluster=(cluster[0], cluster[1], cluster[2]),
        dynamic_shared=_number(request, function.attrs.get("dyn_shared_memory_buf", 0)),
        path=request.name,
    )
    try:
        return with_fields(launch, request.inputs, f"{request.name}: inputs")
    except LaunchError as error:
        raise UsageError(str(error)) from error


def parameter_names(func: Any) -> list[str]:
    """The buffers of a prim_func, in the order of its parameters."""
    return [str(func.buffer_map[p].name) for p in func.params if p in func.buffer_map]


def unlaunched(request: Request, inputs: Set[str]) -> list[Tensor]:
    """The buffers of a prim_func that was not lowered: `inputs`, and the others as outputs."""
    func = request.func
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    return [_tensor(request, b, "in" if str(b.name) in inputs else "out") for b in buffers]


def _number(request: Request, value: Any) -> int:
    """An extent as a number. Unsupported where it is symbolic and no shape is given for it."""
    if not hasattr(value, "dtype"):
        return int(value)
    functor, expr = tvm().tirx.stmt_functor, tvm().tirx
    known: dict[Any, Any] = {}
    unknown: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, expr.Var):
            if node.name in request.shapes:
                known[node] = expr.IntImm(node.dtype, request.shapes[node.name])
            else:
                unknown.append(str(node.name))

    functor.post_order_visit(value, visit)
    if unknown:
        names = ", ".join(dict.fromkeys(unknown))
        given = ", ".join(f'"{name}": 128' for name in dict.fromkeys(unknown))
        raise Unsupported(
            "dynamic-shape",
            f"the shape depends on {names}, which have no number here",
            f"Validate(shapes={{{given}}}), once for each shape that matters",
        )
    return int(tvm().arith.Analyzer().simplify(functor.substitute(value, known)))


def _params(request: Request, function: Any) -> list[Param]:
    func = request.func
    buffers = {
        str(func.buffer_map[p].data.name): (i, func.buffer_map[p])
        for i, p in enumerate(func.params)
        if p in func.buffer_map
    }
    only_read = {int(i) for i in function.attrs.get("tl.readonly_param_indices", ())}
    read = _read(function)
    found: list[Param] = []
    for i, param in enumerate(function.params):
        name = str(param.name)
        if name in buffers:
            at, buffer = buffers[name]
            if i in only_read:
                role = "in"
            elif at in request.outputs or name not in read:
                role = "out"
            else:
                role = "inout"
            found.append(_tensor(request, buffer, role))
        elif str(param.dtype) == "handle":
            form = "tensormap" if name.endswith("_desc") else "workspace"
            what, mend = _HANDLES[form]
            raise Unsupported(form, f"the kernel's parameter `{name}` is {what}", mend)
        else:
            dtype = _dtype(param.dtype, name)
            found.append(Scalar(name, dtype, request.shapes.get(name)))
    return found


def _tensor(request: Request, buffer: Any, role: str) -> Tensor:
    shape = tuple(_number(request, n) for n in buffer.shape)
    strides = tuple(_number(request, n) for n in buffer.strides)
    dense = not strides or strides == row_major(shape)
    dtype = _dtype(buffer.dtype, buffer.name)
    return Tensor(str(buffer.name), dtype, shape, role, None if dense else strides)


def _dtype(dtype: Any, name: str) -> str:
    found = DTYPES.get(str(dtype))
    if found is None:
        raise Unsupported("dtype", f"`{name}` has elements of type {dtype}")
    return found


def _read(function: Any) -> set[str]:
    """Parameters whose contents a device function reads, or whose addresses it hands on."""
    expr = tvm().tirx
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, expr.BufferLoad):
            found.add(str(node.buffer.data.name))
        elif (
            isinstance(node, expr.Call)
            and str(node.op.name).endswith("tvm_access_ptr")
            and int(node.args[4]) & READ
        ):
            found.add(str(node.args[1].name))

    expr.stmt_functor.post_order_visit(function.body, visit)
    return found
