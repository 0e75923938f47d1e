-- Ids are bytea, not text: they order by their bytes and hold any character, whatever the database's collation and
-- encoding. Times are nanoseconds since 1970. No foreign keys, triggers or sequences: the row in tasks orders everything.

-- +goose Up

-- One row per id: backend.Row, the head, and the two lists as they were last written whole. stamp is a random number that
-- every change of the row, and of what hangs on it, replaces: a write names the stamp that it has seen.
--
-- The long columns go out of line by themselves when they are large, and then a change of the row copies pointers only.
CREATE TABLE a2a_taskstore.tasks (
    tenant         bytea    NOT NULL,
    task_id        bytea    NOT NULL,
    -- What most changes leave as it is comes first and last, and so is left out of the write-ahead log.
    kind           smallint NOT NULL,
    final          boolean  NOT NULL,
    artifact_rows  boolean  NOT NULL, -- the artifacts are rows of artifacts; the column is empty
    message_rows   boolean  NOT NULL, -- rows of messages follow the column
    owner          bytea    NOT NULL,
    context_id     bytea    NOT NULL,
    incarnation    bigint   NOT NULL,
    created        bigint   NOT NULL,
    start_seq      bigint   NOT NULL,
    first_seq      bigint   NOT NULL,
    dropped_mark   bigint   NOT NULL,
    final_seq      bigint   NOT NULL,
    finalized      bigint   NOT NULL,
    seconds        bigint   NOT NULL, -- status timestamp; the smallest bigint is none
    nanos          integer  NOT NULL,
    state          integer  NOT NULL,
    artifact_count bigint   NOT NULL,
    message_count  bigint   NOT NULL,
    stamp          bigint   NOT NULL,
    version        bigint   NOT NULL,
    last_seq       bigint   NOT NULL,
    log_events     bigint   NOT NULL,
    log_bytes      bigint   NOT NULL,
    updated        bigint   NOT NULL,
    touched        bigint   NOT NULL,
    write_seq      bigint   NOT NULL,
    size           bigint   NOT NULL,
    artifact_bytes bigint   NOT NULL,
    write_id       bytea    NOT NULL,
    head           bytea    NOT NULL,
    artifacts      bytea    NOT NULL,
    history        bytea    NOT NULL,
    PRIMARY KEY (tenant, task_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- A list walks one of these backwards or forwards, and filters by state on the way.
CREATE INDEX tasks_by_time ON a2a_taskstore.tasks
    (tenant, seconds DESC, nanos DESC, task_id DESC) WHERE kind = 2;
CREATE INDEX tasks_by_owner ON a2a_taskstore.tasks
    (tenant, owner, seconds DESC, nanos DESC, task_id DESC) WHERE kind = 2;
CREATE INDEX tasks_by_context ON a2a_taskstore.tasks
    (tenant, context_id, seconds DESC, nanos DESC, task_id DESC) WHERE kind = 2;

-- The artifacts of a task that a delta has taken apart. digest stands for the artifact's id, which has no bound. The parts
-- that came later are in artifact_parts, so that appending one costs what it weighs.
CREATE TABLE a2a_taskstore.artifacts (
    tenant     bytea  NOT NULL,
    task_id    bytea  NOT NULL,
    pos        bigint NOT NULL,
    digest     bytea  NOT NULL,
    fields     bytea  NOT NULL,
    parts      bytea  NOT NULL,
    part_count bigint NOT NULL,
    PRIMARY KEY (tenant, task_id, pos)
);
CREATE INDEX artifacts_by_id ON a2a_taskstore.artifacts (tenant, task_id, digest);

-- The parts appended to an artifact, in the order of the versions that appended them, with the artifact's totals so far.
CREATE TABLE a2a_taskstore.artifact_parts (
    tenant     bytea  NOT NULL,
    task_id    bytea  NOT NULL,
    pos        bigint NOT NULL,
    version    bigint NOT NULL,
    parts      bytea  NOT NULL,
    part_total bigint NOT NULL,
    byte_total bigint NOT NULL,
    PRIMARY KEY (tenant, task_id, pos, version)
);

-- Messages behind those in tasks.history, in order of version and index: entries of the encoded list, tags included.
-- Version 0 is the list that was in tasks.history.
CREATE TABLE a2a_taskstore.messages (
    tenant  bytea  NOT NULL,
    task_id bytea  NOT NULL,
    version bigint NOT NULL,
    idx     bigint NOT NULL,
    entry   bytea  NOT NULL,
    PRIMARY KEY (tenant, task_id, version, idx)
);

-- write_idx is the event's place among those of its append.
CREATE TABLE a2a_taskstore.events (
    tenant    bytea  NOT NULL,
    task_id   bytea  NOT NULL,
    seq       bigint NOT NULL,
    mark      bigint NOT NULL, -- backend.Mark: version and kind
    origin    bytea  NOT NULL,
    write_id  bytea  NOT NULL,
    write_idx bigint NOT NULL,
    created   bigint NOT NULL,
    event     bytea  NOT NULL,
    PRIMARY KEY (tenant, task_id, seq)
);
CREATE INDEX events_by_write ON a2a_taskstore.events (tenant, task_id, write_id) WHERE write_id <> '';

-- owned tells the keys of an owner from those of the unset scope.
CREATE TABLE a2a_taskstore.claims (
    tenant     bytea   NOT NULL,
    owned      boolean NOT NULL,
    owner      bytea   NOT NULL,
    key        bytea   NOT NULL,
    stamp      bigint  NOT NULL,
    message_id bytea   NOT NULL,
    task_id    bytea   NOT NULL,
    token      bytea   NOT NULL,
    bound      boolean NOT NULL,
    expires    bigint  NOT NULL,
    ttl        bigint  NOT NULL,
    PRIMARY KEY (tenant, owned, owner, key)
);

-- lz4 costs half of the default compression; not every server is built with it.
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE a2a_taskstore.tasks
        ALTER COLUMN head SET COMPRESSION lz4,
        ALTER COLUMN artifacts SET COMPRESSION lz4,
        ALTER COLUMN history SET COMPRESSION lz4;
    ALTER TABLE a2a_taskstore.artifacts
        ALTER COLUMN fields SET COMPRESSION lz4,
        ALTER COLUMN parts SET COMPRESSION lz4;
    ALTER TABLE a2a_taskstore.artifact_parts ALTER COLUMN parts SET COMPRESSION lz4;
    ALTER TABLE a2a_taskstore.messages ALTER COLUMN entry SET COMPRESSION lz4;
    ALTER TABLE a2a_taskstore.events ALTER COLUMN event SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'this server has no lz4';
END
$$;
-- +goose StatementEnd
