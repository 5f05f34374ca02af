"""tflite."""
