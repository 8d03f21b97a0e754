"""The reproduction of the paper: figures, tables, baselines, benchmarks and drawn faces."""
