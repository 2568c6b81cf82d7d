"""The host link. Bytes of a serial line enter; accesses to registers and memory leave, and answers return on the line.

- link, byte_link: the link with its line, and without it; uart: the line
- frames, frame_buffer: checked bodies from bytes and back; a buffer of whole requests
- executor, access: carry out requests, by accesses one at a time
"""
