"""All builders, by the name of their form."""

from __future__ import annotations

from kcheck.semantics.atomic_builders import ATOMIC_BUILDERS
from kcheck.semantics.collective_builders import COLLECTIVE_BUILDERS
from kcheck.semantics.conversion_builders import CONVERSION_BUILDERS
from kcheck.semantics.copy_builders import COPY_BUILDERS
from kcheck.semantics.decode import Builder
from kcheck.semantics.float_builders import FLOAT_BUILDERS
from kcheck.semantics.integer_builders import INTEGER_BUILDERS
from kcheck.semantics.integer_mma import mma
from kcheck.semantics.library_builders import LIBRARY_BUILDERS
from kcheck.semantics.memory_builders import MEMORY_BUILDERS
from kcheck.semantics.move_builders import MOVE_BUILDERS
from kcheck.semantics.warp_builders import WARP_BUILDERS

BUILDERS: dict[str, Builder] = {
    **INTEGER_BUILDERS,
    **FLOAT_BUILDERS,
    **CONVERSION_BUILDERS,
    **MOVE_BUILDERS,
    **MEMORY_BUILDERS,
    **ATOMIC_BUILDERS,
    **COLLECTIVE_BUILDERS,
    **COPY_BUILDERS,
    **WARP_BUILDERS,
    "mma.int": mma,
    **LIBRARY_BUILDERS,
}
