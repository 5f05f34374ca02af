"""Rewrites of a program, one a file, in the order in which they run."""
