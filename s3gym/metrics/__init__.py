"""Metrics of the paper and the statistics beyond it."""
