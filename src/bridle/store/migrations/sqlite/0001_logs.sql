-- The logs of agents, the snapshots of their folds, and who may call.

CREATE TABLE agents (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    created REAL NOT NULL,
    origin TEXT
);

-- The chain. It is only ever appended to.
CREATE TABLE entries (
    agent INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload_hash BLOB NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (agent, seq)
) WITHOUT ROWID;

-- What can be erased. `place` is agent * 2^40 + seq: the key of a table with rowids, whose leaves
-- take payloads of any length, where those without would send long ones to overflow pages.
CREATE TABLE payloads (
    place INTEGER PRIMARY KEY,
    salt BLOB NOT NULL,
    payload BLOB NOT NULL
);

CREATE TABLE names (
    agent INTEGER NOT NULL,
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    digest BLOB,
    PRIMARY KEY (agent, space, id)
) WITHOUT ROWID;

-- For copies, which go by sequence.
CREATE INDEX names_by_seq ON names (agent, seq);

-- `hash` is the chain's at `seq`, `sha256` the blob's.
CREATE TABLE snapshots (
    agent INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    blob BLOB NOT NULL,
    UNIQUE (agent, seq)
);

CREATE TABLE tokens (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    role TEXT NOT NULL,
    agents TEXT,
    created REAL NOT NULL,
    expires REAL,
    revoked REAL,
    note TEXT NOT NULL
);

-- One row, changed by a commit that does nothing else: see `_settle` in sqlite.py.
CREATE TABLE settled (times INTEGER NOT NULL);
INSERT INTO settled VALUES (0);
