"""The tiny TPU: a systolic array of int8 multipliers, from a legal graph to a schedule and its simulator."""
