"""`kcheck run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.answer import Answer
from kcheck.cli.group import commands
from kcheck.cli.options import FILE, JSON, LAUNCH, SEED

if TYPE_CHECKING:
    from kcheck.running import RunResult


@commands.command()
@click.argument("kernel", type=FILE)
@LAUNCH
@click.option("--kernel", "kernel_name", metavar="NAME", help="The entry, if there are several.")
@click.option("--input", "inputs", type=FILE, metavar="X.npz", help="Arrays by parameter name.")
@SEED
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Save the outputs (.npz)."
)
@click.option(
    "--engine",
    type=click.Choice(["enclosure", "ieee"]),
    default="enclosure",
    show_default=True,
    help="Over the reals, or in true formats with their rounding.",
)
@click.option(
    "--approx",
    type=click.Choice(["nearest", "high", "low", "random"]),
    default="nearest",
    show_default=True,
    help="ieee: what approximate instructions return within their documented error.",
)
@JSON
def run(
    kernel: Path,
    launch: Path | None,
    kernel_name: str | None,
    inputs: Path | None,
    seed: int | None,
    output: Path | None,
    engine: str,
    approx: str,
    as_json: bool,
) -> Answer:
    """Execute KERNEL on given inputs, or on random ones.

    \b
    Examples:
      kcheck run kernel.ptx --seed 1 --output out.npz
      kcheck run kernel.ptx --input in.npz --json
      kcheck run kernel.ptx --engine ieee --approx random --seed 1
    """
    from kcheck.arrays import save_arrays
    from kcheck.report.progress import Progress
    from kcheck.running import run as execute

    arrays = load_arrays(inputs) if inputs else None
    with Progress() as progress:
        result = execute(
            kernel,
            launch=launch,
            kernel_name=kernel_name,
            inputs=arrays,
            seed=seed,
            progress=progress,
            engine=engine,
            approx=approx,
        )
    if output:
        save_arrays(output, result.outputs)
    reasons = {finding.reason.partition(".")[0] for finding in result.findings}
    code = 0 if not reasons else 3 if reasons == {"unsupported"} else 1
    return Answer(code, run_json(result) if as_json else run_text(result, output))


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a .npz file. UsageError if it is none."""
    import zipfile

    import numpy as np

    from kcheck.verdict import UsageError

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{path}: not a .npz file of plain arrays; write it with np.savez"
        ) from error


def run_text(result: RunResult, output: Path | None) -> str:
    """A line for each output, the statistics, the findings."""
    from kcheck.report.text import finding_lines

    lines = []
    for name, array in result.outputs.items():
        span = f", {array.min():.6g} to {array.max():.6g}" if array.size else ""
        lines.append(f"{name}: {array.dtype} {list(array.shape)}{span}")
    lines += [f"{key}: {value}" for key, value in result.statistics.items()]
    for finding in result.findings:
        lines += finding_lines(finding)
    return "\n".join([*lines, f"saved {output}"] if output else lines)


def run_json(result: RunResult) -> str:
    """The same as one object; arrays by dtype and shape only."""
    from kcheck.report.json import finding_object, to_json

    outputs = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in result.outputs.items()
    }
    findings = [finding_object(finding) for finding in result.findings]
    return to_json({"outputs": outputs, "statistics": result.statistics, "findings": findings})
