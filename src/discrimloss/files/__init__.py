"""Atomic writes, checksums, and locks between processes."""
