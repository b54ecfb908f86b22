"""The log of accesses to one memory: who touched which byte, when, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcheck.semantics.slow.clocks import Chain, Knowledge
from kcheck.semantics.slow.units import Home, Unit
from kcheck.semantics.strength import Kind

if TYPE_CHECKING:
    from kcheck.semantics.slow.state import Thread

WORD = 4


class Window:
    """One cp.async: open until the issuing thread waited for it, at its time `done`."""

    __slots__ = ("agent", "done")

    def __init__(self, agent: int) -> None:
        self.agent = agent
        self.done: int | None = None


@dataclass(eq=False)
class Access:
    """One access. `serial`: the number of a strong write as an agent. `values`: what a plain
    store wrote, per element of `width` bytes. `instance`: how often the thread had executed the
    instruction since its last barrier. `operations`: what it may be exchanged with.
    """

    thread: Thread
    knowledge: Knowledge
    kind: Kind
    time: int
    offset: int
    nbytes: int
    home: Home | None
    writes: bool
    window: Window | None = None
    serial: int = 0
    values: list[Unit] = field(default_factory=list[Unit])
    width: int = 0
    instance: int = 0
    operations: frozenset[str] = frozenset()


Key = tuple[int, int, int]


class Word:
    """The accesses to one word by (agent, instruction, bytes): the last one of each."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads: dict[Key, Access] = {}
        self.writes: dict[Key, Access] = {}


class Log:
    """The accesses to a memory by word, and what its cells tell readers."""

    def __init__(self) -> None:
        self.words: dict[int, Word] = {}
        self.chains: dict[int, Chain] = {}

    def word(self, index: int) -> Word:
        """The word of an index, made if need be."""
        word = self.words.get(index)
        if word is None:
            word = self.words[index] = Word()
        return word


def pieces(offset: int, nbytes: int) -> Iterator[tuple[int, int]]:
    """The words that bytes lie in, each with the mask of the bytes."""
    end = offset + nbytes
    while offset < end:
        word, at = divmod(offset, WORD)
        stop = min(WORD, end - word * WORD)
        yield word, (1 << stop) - (1 << at)
        offset = (word + 1) * WORD
