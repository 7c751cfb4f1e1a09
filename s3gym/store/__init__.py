"""The store: one SQLite file per run, a learner's half and a verifier's half."""
