"""The version of the whole package: what `trivet --version` prints and what artifacts record."""

__version__ = "0.1.0"
