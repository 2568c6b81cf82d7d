"""The update unit. UPDATE and ADAM commands enter; it reads gradients, weights and moments from DRAM and writes new
ones. Maxima, quality sums and completions leave, to control.

- update: the unit, which joins the others; control: its steps for each command; check: alignment and write regions
- arrays, chunks: the arrays, groups and pieces in which they pass through; reader, writer: between DRAM and groups
- sgd_lane: SGD with momentum; folded_sgd_lane: the same in several cycles, of fewer parts; adam, adam_lane,
  adam_factors: Adam for the predictor; adam_rate: its learning rate
- rounder: the end of each sum; quality, third_result: sums that judge predictions; random_signs: a gradient source;
  filter_ends: places of biases, which aren't predicted
"""
