"""One kernel executed over a whole grid: outputs and faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kcheck.canon.domain import Arithmetic, Domain
from kcheck.canon.real import Reals
from kcheck.launch import Launch, Tensor
from kcheck.ptx_frontend.kernel import Idiom, Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.builders import BUILDERS
from kcheck.semantics.flags import Rewatch
from kcheck.semantics.format_builders import TRUE_FORMATS
from kcheck.semantics.machine import BudgetError, Fault, Machine
from kcheck.semantics.memory import Memory
from kcheck.semantics.program import decode
from kcheck.semantics.race_reports import Race
from kcheck.semantics.symbolic import guarded_symbolically
from kcheck.semantics.values import Unsupported

# Lanes that run together: enough to hide Python's overhead, few enough for the cache.
BATCH = 4096
# Elements of buffers and CTAs of a grid that are tried at all.
MOST_ELEMENTS, MOST_CTAS = 1 << 28, 1 << 22
# Lanes of a grid whose CTAs wait for one another.
MOST_TOGETHER = 1 << 18


class Refused(Exception):
    """The executor does not understand an instruction; names it and the place."""

    def __init__(self, form: str, message: str, instr: Instr) -> None:
        self.form = form
        self.message = message
        self.instr = instr
        self.side = ""
        super().__init__(f"unsupported.{form}: {message} ({instr.span})")


@dataclass
class Notes:
    """What a run has seen so far: all that is left of one that does not come to its end."""

    _faults: dict[tuple[str, int], Fault] = field(default_factory=dict[tuple[str, int], Fault])
    _races: dict[tuple[str, int, int], Race] = field(
        default_factory=dict[tuple[str, int, int], Race]
    )

    def follow(self, machine: Machine, races: bool) -> None:
        """Note what this machine sees."""
        self._faults = machine.faults
        self._races = machine.races.found if machine.races is not None and races else {}

    @property
    def faults(self) -> list[Fault]:
        """The faults."""
        return list(self._faults.values())

    @property
    def races(self) -> list[Race]:
        """The races."""
        return list(self._races.values())


@dataclass
class Execution:
    """What a run leaves: the memory of each tensor, the faults, and figures.

    `ctas`: numbers of the CTAs that ran. `values`: instructions times lanes. `extremes`: integer
    atomics that were executed as maxima or minima of floats; `large_sums`: additions of large
    constants to data, in exponents. `identified`: literals (format, bits)
    that stood for other numbers than they are, by id. `idioms`: library functions that ran as
    such. `doubt`: why it does not stand for every schedule, so that nothing but the defects which
    it shows counts.
    """

    kernel: Kernel
    launch: Launch
    reals: Reals[Any]
    memories: dict[str, Memory]
    faults: list[Fault]
    ctas: list[int]
    instructions: int
    values: int
    origins: dict[int, int]
    races: list[Race]
    same_value: dict[int, int]
    extremes: frozenset[int]
    large_sums: frozenset[int]
    identified: dict[tuple[str, int], int]
    idioms: tuple[Idiom, ...]
    doubt: Refused | None = None

    def tensor(self, name: str) -> Tensor:
        """The launch's buffer of a name."""
        return self.launch.buffers[name]


def _ctas(launch: Launch) -> list[int]:
    """All CTAs. BudgetError for a grid, or buffers, that no run could get through."""
    elements = sum(tensor.elements for tensor in launch.buffers.values())
    if elements > MOST_ELEMENTS:
        raise BudgetError("memory", f"the buffers have {elements} elements")
    if launch.ctas > MOST_CTAS:
        raise BudgetError("time", f"the grid has {launch.ctas} CTAs")
    return list(range(launch.ctas))


def _machine(
    kernel: Kernel,
    launch: Launch,
    reals: Reals[Any],
    races: bool,
    identify: bool,
    arithmetic: Arithmetic | None,
) -> Machine:
    try:
        machine = Machine(
            kernel, launch, reals, races=races, identify=identify, arithmetic=arithmetic
        )
        builders = BUILDERS if arithmetic is None else TRUE_FORMATS
        machine.program = decode(machine, builders, guarded_symbolically)
    except Unsupported as error:
        raise Refused(error.form, error.message, kernel.code[0]) from error
    return machine


def _run(
    machine: Machine, chosen: list[int], batch: int, progress: Callable[[float], None] | None
) -> None:
    """Execute CTAs in batches; all at once where they wait for one another."""
    step = max(batch // machine.threads, 1)
    if machine.plan.grid:
        step = _together(machine, chosen)
    for start in range(0, len(chosen), step):
        if progress is not None:
            progress(start / len(chosen))
        try:
            machine.run(np.array(chosen[start : start + step], np.int64))
        except Unsupported as error:
            instr = machine.kernel.code[machine.at]
            raise Refused(error.form, error.message, instr) from error


def _doubt(machine: Machine) -> Refused | None:
    if machine.doubt is None:
        return None
    message, at = machine.doubt
    return Refused("unstable", message, machine.kernel.code[at])


def _together(machine: Machine, chosen: list[int]) -> int:
    """CTAs that have to run together: all of the grid."""
    if len(chosen) != machine.launch.ctas:
        at = min([*machine.plan.waits, *machine.plan.tickets])
        message = "CTAs wait for one another here: one alone can't be checked"
        raise Refused("part-of-grid", message, machine.kernel.code[at])
    if len(chosen) * machine.threads > MOST_TOGETHER:
        raise BudgetError(
            "memory",
            f"{len(chosen)} CTAs that wait for one another have more than {MOST_TOGETHER} threads",
        )
    return max(len(chosen), 1)


def execute(
    kernel: Kernel,
    launch: Launch,
    domain: Domain[Any],
    *,
    ctas: list[int] | None = None,
    progress: Callable[[float], None] | None = None,
    batch: int = BATCH,
    reals: Reals[Any] | None = None,
    watch: tuple[str, int] | None = None,
    races: bool = False,
    strict: bool = False,
    identify: bool = False,
    arithmetic: Arithmetic | None = None,
    notes: Notes | None = None,
) -> Execution:
    """Run the grid (or these CTAs) with inputs from the domain.

    `reals`: share constants with another run over the same domain. `watch`: a tensor and a flat
    element whose writers (CTAs) are to be noted in its memory. `races`: look for races; `strict`:
    lanes of one instruction that store equal values to one address have one. `identify`: float
    literals stand for the numbers that they were rounded from (`canon.literals`). `arithmetic`: run
    in true formats, with its inputs; the domain has nothing to do then, and library functions are
    executed as they are expanded. `notes`: where to note what is seen, for the case that it does
    not come to its end.
    Raises Refused for what is not supported, and what the domain raises.
    """
    chosen = _ctas(launch) if ctas is None else ctas
    reals = Reals(domain) if reals is None else reals
    notes = notes or Notes()
    executed, idioms = kernel.identified if arithmetic is None else (kernel, ())
    watched: set[int] = set()
    while True:
        reals.origins = {}
        machine = _machine(executed, launch, reals, races, identify, arithmetic)
        if machine.races is not None:
            machine.races.strict = strict
        machine.watched = watched
        notes.follow(machine, races)
        if watch is not None:
            region = machine.regions.items[machine.regions.tensors[watch[0]]]
            region.memory.watched = watch[1]
        try:
            _run(machine, chosen, batch, progress)
            break
        except Rewatch as again:  # only now it is known that a buffer holds flags
            watched = {*watched, again.region}
    items = machine.regions.items
    return Execution(
        kernel,
        launch,
        machine.reals,
        {name: items[ident].memory for name, ident in machine.regions.tensors.items()},
        notes.faults,
        chosen,
        machine.executed,
        machine.values,
        machine.reals.origins,
        notes.races,
        {} if machine.races is None or not races else machine.races.same_value,
        frozenset(machine.extremes),
        frozenset(machine.large_sums.made),
        machine.codec.identified,
        idioms,
        _doubt(machine),
    )
