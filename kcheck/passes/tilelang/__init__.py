"""TileLang: lower a prim_func, take one optimization away at a time, validate what it compiles."""
