"""Sealed runs: agent and memory in a child process that gets turns and sends decisions.

``seal`` says what is sealed against whom and checks it, ``lines`` is the pipe, ``child`` runs on
the far side, ``process`` and ``proxies`` are what the study sees in place of agent and memory.
"""
