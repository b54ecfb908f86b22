"""What is compiled: a prim_func, a target, and the options that the user gave."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kcheck.passes.tilelang.installed import tilelang, tvm

FLAGS = "tl.device_compile_flags"
FAST_MATH = "tl.enable_fast_math"


class Unsupported(Exception):
    """What can't be validated; `form` completes `unsupported.<form>`; `mend`: what to try."""

    def __init__(self, form: str, message: str, mend: str = "") -> None:
        self.form, self.mend = form, mend
        super().__init__(message)


@dataclass(frozen=True)
class Request:
    """One compile. `target`: a TVM target; `configs`: pass configs by their names, compile flags
    among them; `outputs`: positions of the parameters that the callee allocates; `shapes`:
    symbolic extents -> numbers; `inputs`: what is known of buffers, by name and key.
    """

    func: Any
    target: Any
    configs: Mapping[str, Any]
    outputs: tuple[int, ...]
    shapes: Mapping[str, int]
    inputs: Mapping[str, Mapping[str, Any]]

    @cached_property
    def own(self) -> Any:
        """A copy of the prim_func to lower. Lowering renames variables in place, and tilelang may
        be lowering the user's at the same time.
        """
        ir = tvm().ir
        return ir.load_json(ir.save_json(self.func))

    @property
    def name(self) -> str:
        """The prim_func's name."""
        return str(self.func.attrs["global_symbol"])

    @property
    def key(self) -> str:
        """A text that says all of it."""
        options = [dict(self.configs), self.outputs, dict(self.shapes), dict(self.inputs)]
        return "\n".join(
            (self.func.script(show_meta=True), str(self.target), json.dumps(options, default=str))
        )


def request(
    func: Any,
    target: Any,
    *,
    out_idx: Sequence[int] | int | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    shapes: Mapping[str, int] | None = None,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
) -> Request:
    """A Request from the arguments of `tilelang.compile`, as that reads them.

    Unsupported for a target that is no CUDA architecture.
    """
    tilelang()
    attributes = func.attrs or {}
    if "tilelang_out_idx" in attributes:
        out_idx = [int(i) for i in attributes["tilelang_out_idx"]]
    configs = dict(attributes.get("tilelang_pass_configs", {})) | dict(pass_configs or {})
    plain = _normalized(configs)
    flags = [
        *_flags(plain.get(FLAGS)),
        *(_flags(list(attributes.get("tilelang_compile_flags", ())))),
        *_flags(compile_flags),
    ]
    if flags:
        plain[FLAGS] = flags
    outputs = () if out_idx is None else (out_idx,) if isinstance(out_idx, int) else tuple(out_idx)
    count = len(func.params)
    return Request(
        func,
        resolved(target),
        plain,
        tuple(sorted(i + count if i < 0 else i for i in outputs)),
        dict(shapes or {}),
        dict(inputs or {}),
    )


def _normalized(configs: Mapping[Any, Any]) -> dict[str, Any]:
    """Pass configs by their names, with the defaults that the environment gives."""
    from tilelang.transform.pass_config import normalize_pass_configs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # tilelang itself says so
        return dict(normalize_pass_configs(dict(configs)))


def _flags(given: Any) -> list[str]:
    """Compile flags one by one."""
    texts = [given] if isinstance(given, str) else [str(text) for text in given or ()]
    return [flag for text in texts for flag in shlex.split(text)]


def resolved(target: Any) -> Any:
    """A TVM target with its architecture. Unsupported for what is no CUDA target."""
    tilelang()
    from tilelang import env
    from tilelang.backend.target import determine_target

    try:
        found = determine_target(
            env.get_default_target() if target is None else target, return_object=True
        )
    except Exception as error:
        raise Unsupported("target", f"target {target}: {error}") from error
    if found.kind.name != "cuda" or "arch" not in found.attrs:
        raise Unsupported(
            "target",
            f"{found} is no CUDA target with an architecture",
            'target={"kind": "cuda", "arch": "sm_80"}',
        )
    return found


def cuda(arch: str) -> Any:
    """The target of an architecture (`sm_80`)."""
    tilelang()
    return tvm().target.Target({"kind": "cuda", "arch": arch})
