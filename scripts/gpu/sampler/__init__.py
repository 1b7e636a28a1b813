"""What scripts/gpu/truth.py samples: the families, the cases that are drawn of each, and when a result is wrong.

`draw` has random sizes and choices, `families` the table of families, and a module for each group of them draws a case
as a dictionary of plain values. `verdict` compares a case's errors with plain's. Nothing here needs PyTorch.
"""
