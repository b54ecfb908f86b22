"""True formats and rounding: arithmetic on arrays of bit patterns (engine 3 of DESIGN.md 6)."""
