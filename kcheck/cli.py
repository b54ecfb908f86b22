"""`kcheck ...`: arguments in, check.py called, report out.

Modules that cost time to import are imported by the command that needs them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck import __version__

if TYPE_CHECKING:
    from kcheck.running import RunResult
    from kcheck.verdict import Verdict

USAGE, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
COLOURS = {0: "green", 1: "red", 3: "yellow", 4: "magenta"}

STRICT = click.option(
    "--strict", is_flag=True, help="Lanes that store equal values to one address are a race."
)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
TIME = click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Then the answer is what is known so far.",
)
MEMORY = click.option(
    "--memory-limit",
    type=click.IntRange(min=1),
    metavar="MB",
    help="The same for the memory of the process.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, no text.")
SEED = click.option("--seed", type=click.IntRange(min=0), help="Makes a run reproducible.")
LAUNCH = click.option(
    "--launch", type=FILE, help="Launch file of the (reference) kernel. [default: beside the PTX]"
)


@dataclass(frozen=True)
class Answer:
    """What a command prints on stdout, and its exit code; `colour` is for the first word."""

    code: int
    text: str
    colour: str | None = None


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="kcheck %(version)s")
def commands() -> None:
    """Prove that two GPU kernels (PTX) compute the same functions over the reals.

    \b
    Examples:
      kcheck demo
      kcheck equiv before.ptx after.ptx
      kcheck check kernel.ptx
      kcheck equiv before.ptx after.ptx --launch f.launch.yaml --map A=x,B=y --json
      kcheck launch init kernel.ptx
      kcheck run kernel.ptx --seed 1 --output out.npz

    Exit codes: 0 proved, 1 refuted, 2 bad arguments or files, 3 undecided, 4 kcheck failed.
    """


@commands.command()
@click.argument("reference", type=FILE)
@click.argument("subject", type=FILE)
@LAUNCH
@click.option("--subject-launch", type=FILE, help="[default: beside SUBJECT, else the reference's]")
@click.option("--kernel", metavar="NAME", help="The entry, where the PTX has several.")
@click.option("--subject-kernel", metavar="NAME", help="[default: --kernel, else the only entry]")
@click.option(
    "--map", "maps", multiple=True, metavar="A=x,B=y", help="Reference name=subject name."
)
@click.option("--cta", type=click.IntRange(min=0), help="Check one CTA (linear index) only.")
@click.option("--accept", type=click.Choice(["cta"]), help="Exit 0 for proved-for-cta as well.")
@SEED
@click.option("--safety/--no-safety", default=True, help="Look for races in both kernels.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "term", "field"]),
    default="auto",
    show_default=True,
    help="Exact proofs (term), identity testing (field), or what serves.",
)
@STRICT
@click.option(
    "--literal-constants", is_flag=True, help="Float literals are exact: 0f3FB8AA3B is not log2 e."
)
@click.option(
    "--witness",
    "--witness-dir",
    "witness_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kcheck-witnesses"),
    show_default=True,
    help="Where the input of a refutation is saved, with programs that run both kernels on it.",
)
@TIME
@MEMORY
@click.option(
    "--mask-literal",
    "mask_literals",
    type=float,
    multiple=True,
    metavar="X",
    help="The number X stands for -infinity wherever it is written.",
)
@JSON
def equiv(maps: tuple[str, ...], accept: str | None, as_json: bool, **options: Any) -> Answer:
    """Decide whether SUBJECT computes what REFERENCE computes.

    \b
    Examples:
      kcheck equiv gemm_s0.ptx gemm_s2.ptx
      kcheck equiv ref.ptx opt.ptx --launch ref.launch.yaml --map A=x,B=y
      kcheck equiv ref.ptx opt.ptx --cta 0 --accept cta

    The launch file of K.ptx is K.launch.yaml beside it (`kcheck launch init K.ptx` writes one).
    """
    from kcheck.check import equivalent
    from kcheck.report.progress import Progress

    mapping = parse_map(maps)
    with Progress() as progress:
        verdict = equivalent(
            options.pop("reference"),
            options.pop("subject"),
            mapping=mapping,
            progress=progress,
            **options,
        )
    accepted = verdict.verdict == "proved-for-cta" and accept == "cta"
    return verdict_answer(verdict, as_json, 0 if accepted else verdict.exit_code)


@commands.command()
@click.argument("kernel", type=FILE)
@LAUNCH
@click.option("--kernel", "kernel_name", metavar="NAME", help="The entry, if there are several.")
@click.option("--cta", type=click.IntRange(min=0), help="Check one CTA (linear index) only.")
@click.option("--accept", type=click.Choice(["cta"]), help="Exit 0 for proved-for-cta as well.")
@STRICT
@SEED
@TIME
@MEMORY
@JSON
def check(kernel: Path, accept: str | None, as_json: bool, **options: Any) -> Answer:
    """Prove KERNEL free of races, deadlocks, bad accesses and undefined values.

    \b
    Examples:
      kcheck check kernel.ptx
      kcheck check kernel.ptx --launch kernel.launch.yaml --json
    """
    from kcheck.check import safe
    from kcheck.report.progress import Progress

    with Progress() as progress:
        verdict = safe(kernel, progress=progress, **options)
    accepted = verdict.verdict == "proved-for-cta" and accept == "cta"
    return verdict_answer(verdict, as_json, 0 if accepted else verdict.exit_code)


def parse_map(maps: tuple[str, ...]) -> dict[str, str]:
    """`("A=x,B=y", "C=z")` as a mapping. UsageError if an entry isn't NAME=NAME, or repeats."""
    from kcheck.verdict import UsageError

    mapping: dict[str, str] = {}
    for entry in (entry for option in maps for entry in option.split(",")):
        name, equals, other = (part.strip() for part in entry.partition("="))
        if not (name and equals and other):
            raise UsageError(f"--map {entry}: expected REFERENCE=SUBJECT, as in --map A=x,B=y")
        if name in mapping:
            raise UsageError(f"--map {entry}: `{name}` is mapped twice")
        mapping[name] = other
    return mapping


def verdict_answer(verdict: Verdict, as_json: bool, code: int) -> Answer:
    """The report of a verdict."""
    if as_json:
        from kcheck.report.json import to_json, verdict_object

        return Answer(code, to_json(verdict_object(verdict)))
    from kcheck.report.text import verdict_text

    return Answer(code, verdict_text(verdict), COLOURS[verdict.exit_code])


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


@commands.group()
def launch() -> None:
    """Work with launch files (X.launch.yaml beside X.ptx)."""


@launch.command()
@click.argument("ptx", type=FILE)
@click.option("--kernel", metavar="NAME", help="The entry, where the PTX has several.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(ptx: Path, kernel: str | None, force: bool) -> Answer:
    """Write a skeleton launch file beside PTX; what it can't know says FILL.

    \b
    Example:
      kcheck launch init kernel.ptx      # writes kernel.launch.yaml
    """
    from kcheck.launch_file import SUFFIX
    from kcheck.launch_init import launch_skeleton
    from kcheck.ptx_frontend.lower import lower
    from kcheck.ptx_frontend.parser import parse_file
    from kcheck.verdict import UsageError

    target = ptx.with_name(ptx.stem + SUFFIX)
    if target.exists() and not force:
        raise UsageError(f"{target}: exists already; --force overwrites it")
    target.write_text(launch_skeleton(lower(parse_file(ptx), kernel)), encoding="utf-8")
    return Answer(0, f"wrote {target}: fill in what says FILL, check what says CHANGE")


@commands.command()
def demo() -> Answer:
    """Check two GEMM kernels that TileLang compiled, and a broken copy of one."""
    from kcheck.demo import demonstrate
    from kcheck.report.progress import Progress

    with Progress() as progress:
        good, text = demonstrate(progress)
    return Answer(0 if good else 4, text)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (DESIGN.md 3). Never raises."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        answer = commands.main(args=arguments, prog_name="kcheck", standalone_mode=False)
        if not isinstance(answer, Answer):  # --help and --version print by themselves
            return int(answer or 0)
        return show(answer)
    except click.ClickException as error:
        return usage_error(f"{error.format_message()} (kcheck --help shows how)", as_json)
    except (click.Abort, KeyboardInterrupt):
        print("kcheck: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # what still sits in the buffer must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        message = usage_message(error)
        if message is not None:
            return usage_error(message, as_json)
        return internal_error(error, as_json)


def output_error(error: OSError) -> int:
    """The answer can't be written (a full disk): say so, and fail no second time at exit."""
    print(f"kcheck: cannot write: {error}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return USAGE


def show(answer: Answer) -> int:
    """Print an answer. Colour only on a terminal."""
    if sys.stdout is None:  # closed by the caller
        return answer.code
    text = answer.text
    if answer.colour and not os.environ.get("NO_COLOR"):
        head, _, rest = text.partition(" ")
        text = f"{click.style(head, fg=answer.colour, bold=True)} {rest}"
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return output_error(error)
    return answer.code


def usage_message(error: Exception) -> str | None:
    """What to tell the user, if the error is about arguments or files, else None."""
    from kcheck.launch import LaunchError
    from kcheck.ptx_frontend.errors import KernelChoiceError, PtxError
    from kcheck.verdict import UsageError

    if isinstance(error, (UsageError, LaunchError, PtxError)):
        return str(error)
    if isinstance(error, KernelChoiceError):
        return f"{error} (--kernel NAME)" if error.names else str(error)
    files = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, files):
        return f"{error.filename}: {error.strerror}"
    return None


def usage_error(message: str, as_json: bool) -> int:
    """One line on stderr (for a syntax error the place as well); exit code 2."""
    print(f"kcheck: {printable(message)}", file=sys.stderr)
    if as_json:
        from kcheck.report.json import to_json, usage_object

        print(to_json(usage_object(message)))
    return USAGE


def printable(text: str, width: int = 300) -> str:
    """The text without what would upset a terminal: control characters, endless lines."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return "\n".join(line[:width] for line in shown.split("\n"))


def internal_error(error: Exception, as_json: bool) -> int:
    """Verdict `error`: the traceback goes to a file that is named."""
    import tempfile
    import traceback

    from kcheck.verdict import Verdict

    with tempfile.NamedTemporaryFile(
        "w", prefix="kcheck-", suffix=".traceback", delete=False, encoding="utf-8"
    ) as file:
        print(f"kcheck {__version__}", sys.argv, file=file)
        traceback.print_exception(error, file=file)
    reason = f"internal.{type(error).__name__}"
    hint = f"report this bug; the traceback is in {file.name}"
    return show(verdict_answer(Verdict("error", reason, next_steps=(hint,)), as_json, 4))
