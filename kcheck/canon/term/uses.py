"""What uses a node: found anew whenever the graph has grown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcheck.canon.term.dag import DIV, MAX, Dag, Nodes

Bool = NDArray[np.bool_]


class Uses:
    """Uses of the nodes of a graph."""

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._divisors = np.zeros(0, bool)
        self._values = np.zeros(0, bool)

    def divides(self, nodes: Nodes) -> Bool:
        """Nodes that something is divided by."""
        if self._divisors.size < self._dag.count:
            self._divisors = self._marked(self._dag.args[1, self._dag.op == DIV])
        return (nodes >= 0) & self._divisors[np.maximum(nodes, 0)]

    def beside_maxima(self, nodes: Nodes) -> Bool:
        """Nodes that something else than a maximum uses."""
        if self._values.size < self._dag.count:
            self._values = self._marked(self._dag.args[:, self._dag.op != MAX])
        return self._values[nodes]

    def _marked(self, nodes: Nodes) -> Bool:
        """Flags of these nodes; node 0, which is what is no argument, may be among them."""
        out = np.zeros(self._dag.count, bool)
        out[nodes[nodes >= 0]] = True
        return out
