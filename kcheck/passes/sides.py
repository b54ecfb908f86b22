"""One side of a comparison: PTX with its launch, and where its lines come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kcheck.launch import Launch
from kcheck.launch_file import SUFFIX, dump_launch
from kcheck.ptx_frontend.kernel import Kernel
from kcheck.ptx_frontend.lower import lower
from kcheck.ptx_frontend.parser import parse
from kcheck.verdict import Difference, Finding, Location, Verdict

# PTX line -> the places that it was made from
Origin = Callable[[int], tuple[str, ...]]


@dataclass(frozen=True)
class Side:
    """`name`: of the side's files in a report; `normalized`: the PTX without what changes from
    call to call; `cuda`: the text that the PTX was made from, if there is one.
    """

    name: str
    ptx: str
    normalized: str
    launch: Launch
    origin: Origin = lambda line: ()
    cuda: str | None = None

    @property
    def file(self) -> str:
        """What reports call the PTX."""
        return f"{self.name}.ptx"

    def kernel(self) -> Kernel:
        """The PTX, parsed. PtxError."""
        return lower(parse(self.ptx, self.file), self.launch.kernel)

    @property
    def content(self) -> tuple[str, str]:
        """What a verdict about this side depends on."""
        return self.normalized, dump_launch(replace(self.launch, path=""))

    def write(self, folder: Path) -> None:
        """The side's files."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {".ptx": self.ptx, SUFFIX: dump_launch(self.launch), ".cu": self.cuda}
        for suffix, text in texts.items():
            if text is not None:
                (folder / f"{self.name}{suffix}").write_text(text, encoding="utf-8")


def placed(verdict: Verdict, *sides: Side) -> Verdict:
    """The verdict with the places in the source that its instructions come from."""
    origins = {side.file: side.origin for side in sides}
    return replace(verdict, findings=tuple(_placed(f, origins) for f in verdict.findings))


def _placed(finding: Finding, origins: Mapping[str, Origin]) -> Finding:
    def of(place: Location | None) -> Location | None:
        if place is None or place.file not in origins:
            return place
        return replace(place, source=origins[place.file](place.line))

    found = finding.first_difference
    difference = found and Difference(
        found.reference, found.subject, of(found.reference_at), of(found.subject_at)
    )
    places = tuple(place for place in map(of, finding.locations) if place is not None)
    return replace(finding, locations=places, first_difference=difference)
