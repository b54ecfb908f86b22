"""The slow evaluator: a kernel run one thread at a time, in plain Python (DESIGN.md 4 to 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcheck.launch import FLOATS, Launch, Tensor
from kcheck.ptx_frontend.forms import match
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.tree import Instr
from kcheck.semantics.slow import (  # noqa: F401  (they fill the table of handlers)
    access,
    bits,
    compare,
    control,
    convert,
    floats,
    integer,
    mma,
    move,
    warp,
)
from kcheck.semantics.slow.decode import decode
from kcheck.semantics.slow.errors import Triple
from kcheck.semantics.slow.layout import Layout, float_format
from kcheck.semantics.slow.memory import Region
from kcheck.semantics.slow.numbers import Number
from kcheck.semantics.slow.operands import Decoder
from kcheck.semantics.slow.scheduler import Scheduler
from kcheck.semantics.slow.state import Context, Cta, Findings, SlowFinding, chance
from kcheck.semantics.slow.units import (
    UNWRITTEN,
    Real,
    Undef,
    Unit,
    Unwritten,
    as_int,
    as_real,
)

BUDGET = 50_000_000
_ACCESSES = frozenset({"ld", "st", "atom.add", "red.add", "cp.async"})

Output = int | Real | Undef | Unwritten


@dataclass(frozen=True)
class SlowResult:
    """What a run left behind.

    `outputs`: per `out` and `inout` tensor one item per element of memory: an int, a `Real`,
    UNDEF, or UNWRITTEN. `findings`: capped (`seen` counts all). `steps`: instructions executed.
    """

    outputs: dict[str, list[Output]]
    findings: list[SlowFinding]
    seen: int
    steps: int


class SlowMachine:
    """One run of a kernel on given inputs.

    `inputs`: tensor (or symbolic scalar) name -> its elements in memory order, anything that
    `numbers.of` takes for floats, ints for the rest; an `in` or `inout` tensor without an entry
    needs `values` in the launch. `numbers`: Exact, Enclosure, Double. `ctas`: linear indices, x
    fastest; all by default. `seed`: None runs threads and CTAs in order; else a random schedule
    that barriers allow. `budget`: instructions in all.

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
    ) -> None:
        layout = Layout(kernel, launch, inputs, numbers)
        self.context = Context(kernel, launch, numbers, layout, Findings(), {})
        self.budget = budget
        self.chance = chance(seed)
        self.ctas = list(range(launch.ctas) if ctas is None else ctas)
        self.decoder = Decoder(self.context)
        self.steps = [decode(self.decoder, instr) for instr in kernel.code]
        self.accesses = [_is_access(instr) for instr in kernel.code]

    def run(self) -> SlowResult:
        """Run the CTAs one after another."""
        if self.chance:
            self.chance.shuffle(self.ctas)
        used = 0
        for index in self.ctas:
            cta = Cta(self.context, index, len(self.decoder.slots))
            left = self.budget - used
            scheduler = Scheduler(cta, self.steps, self.accesses, left, self.chance)
            scheduler.run()
            used += scheduler.used
        outputs = {
            name: self._output(tensor, region)
            for name, (tensor, region) in self.context.layout.tensors.items()
            if tensor.role != "in"
        }
        findings = self.context.findings
        return SlowResult(outputs, findings.kept, findings.seen, used)

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
