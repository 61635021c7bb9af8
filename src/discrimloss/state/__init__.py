"""The per-sample state: rows, ids, shards, processes, files."""
