"""Translation validation for GPU kernels."""
