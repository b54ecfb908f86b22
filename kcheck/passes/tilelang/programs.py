"""The TileLang programs of a Python file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kcheck.passes.tilelang.installed import tilelang
from kcheck.verdict import UsageError


@dataclass(frozen=True)
class Program:
    """A prim_func under the name that the file gives it, and how its decorator compiles it."""

    name: str
    func: Any
    options: Mapping[str, Any]


def programs(path: Path, only: str | None = None) -> list[Program]:
    """The prim_funcs and the jit functions of a file; what it imports from others is not of it.

    `only`: a name in the file; it may be a function that makes a prim_func as well. jit functions
    and such are called without arguments. UsageError (one line) where there is nothing, or the
    file or function fails.
    """
    module = load(path)
    if only is not None:
        if not hasattr(module, only):
            raise UsageError(f"{path}: no `{only}` in it")
        return [_program(path, only, getattr(module, only))]
    found = list(_all(path, module))
    if not found:
        raise UsageError(
            f"{path}: no prim_func and no jit function that can be called without arguments; "
            f"name one that makes a prim_func: {path}:NAME"
        )
    return found


def named(reference: str) -> Any:
    """What `FILE.ptx` or `FILE.py:NAME` stands for: a path, or the object of that name. UsageError
    where there is none.
    """
    path, _, name = reference.partition(":")
    if not name:
        return Path(reference)
    module = load(Path(path))
    if not hasattr(module, name):
        raise UsageError(f"{path}: no `{name}` in it")
    found = getattr(module, name)
    return found.get_tir() if isinstance(found, _kinds()[1]) else found


def load(path: Path) -> ModuleType:
    """Import a file; its folder can be imported from. UsageError where it fails."""
    tilelang()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _kinds() -> tuple[Any, Any]:
    """The classes of prim_funcs and of what `jit` makes."""
    from tilelang.jit import JITImpl
    from tilelang.language.eager import PrimFunc

    return PrimFunc, JITImpl


def _all(path: Path, module: ModuleType) -> Iterator[Program]:
    func, jit = _kinds()
    for name, value in vars(module).items():
        made_here = isinstance(value, jit) and value.func.orig_func.__module__ == path.stem
        if isinstance(value, func) or (made_here and not _needs_arguments(value)):
            yield _program(path, name, value)


def _needs_arguments(impl: Any) -> bool:
    parameters = impl.signature.parameters.values()
    return any(p.default is p.empty and p.kind not in (2, 4) for p in parameters)


def _program(path: Path, name: str, value: Any) -> Program:
    func, jit = _kinds()
    options: dict[str, Any] = {}
    try:
        if isinstance(value, jit):
            names = ("out_idx", "target", "pass_configs", "compile_flags")
            options = {key: getattr(value, key) for key in names}
            value = value.get_tir()
        elif not isinstance(value, func) and callable(value):
            value = value()
    except Exception as error:
        raise UsageError(f"{path}:{name}: {type(error).__name__}: {error}") from error
    if not isinstance(value, func):
        raise UsageError(f"{path}:{name}: {type(value).__name__} is no prim_func")
    return Program(name, value, options)
