"""One kernel with its optimizations taken away, and given back one by one.

A rung is the whole pipeline with some optimizations off: a module in the middle of the pipeline
can't go to codegen. Optimizations are switched by pass configs, or their passes are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from kcheck.passes.tilelang import nvcc
from kcheck.passes.tilelang.lowering import LINES, OWN, Lowered, lower
from kcheck.passes.tilelang.request import FLAGS, Request

NONE, ALL = "none", "all"


@dataclass(frozen=True)
class Optimization:
    """A name, and how it is switched off: configs that are set, passes that do not run."""

    name: str
    configs: Mapping[str, Any]
    passes: frozenset[str] = frozenset()


def _by(name: str, *passes: str, **configs: Any) -> Optimization:
    dotted = {key.replace("__", "."): value for key, value in configs.items()}
    return Optimization(name, dotted, frozenset(passes))


# in the order in which they come back; cp.async needs vectorized copies
OPTIMIZATIONS = (
    _by("vectorize", tirx__disable_vectorize=True),
    _by("software_pipeline", "tl.PipelinePlanning", "tl.InjectSoftwarePipeline"),
    _by("async_copy", tirx__use_async_copy=False),
    _by("warp_specialize", tl__disable_warp_specialized=True),
    _by("wgmma", tl__disable_wgmma=True),
    _by("fuse_mbarrier", "tl.FuseMBarrierArriveExpectTx"),
    _by("storage_rewrite", "tir.StorageRewrite"),
    _by("loop_unswitch", tl__disable_loop_unswitching=True),
    _by("split_pattern", "s_tir.RenormalizeSplitPattern"),
    _by("hoist_if", "s_tir.HoistIfThenElse", "s_tir.InsertHoistIfThenElse"),
    _by("merge_if", "tl.MergeIfStmt"),
    _by("smem_reuse", tl__disable_shared_memory_reuse=True),
    _by("shuffle_elect", tl__disable_shuffle_elect=True),
    _by("reg_alloc", "tl.AnnotateWarpGroupRegAlloc"),
)
# configs of the user that belong to every rung: they say how to compile, not what
EVERYWHERE = frozenset(
    {FLAGS, "tl.ptxas_register_usage_level", "tl.disable_out_of_bound_warning"}
    | {"tl.disable_buffer_init_check", "tl.disable_data_race_check"}
    | {"tl.disable_prelower_semantic_check", "cuda.kernels_output_dir"}
)
# and those that are left out: they make output for people
IGNORED = frozenset(
    {LINES, "tl.enable_dump_ir", "tl.dump_ir_path", "tl.pass_profile"}
    | {"tl.pass_profile_threshold_ms", "tl.ast_print_enable", "tl.layout_visualization_enable"}
    | {"tl.layout_visualization_formats"}
)


class Rung:
    """One point of the ladder: what is on, what it lowers to, and its PTX (made when asked for)."""

    def __init__(self, name: str, request: Request, lowered: Lowered) -> None:
        self.name = name
        self.request = request
        self.lowered = lowered
        self._lock = Lock()
        self._ptx: str | None = None

    @property
    def source(self) -> str:
        """The CUDA text."""
        return self.lowered.source

    @property
    def ptx(self) -> str:
        """The PTX with line numbers. nvcc.CompileError."""
        with self._lock:
            if self._ptx is None:
                self._ptx = nvcc.ptx(self.source, self.request)
            return self._ptx

    @cached_property
    def normalized(self) -> str:
        """The PTX without what changes from call to call."""
        return nvcc.normalized(self.ptx)

    @cached_property
    def places(self) -> dict[int, int]:
        """PTX line -> CUDA line."""
        return nvcc.loc_lines(self.ptx)


def foreign(passes: Sequence[str]) -> tuple[str, ...]:
    """Passes that are not tilelang's own, each once."""
    return tuple(dict.fromkeys(name for name in passes if not name.startswith(OWN)))


@dataclass(frozen=True)
class Step:
    """A rung before it is lowered: what is switched. `foreign`: with passes of others."""

    name: str
    configs: Mapping[str, Any]
    skipped: frozenset[str]
    foreign: bool = True


def steps(request: Request, added: Sequence[str] = ()) -> list[Step]:
    """The rungs from none to all: tilelang's optimizations, passes that were `added` to its
    pipeline, then what the user's own pass configs change.
    """
    base, own = _split(request.configs)
    extras = [Optimization(name, {}, frozenset({name})) for name in added]
    every = [*OPTIMIZATIONS, *extras]
    found = []
    for on in range(len(every) + 1):
        off = every[on:]
        configs = dict(base)
        for optimization in off:
            configs |= optimization.configs
        skipped = frozenset[str]().union(*(o.passes for o in off))
        name = every[on - 1].name if on else NONE
        found.append(Step(name, configs, skipped, foreign=on > len(OPTIMIZATIONS)))
    configs = dict(base)
    for key, value in own.items():
        configs[key] = value
        found.append(Step(key, dict(configs), frozenset()))
    return found


def _split(configs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user's configs: those of every rung, and those that get rungs of their own.

    One that only switches an optimization off is for every rung: there is nothing to check.
    """
    off = {key: value for o in OPTIMIZATIONS for key, value in o.configs.items()}
    base: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in configs.items():
        if key in IGNORED:
            continue
        everywhere = key in EVERYWHERE or (key in off and off[key] == value)
        (base if everywhere else own)[key] = value
    return base, own


class Ladder:
    """The rungs of a request, lowered when asked for; rungs of one CUDA text and launch are one.

    What can't be lowered stands for the rung below it, and is named in `missing`.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.missing: dict[str, str] = {}
        self._rungs: dict[int, Rung] = {}

    @cached_property
    def last(self) -> Rung:
        """The ordinary compile."""
        return Rung(ALL, self.request, lower(self.request, self.own))

    @property
    def own(self) -> dict[str, Any]:
        """The user's configs, without those that make output for people."""
        return {k: v for k, v in self.request.configs.items() if k not in IGNORED}

    @cached_property
    def steps(self) -> list[Step]:
        """What is switched from rung to rung."""
        return steps(self.request, foreign(self.last.lowered.passes))

    def _from_below(self) -> Iterator[Step]:
        """The steps. For those without passes of others the ordinary compile need not be known."""
        bare = steps(self.request)[: len(OPTIMIZATIONS) + 1]
        yield from bare
        yield from self.steps[len(bare) :]

    @cached_property
    def start(self) -> int:
        """The rung with the least optimizations that can be lowered. Raises what the last one
        raises if none can.
        """
        failed = None
        for at, step in enumerate(self._from_below()):
            try:
                self._rungs[at] = self._lower(step)
            except Exception as error:
                failed = error
                self.missing[step.name] = _first_line(error)
            else:
                return at
        assert failed is not None  # a ladder has a rung
        raise failed

    @property
    def first(self) -> Rung:
        """The lowest rung."""
        return self.rung(self.start)

    def rung(self, at: int) -> Rung:
        """The rung of a step, not below `start`."""
        if at not in self._rungs and at > self.start:
            step = self.steps[at]
            try:
                made = self._lower(step)
            except Exception as error:
                self.missing[step.name] = _first_line(error)
                made = self.rung(at - 1)
            known = (rung for rung in (*self._rungs.values(), self.last))
            self._rungs[at] = next((r for r in known if same(r.lowered, made.lowered)), made)
        return self._rungs[at]

    def _lower(self, step: Step) -> Rung:
        lowered = lower(self.request, step.configs, step.skipped, step.foreign)
        return Rung(step.name, self.request, lowered)


def same(one: Lowered, other: Lowered) -> bool:
    """The same CUDA text under the same launch."""
    return one.source == other.source and one.launch == other.launch


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def first_bad(low: int, high: int, good: Callable[[int], bool]) -> int:
    """A place above `low` that is not good, behind one that is (or is `low`), by bisection;
    `high` is not good.
    """
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return high
