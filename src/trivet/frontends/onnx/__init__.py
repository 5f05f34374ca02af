"""ONNX models in: `convert.load`. The only package that knows the `onnx` library."""
