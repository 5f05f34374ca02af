"""C modules: a plan unrolled into C99 that compiles alone, with the kernels that it needs and nothing else."""
