"""Functions of arrays, in NumPy's words, as kernels that are compared with others."""
