"""The slow evaluator: a kernel run one thread at a time, in plain Python (DESIGN.md 4 to 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcheck.launch import FLOATS, Launch, Tensor
from kcheck.ptx_frontend.flow import ControlFlow
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr, Pair
from kcheck.semantics.flow import ATOMICS
from kcheck.semantics.idioms import Idioms
from kcheck.semantics.rejoins import rejoins
from kcheck.semantics.slow import (  # noqa: F401  (they fill the table of handlers)
    access,
    atomics,
    bits,
    compare,
    control,
    convert,
    copies,
    floats,
    integer,
    mma,
    move,
    warp,
)
from kcheck.semantics.slow.apart import Ways
from kcheck.semantics.slow.conflicts import Race
from kcheck.semantics.slow.decode import decode
from kcheck.semantics.slow.errors import Enough, Triple
from kcheck.semantics.slow.grid import Grid
from kcheck.semantics.slow.layout import Layout, float_format
from kcheck.semantics.slow.memory import Region
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import Decoder
from kcheck.semantics.slow.races import Monitor, Who
from kcheck.semantics.slow.state import Context, Findings, SlowFinding, Step, Thread, chance
from kcheck.semantics.slow.units import (
    UNWRITTEN,
    Real,
    Undef,
    Unit,
    Unwritten,
    as_int,
    as_real,
)
from kcheck.semantics.strength import kinds_of

BUDGET = 50_000_000
_ACCESSES = frozenset({"ld", "st", "ldmatrix", "cp.async", "fence"}) | ATOMICS

Output = int | Real | Undef | Unwritten


@dataclass(frozen=True)
class SlowResult:
    """What a run left behind.

    `outputs`: per `out` and `inout` tensor one item per element of memory: an int, a `Real`,
    UNDEF, or UNWRITTEN. `findings`: capped (`seen` counts all). `steps`: instructions executed.
    `races`: one entry per two instructions and reason, if the run was watched. `same`: index of
    an instruction -> pairs of lanes that stored equal values to one place.
    """

    outputs: dict[str, list[Output]]
    findings: list[SlowFinding]
    seen: int
    steps: int
    races: list[Race] = field(default_factory=list[Race])
    same: dict[int, int] = field(default_factory=dict[int, int])


class SlowMachine:
    """One run of a kernel on given inputs.

    `inputs`: tensor (or symbolic scalar) name -> its elements in memory order, anything that
    `numbers.of` takes for floats, ints for the rest; an `in` or `inout` tensor without an entry
    needs `values` in the launch. `numbers`: Exact, Enclosure, Double. `ctas`: linear indices, x
    fastest; all by default. `seed`: None runs threads and CTAs in order; else a random schedule
    that barriers allow. `budget`: instructions in all. `races`: watch for races. `first`: the
    (CTA, thread) that runs whenever it can, and the one that runs only if no other can; where
    they are of two CTAs, the second goes once the first came to instruction `at`.

    `run` raises Unsupported, Ambiguous, Inexact, BudgetExceeded (all `Unevaluated`), and the
    constructor LaunchError if launch, kernel and inputs don't fit.
    """

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        inputs: Mapping[str, Sequence[Any]],
        numbers: type[Number],
        *,
        ctas: Iterable[int] | None = None,
        seed: int | None = None,
        budget: int = BUDGET,
        races: bool = False,
        first: tuple[Who, Who] | None = None,
        at: int = -1,
    ) -> None:
        idioms = Idioms(kernel)
        kinds = kinds_of(kernel, idioms)
        monitor = Monitor(kernel, launch, kinds, frozenset(first or ())) if races else None
        layout = Layout(kernel, launch, inputs, numbers, races)
        aggregates = frozenset(pc for pc, i in idioms.found.items() if i.name == "aggregate")
        self.context = Context(
            kernel,
            launch,
            numbers,
            layout,
            Findings(),
            kinds,
            budget,
            chance(seed),
            aggregates,
            monitor,
        )
        self.budget = budget
        self.ctas = list(range(launch.ctas) if ctas is None else ctas)
        self.first, self.at = first, at
        self.decoder = Decoder(self.context)
        self.steps = [decode(self.decoder, instr) for instr in kernel.code]
        if monitor is not None:
            for pc in {pc for idiom in idioms.found.values() for pc in idiom.compares}:
                self.steps[pc] = _compared(self.decoder, monitor, pc, self.steps[pc])
        joins = rejoins(ControlFlow(kernel))
        if joins:
            ways = Ways(kernel.code, joins)
            self.steps = [ways.watched(pc, step) for pc, step in enumerate(self.steps)]
        self.accesses = [_is_access(instr) for instr in kernel.code]

    def run(self) -> SlowResult:
        """Run the CTAs one after another; those that wait for others have turns."""
        self._grid().run()
        outputs = {
            name: self._output(tensor, region)
            for name, (tensor, region) in self.context.layout.tensors.items()
            if tensor.role != "in"
        }
        findings, monitor = self.context.findings, self.context.monitor
        return SlowResult(
            outputs,
            findings.kept,
            findings.seen,
            self.steps_taken,
            self.races,
            monitor.same if monitor else {},
        )

    def watch(self, enough: Callable[[Monitor], bool], ahead: frozenset[Who] = frozenset()) -> bool:
        """Run until the monitor has seen enough (asked at each new race), or to the end (False).

        CTAs take turns, so that races between them show early; `ahead`: threads that go ahead of
        their CTA's others. Raises what `run` raises, once no thread can go on.
        """
        monitor = self.context.monitor
        assert monitor is not None
        monitor.enough = enough
        try:
            self._grid(len(self.ctas) > 1 and self.first is None, ahead).run()
        except Enough:
            return True
        return False

    @property
    def steps_taken(self) -> int:
        """Instructions executed so far."""
        return self.budget - self.context.left

    def _grid(self, turns: bool = False, ahead: frozenset[Who] = frozenset()) -> Grid:
        return Grid(
            self.context,
            self.ctas,
            len(self.decoder.slots),
            self.steps,
            self.accesses,
            self.first,
            self.at,
            turns,
            ahead,
        )

    @property
    def races(self) -> list[Race]:
        """The races seen so far, one entry per two instructions and reason."""
        monitor = self.context.monitor
        return list(monitor.races.values()) if monitor else []

    def _output(self, tensor: Tensor, region: Region) -> list[Output]:
        count = tensor.elements
        width = tensor.nbytes // count if count else 1
        elements: list[Output] = []
        for i in range(count):
            if tensor.role == "out" and not region.memory.written(i * width, width):
                elements.append(UNWRITTEN)
                continue
            element = self._element(region.memory.read(i * width, width), tensor.dtype, width)
            self._judge(tensor, i, width, element)
            elements.append(element)
        return elements

    def _element(self, unit: Unit, dtype: str, width: int) -> int | Real | Undef:
        if dtype not in FLOATS:
            return as_int(unit, width * 8)
        fmt = float_format(dtype)
        number = as_real(unit, fmt, self.context.numbers)
        return number if isinstance(number, Undef) else Real(fmt, number)

    def _judge(self, tensor: Tensor, i: int, width: int, element: int | Real | Undef) -> None:
        """Undefined values and nans in an output are findings."""
        where = f"{tensor.name}{list(tensor.index(i))}"
        stored = self.context.undef_stores.get((tensor.name, i * width))
        if isinstance(element, Undef):
            self._find("undefined.output", f"{where} is undefined", where, stored)
        elif isinstance(element, Real) and element.number.is_nan:
            reason = element.number.reason
            kind = reason if reason == "division-by-zero" else "nan"
            self._find(f"value.{kind}", f"{where} is not a number ({reason})", where, stored)

    def _find(
        self, reason: str, message: str, where: str, stored: tuple[Instr, Triple, Triple] | None
    ) -> None:
        instr, thread, cta = stored or (None, None, None)
        finding = SlowFinding(reason, message, instr, thread, cta, where)
        self.context.findings.add(finding)


def _is_access(instr: Instr) -> bool:
    found = match(instr.opcode)
    return found is not None and found.form.name in _ACCESSES


def _compared(decoder: Decoder, monitor: Monitor, pc: int, step: Step) -> Step:
    """A comparison that tells the monitor whether the values were equal."""
    instr = monitor.code[pc]
    target = instr.operands[0]
    load = decoder.load(target.first if isinstance(target, Pair) else target, "pred")
    wanted = "eq" in instr.opcode

    def watched(t: Thread) -> None:
        step(t)
        monitor.compared(t, pc, load(t) is wanted)

    return watched
