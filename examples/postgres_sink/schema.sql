-- Every memory at its newest version, also those that are superseded or forgotten.
CREATE TABLE memories (
    memory_id     text        PRIMARY KEY,
    version       bigint      NOT NULL,
    scope         text        NOT NULL,
    text          text        NOT NULL,
    status        text        NOT NULL,
    superseded_by text,       -- no foreign key: a table that began late may lack the successor
    created_at    timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    decision_id   text        NOT NULL,
    memory        json        NOT NULL -- all of it, as it came: jsonb would order its names
);

CREATE INDEX memories_live_by_scope ON memories (scope) WHERE status IN ('active', 'tentative');

CREATE VIEW live_memories AS SELECT * FROM memories WHERE status IN ('active', 'tentative');

-- How far the topic has been followed; written in the transaction that writes the memories.
CREATE TABLE memory_positions (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (topic, partition)
);
