"""What a witness leaves behind: the input, both kernels, and programs that run them on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from kcheck.arrays import save_arrays
from kcheck.driver_program import Unwritable, driver_program
from kcheck.launch_file import SUFFIX, dump_launch
from kcheck.verdict import Witness
from kcheck.verdict import element as shown
from kcheck.witness import Subject, unknown_inputs

SIDES = ("reference", "subject")


def save(witness: Witness, folder: Path, reference: Subject, subject: Subject) -> Witness:
    """Write `X.npz` (arrays by buffer name, in the buffer's shape), both kernels with their
    launches, `X.py` (runs them by kcheck) and, where it can be had, `X.cu` (runs them on a GPU).

    Buffers have the reference's names on both sides. Returns the witness with its paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sides = dict(zip(SIDES, (reference, subject), strict=True))
    stems = [_stem(side) for side in sides.values()]
    path = folder / f"{stems[0]}-{stems[1]}-{witness.buffer}.npz"
    arrays = {}
    for name, values in witness.inputs.items():
        arrays[name] = values
        for side in (subject, reference):
            tensor = side.launch.buffers.get(name)
            if tensor is not None and tensor.strides is None:
                arrays[name] = np.asarray(values).reshape(tensor.shape)
    save_arrays(path, arrays)
    for name, side in sides.items():
        text = side.kernel.module.span.source.text
        (folder / f"{path.stem}.{name}.ptx").write_text(text, encoding="utf-8")
        launch = replace(side.launch, kernel=side.kernel.name)
        (folder / f"{path.stem}.{name}{SUFFIX}").write_text(dump_launch(launch), encoding="utf-8")
    scripts = [path.with_suffix(".py")]
    scripts[0].write_text(_snippet(witness, path.stem, sides), encoding="utf-8")
    try:
        text = driver_program(witness, reference, subject)
        scripts.append(path.with_suffix(".cu"))
        scripts[1].write_text(text, encoding="utf-8")
    except Unwritable:
        path.with_suffix(".cu").unlink(missing_ok=True)  # one of another pair
    return replace(witness, path=str(path), scripts=tuple(map(str, scripts)))


def _stem(side: Subject) -> str:
    return Path(side.kernel.module.span.source.name).stem.strip("<>") or side.kernel.name


def _snippet(witness: Witness, stem: str, sides: dict[str, Subject]) -> str:
    at = sides["reference"].launch.buffers[witness.buffer].flat(witness.index)
    name = shown(witness.buffer, witness.index)
    lines = [
        f"# {name} of two kernels on one input; written by kcheck.",
        "# Exits 1 if they differ there (by half of what was found, or more), 2 if one can't run.",
        "import sys",
        "from pathlib import Path",
        "",
        "import numpy as np",
        "",
        "import kcheck",
        "",
        "HERE = Path(__file__).parent",
        f"STEM, BUFFER, ELEMENT = {json.dumps(stem)}, {json.dumps(witness.buffer)}, {at}",
        f"INPUTS = {json.dumps({side: list(unknown_inputs(s)) for side, s in sides.items()})}",
        "",
        'with np.load(HERE / f"{STEM}.npz") as file:',
        "    inputs = dict(file)",
        "",
        "",
        "def element(side):",
        '    ptx = HERE / f"{STEM}.{side}.ptx"',
        f'    launch = kcheck.load_launch(HERE / f"{{STEM}}.{{side}}{SUFFIX}")',
        "    given = {name: inputs[name] for name in INPUTS[side]}",
        "    # over the reals; in true formats where another element, say 0 / 0, is no real",
        '    for engine in ("enclosure", "ieee"):',
        "        result = kcheck.run(",
        "            ptx, launch=launch, kernel_name=launch.kernel, inputs=given, engine=engine",
        "        )",
        "        if BUFFER in result.outputs:",
        "            value = float(result.outputs[BUFFER].reshape(-1)[ELEMENT])",
        '            note = ", in true formats" if engine == "ieee" else ""',
        f'            print(f"{name} = {{value!r}} in the {{side}}{{note}}")',
        "            return value",
        '    print(f"{side}:", *(finding.message for finding in result.findings), file=sys.stderr)',
        "    raise SystemExit(2)",
        "",
        "",
        "values = [element(side) for side in INPUTS]",
        f"raise SystemExit(not abs(values[0] - values[1]) <= {witness.gap / 2!r})",
    ]
    return "\n".join(lines) + "\n"
