"""The tiny GPU: a SIMT machine with eight registers a thread, its assembly, and a simulator of it."""
