"""Trivet: an ahead-of-time compiler that fits neural networks into machines with kilobytes."""
