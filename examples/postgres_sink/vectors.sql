-- Beside schema.sql, for EMBEDDING_MODEL: every wording of each live memory, with its vector.
CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE memory_wordings (
    memory_id text        NOT NULL REFERENCES memories ON DELETE CASCADE,
    number    integer     NOT NULL, -- 0 is the memory's text, the others are its variants
    text      text        NOT NULL,
    embedding vector(384) NOT NULL, -- as many numbers as your model gives
    PRIMARY KEY (memory_id, number)
);

CREATE INDEX memory_wordings_by_vector ON memory_wordings USING hnsw (embedding vector_cosine_ops);
