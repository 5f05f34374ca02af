"""Networks with seeded random weights: an architecture is sketched once, and written as int8 graph or ONNX."""
