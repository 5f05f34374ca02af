"""Emulated devices: builds a plan or a module for a machine, runs it there, and counts what it takes."""
