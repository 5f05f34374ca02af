"""The plan backend's kernels, one file a family: parameter records, and the choice of a kernel for a node."""
