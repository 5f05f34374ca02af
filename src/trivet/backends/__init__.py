"""Artifacts out: one package per target, and what they share."""
