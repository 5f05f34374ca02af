"""Kernel passes, one a file, and which of them run at which level."""
