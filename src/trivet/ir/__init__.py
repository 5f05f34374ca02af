"""The graph: operators' contract, values, nodes, invariants, text form."""
