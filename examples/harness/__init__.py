"""The shared parts of the programs that measure, here and in scripts/: arguments, children, results, tables, pictures."""
