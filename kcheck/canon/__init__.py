"""What a value is, and when two are equal."""
