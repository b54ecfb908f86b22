"""What a user names (a path, a text, a kernel; a launch or none) as a kernel with its launch."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Union

from kcheck.launch import Launch, LaunchError
from kcheck.launch_check import check_launch
from kcheck.launch_file import find_launch, load_launch
from kcheck.ptx_frontend.errors import KernelChoiceError
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse, parse_file
from kcheck.verdict import UsageError

KernelLike = Union[str, "os.PathLike[str]", Kernel]
LaunchLike = Union[str, "os.PathLike[str]", Launch, None]


def is_text(source: KernelLike) -> bool:
    """PTX text rather than a path: it has several lines."""
    return isinstance(source, str) and "\n" in source


def load_kernel(source: KernelLike, name: str | None) -> Kernel:
    """Parse and lower. UsageError for files that can't be read; PtxError for bad text."""
    if isinstance(source, Kernel):
        return source
    try:
        module = parse(str(source)) if is_text(source) else parse_file(Path(source))
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror or error}") from error
    try:
        return lower(module, name)
    except KernelChoiceError as error:
        raise UsageError(str(error)) from error


def load_launches(
    sources: tuple[KernelLike, KernelLike],
    kernels: tuple[Kernel, Kernel],
    launch: LaunchLike,
    subject_launch: LaunchLike,
) -> tuple[Launch, Launch]:
    """Both launches, checked against their kernels.

    The default is the file beside each PTX; the subject's, else, the reference's.
    """
    first = _launch(sources[0], launch)
    if first is None:
        raise UsageError(
            f"{_name(sources[0])}: no launch file beside it; give --launch, or write one with "
            f"`kcheck launch init {_name(sources[0])}`"
        )
    second = _launch(sources[1], subject_launch)
    if second is None:
        second = replace(first, kernel=kernels[1].name)
    for one, kernel in ((first, kernels[0]), (second, kernels[1])):
        try:
            check_launch(one, kernel)
        except LaunchError as error:
            raise UsageError(str(error)) from error
    return first, second


def load_one(source: KernelLike, kernel: Kernel, launch: LaunchLike) -> Launch:
    """The launch of one kernel, checked."""
    return load_launches((source, source), (kernel, kernel), launch, launch)[0]


def _name(source: KernelLike) -> str:
    return (
        source.name if isinstance(source, Kernel) else "<text>" if is_text(source) else str(source)
    )


def _launch(source: KernelLike, launch: LaunchLike) -> Launch | None:
    if isinstance(launch, Launch):
        return launch
    if launch is None:
        if isinstance(source, Kernel) or is_text(source):
            return None
        found = find_launch(Path(source))
        if found is None:
            return None
        launch = found
    try:
        return load_launch(Path(launch))
    except LaunchError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{launch}: {error.strerror or error}") from error
