"""Kernels executed: all lanes at once, and one thread at a time."""
