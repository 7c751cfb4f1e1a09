"""Sweeps beyond one process: a folder with a store per study, and the engines that fill it.

Everything here but an engine's own module works without that engine's packages.
"""
