"""A PE for bfloat16 operands, built only to compare number formats with the integer PE of compute/.

- pe: the processing element; its operands are bfloat16, its psums float32
- multiplier: exact products; adder: float32 sums
- format: the number formats, field by field
"""
