"""PTX text in, kernels out."""
