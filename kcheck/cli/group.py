"""The command `kcheck`; each module beside this one adds a command to it."""

from __future__ import annotations

import click

from kcheck import __version__


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
      kcheck tilelang gemm.py

    Exit codes: 0 proved, 1 refuted, 2 bad arguments or files, 3 undecided, 4 kcheck failed.
    """
