"""Graph to graph: the pass manager, the specs between passes, and one pass a file."""
