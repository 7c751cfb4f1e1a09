"""Tables of a store, and which of them belong to the verifier.

Learner's side: what agents and memories saw and answered. Verifier's side: what was withheld
from them. ``timings`` and ``provenance`` hold every clock, latency and machine value, outside
the hash chains.
"""

STORE_VERSION = 2
APPLICATION_ID = 0x53334759  # "S3GY"

LEARNER_TABLES = """
CREATE TABLE studies (
  id TEXT PRIMARY KEY, game TEXT NOT NULL, game_version INTEGER NOT NULL, agent TEXT NOT NULL,
  memory TEXT NOT NULL, repeat INTEGER NOT NULL, spec TEXT NOT NULL, status TEXT NOT NULL,
  note TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE episodes (
  id TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id), phase TEXT NOT NULL,
  ordinal INTEGER NOT NULL, checkpoint INTEGER, rules TEXT NOT NULL, instruction TEXT NOT NULL,
  opening TEXT NOT NULL, max_steps INTEGER NOT NULL, n_steps INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'playing', start_hash TEXT NOT NULL
) STRICT;
CREATE INDEX episodes_by_study ON episodes(study, phase, ordinal);
CREATE TABLE steps (
  episode TEXT NOT NULL REFERENCES episodes(id), idx INTEGER NOT NULL, action TEXT NOT NULL,
  self_score REAL, note TEXT NOT NULL, status TEXT NOT NULL, repairs TEXT NOT NULL,
  raw TEXT NOT NULL, usage TEXT NOT NULL, recollection TEXT NOT NULL, outcome TEXT NOT NULL,
  feedback TEXT NOT NULL, done INTEGER NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (episode, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE recollections (
  hash TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER NOT NULL, sources TEXT NOT NULL,
  dropped INTEGER NOT NULL, n_steps INTEGER NOT NULL, cut INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
  hash TEXT PRIMARY KEY, role TEXT NOT NULL, content TEXT NOT NULL, stable INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE calls (
  study TEXT NOT NULL, place TEXT NOT NULL, step INTEGER NOT NULL, purpose TEXT NOT NULL,
  attempt INTEGER NOT NULL, chat TEXT NOT NULL, layout TEXT NOT NULL, request_hash TEXT NOT NULL,
  messages TEXT NOT NULL, seed INTEGER, max_tokens INTEGER NOT NULL, reply TEXT NOT NULL,
  finish TEXT NOT NULL, model TEXT NOT NULL, request_id TEXT NOT NULL,
  input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  PRIMARY KEY (study, place, step, purpose, attempt)
) STRICT, WITHOUT ROWID;
CREATE TABLE memory_versions (
  study TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, sources TEXT NOT NULL,
  state TEXT NOT NULL, PRIMARY KEY (study, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE updates (
  study TEXT NOT NULL, version INTEGER NOT NULL, outcome TEXT NOT NULL, start INTEGER NOT NULL,
  start_hash TEXT NOT NULL, explorer INTEGER NOT NULL, trainer TEXT NOT NULL, policy TEXT NOT NULL,
  sources TEXT NOT NULL, examples TEXT NOT NULL, n_examples INTEGER NOT NULL, chosen TEXT NOT NULL,
  location TEXT NOT NULL, weights TEXT NOT NULL, log TEXT NOT NULL, PRIMARY KEY (study, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE invalid_points (
  study TEXT NOT NULL, checkpoint INTEGER NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (study, checkpoint)
) STRICT, WITHOUT ROWID;
"""

VERIFIER_TABLES = """
CREATE TABLE secrets (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE verdicts (
  episode TEXT NOT NULL, idx INTEGER NOT NULL, reward REAL NOT NULL, legal INTEGER NOT NULL,
  terminated INTEGER NOT NULL, truncated INTEGER NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (episode, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE scores (
  episode TEXT PRIMARY KEY, study TEXT NOT NULL, phase TEXT NOT NULL, checkpoint INTEGER,
  seed INTEGER NOT NULL, score REAL NOT NULL, hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE seals (study TEXT PRIMARY KEY, root TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE abandoned (
  episode TEXT NOT NULL, attempt INTEGER NOT NULL, reason TEXT NOT NULL, steps TEXT NOT NULL,
  verdicts TEXT NOT NULL, PRIMARY KEY (episode, attempt)
) STRICT, WITHOUT ROWID;
"""

OTHER_TABLES = """
CREATE TABLE timings (
  kind TEXT NOT NULL, id TEXT NOT NULL, started TEXT NOT NULL, seconds REAL NOT NULL
) STRICT;
CREATE TABLE provenance (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE VIEW curves AS
  SELECT study, checkpoint, avg(score) AS score, count(*) AS episodes FROM scores
  WHERE phase = 'evaluation' GROUP BY study, checkpoint;
"""

SCHEMA = LEARNER_TABLES + VERIFIER_TABLES + OTHER_TABLES
VERIFIER_NAMES = frozenset({"secrets", "verdicts", "scores", "seals", "abandoned", "curves"})
"""Tables and views that a learner's connection is refused."""
