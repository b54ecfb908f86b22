"""The term engine: values as a graph of operations, equal if their normal forms are."""
