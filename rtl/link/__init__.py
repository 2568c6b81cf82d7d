"""The host link: a serial line with frames, checksums and retries."""
