"""Duckflow: an AI coding companion for the terminal. Importing this package loads nothing else."""

__version__ = "0.1.0"
