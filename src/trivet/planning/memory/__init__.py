"""Addresses of buffers: the problem, its solvers, and a validator that shares no code with them."""
