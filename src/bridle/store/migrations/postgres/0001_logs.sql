-- The logs of agents, the snapshots of their folds, and who may call.

CREATE TABLE agents (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    head_seq bigint NOT NULL,
    head_hash bytea NOT NULL,
    created double precision NOT NULL,
    origin text
) WITH (fillfactor = 50);  -- The head changes with every commit: room for it on the same page.

-- The chain. It is only ever appended to.
CREATE TABLE entries (
    agent bigint NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    payload_hash bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (agent, seq)
);

-- What can be erased. `place` is agent * 2^40 + seq, as in SQLite's.
CREATE TABLE payloads (
    place bigint NOT NULL PRIMARY KEY,
    salt bytea NOT NULL,
    payload bytea NOT NULL
);

CREATE TABLE names (
    agent bigint NOT NULL,
    space text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    digest bytea,
    PRIMARY KEY (agent, space, id)
);

-- For copies, which go by sequence.
CREATE INDEX names_by_seq ON names (agent, seq);

-- `hash` is the chain's at `seq`, `sha256` the blob's.
CREATE TABLE snapshots (
    agent bigint NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    sha256 bytea NOT NULL,
    blob bytea NOT NULL,
    PRIMARY KEY (agent, seq)
);

CREATE TABLE tokens (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    hash bytea NOT NULL,
    role text NOT NULL,
    agents text,
    created double precision NOT NULL,
    expires double precision,
    revoked double precision,
    note text NOT NULL
);
