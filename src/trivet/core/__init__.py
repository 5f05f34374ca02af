"""Values without a graph: element types, quantization, intervals, axis rules, locations, bytes."""
