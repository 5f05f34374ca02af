"""TFLite files to graphs."""

from trivet.frontends.tflite.convert import load

__all__ = ["load"]
