"""The drain engine. DRAIN descriptors, finished psums or pooled vectors, biases and operand C enter; results leave to
pad C, their maximum to control.

- drain: the engine, which joins the others; walk: its loops; lanes: masks, shifts and addresses of each lane
- epilogue: scaling, bias, C operand, ReLU, rounding and saturation; folding: a vector through few lanes; activation:
  bound and slope of a ReLU; bias: memory of the biases, and the walk through it
- reorganise: sums of a layer's results by filter and window, for the predictor; window_walk: the windows of each pixel;
  filter_terms, pixel_terms: sums of vectors; window_sums: memory of the sums
"""
