"""Write MobileNetV2, or another architecture, with seeded random weights: `.tir` is int8, `.onnx` is QDQ.

python scripts/mobilenet_v2.py build/mobilenet_v2_96.tir --resolution 96 --width 0.35
python scripts/mobilenet_v2.py build/unet.onnx --architecture unet_128
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sketches.architectures import ARCHITECTURES, mobilenet_v2
from sketches.graphs import int8_graph
from sketches.qdq import qdq_model
from trivet.ir.text.printer import print_graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="a .tir or .onnx file")
    parser.add_argument("--resolution", type=int, default=96)
    parser.add_argument("--width", type=float, default=0.35)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--architecture", choices=list(ARCHITECTURES), help="another network, as it is by default")
    arguments = parser.parse_args()
    if arguments.architecture:
        sketch = ARCHITECTURES[arguments.architecture]()
    else:
        sketch = mobilenet_v2(arguments.resolution, arguments.width, arguments.classes, arguments.seed)
    if arguments.output.suffix == ".onnx":
        arguments.output.write_bytes(qdq_model(sketch))
    elif arguments.output.suffix == ".tir":
        arguments.output.write_text(print_graph(int8_graph(sketch)), encoding="utf-8")
    else:
        parser.error(f"{arguments.output}: give a .tir or .onnx file")


if __name__ == "__main__":
    main()
