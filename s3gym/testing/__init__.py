"""Conformance checks and fakes, for our tests and for outsiders."""
