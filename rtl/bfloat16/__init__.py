"""A PE for bfloat16 operands, built only to compare number formats."""
