"""For every operator class, random instances with operands: what the generic tests over ALL_OPS draw from.

One module a family, named as the operators' own module, each with a table STRATEGIES; one line here adds it.
"""

from __future__ import annotations

from hypothesis.strategies import SearchStrategy

from strategies import (
    activation,
    audio,
    border,
    conv,
    dynamic,
    elementwise,
    indexing,
    matmul,
    movement,
    pool,
    quantize,
    recurrent,
    recurrent_stored,
    reduce,
    resize,
    trees,
)
from strategies.operands import Instance
from trivet.ir.op import Op

STRATEGIES: dict[type[Op], SearchStrategy[Instance]] = {
    **border.STRATEGIES,
    **conv.STRATEGIES,
    **pool.STRATEGIES,
    **matmul.STRATEGIES,
    **reduce.STRATEGIES,
    **resize.STRATEGIES,
    **elementwise.STRATEGIES,
    **activation.STRATEGIES,
    **quantize.STRATEGIES,
    **indexing.STRATEGIES,
    **recurrent_stored.STRATEGIES,
    **recurrent.STRATEGIES,
    **trees.STRATEGIES,
    **audio.STRATEGIES,
    **dynamic.STRATEGIES,
    **movement.STRATEGIES,
}
