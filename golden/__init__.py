"""The golden model: pure integer functions, one per datapath block, and whole programs made of them."""
