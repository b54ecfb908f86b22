"""Which cells an address means, and whether it may be accessed."""

from __future__ import annotations

from kcheck.ptx_frontend.tree import Instr, Mem, Operand, Reg, Sym
from kcheck.semantics.slow.errors import Unsupported
from kcheck.semantics.slow.layout import SHARED_BASE, STRETCH, WINDOWS
from kcheck.semantics.slow.memory import Memory
from kcheck.semantics.slow.operands import Decoder, Get
from kcheck.semantics.slow.state import Thread
from kcheck.semantics.slow.units import Home, Pointer, Undef, Unit, as_int

Place = tuple[Memory, int, Home | None] | None

_SPACES = {window >> 56: space for space, window in WINDOWS.items()}


class Accessor:
    """Resolves the addresses of one memory operand.

    `space`: as the instruction says it, "" for generic. `nbytes`: of the whole access.
    `writes`: a store. Findings go to the thread's CTA; a place of None means: drop the access.
    """

    def __init__(
        self,
        decoder: Decoder,
        instr: Instr,
        operand: Operand,
        space: str,
        nbytes: int,
        writes: bool,
    ) -> None:
        if not isinstance(operand, Mem) or operand.coords:
            raise Unsupported("unsupported.operand")
        self.instr = instr
        self.space = space.partition("::")[0]
        self.nbytes = nbytes
        self.writes = writes
        self.layout = decoder.context.layout
        self.offset = operand.offset
        base = operand.base
        if isinstance(base, Sym):
            if base.name not in self.layout.symbols:
                raise Unsupported("unsupported.operand")
            self.space = self.layout.symbols[base.name][0]
        self.bits = 64
        if isinstance(base, Reg) and base.name in decoder.slots:
            self.bits = min(64, decoder.width(base))
        self.get: Get = decoder.raw(base, self.bits)

    def place(self, t: Thread, nbytes: int | None = None) -> Place:
        """The memory and the byte offset in it (and the buffer, where it is known)."""
        size = self.nbytes if nbytes is None else nbytes
        unit = self.get(t)
        value = unit if isinstance(unit, int) else as_int(unit, self.bits)
        if isinstance(value, Undef):
            self._find(t, "undefined.address", "the address is undefined", "")
            return None
        home = unit.home if isinstance(unit, Pointer) else None
        address = (value + self.offset) & ((1 << self.bits) - 1)
        space = self.space
        if not space:
            space = home.space if home else _SPACES.get(address >> 56, "global")
            address -= WINDOWS.get(space, 0)
        return self._checked(t, space, address, size, home)

    def _checked(self, t: Thread, space: str, address: int, size: int, home: Home | None) -> Place:
        home = home or self._by_value(space, address)
        if home is not None and home.space != space and (space, home.space) != ("param", "local"):
            where = self._where(home, address)
            self._find(t, f"bounds.{space}", f"{where} lies in {home.space} memory", where)
            return None
        if home is None or not home.low <= address <= home.high - size:
            where = self._where(home, address) if home else f"{space} address {address:#x}"
            much = f", which has {home.high - home.low} bytes" if home else ""
            self._find(
                t,
                f"bounds.{home.space if home else space}",
                f"{size} bytes at {where}{much}",
                where,
            )
            return None
        if address % self.nbytes:
            where = self._where(home, address)
            message = f"{self.nbytes} bytes at {where}, which is not a multiple of their number"
            self._find(t, "bounds.misaligned", message, where)
            return None
        return self._memory(t, space, address, home)

    def _memory(self, t: Thread, space: str, address: int, home: Home) -> Place:
        if space == "shared":
            return t.cta.shared, address, home
        if space == "local":
            return t.local, address, home
        if space == "param":
            if self.writes:
                raise Unsupported("unsupported.store-to-param")
            return self.layout.params, address, home
        region = self.layout.globals[home.low >> STRETCH]
        if self.writes and region.readonly:
            where = self._where(home, address)
            self._find(t, "bounds.readonly", f"a store to {where}, which is an input", where)
            return None
        return region.memory, address - region.base, home

    def _by_value(self, space: str, address: int) -> Home | None:
        if space == "shared":
            return Home("shared", "shared", SHARED_BASE, self.layout.shared_end)
        if space in ("global", "const"):
            region = self.layout.globals.get(address >> STRETCH)
            return region.home if region else None
        homes = (pointer.home for s, pointer in self.layout.symbols.values() if s == space)
        return next((h for h in homes if h and h.low <= address < h.high), None)

    def _where(self, home: Home, address: int) -> str:
        """`buffer[+bytes]`; an address that wrapped lies before the buffer."""
        half = 1 << self.bits - 1
        distance = (address - home.low + half) % (2 * half) - half
        return f"{home.name}[{distance:+d}]"

    def _find(self, t: Thread, reason: str, message: str, address: str) -> None:
        t.cta.find(reason, message, self.instr, t, address)


def note_undef(t: Thread, instr: Instr, home: Home | None, offset: int, unit: Unit) -> None:
    """Remember who stored an undefined value to a buffer."""
    if home is not None and home.space == "global" and not isinstance(unit, int):
        t.cta.context.undef_stores[home.name, offset] = (instr, t.tid, t.cta.index)
