"""Hooks into compilers: what their optimizations did to a kernel, and which one was wrong."""
