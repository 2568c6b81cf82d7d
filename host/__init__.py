"""The host: devices, lowering, planning, assembling, training, command line."""
