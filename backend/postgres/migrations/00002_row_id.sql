-- What hangs on a row of tasks is under a short number of that row, in place of its two ids, which were repeated in every row
-- and key, and in the write-ahead log of each. It is a random number, as the stamp is: whoever inserts the row draws it, and
-- knows it without asking.

-- +goose Up

CREATE SEQUENCE a2a_taskstore.row_id_of_old_rows;
ALTER TABLE a2a_taskstore.tasks
    ADD COLUMN row_id bigint NOT NULL DEFAULT nextval('a2a_taskstore.row_id_of_old_rows') CONSTRAINT tasks_by_row_id UNIQUE;
ALTER TABLE a2a_taskstore.tasks ALTER COLUMN row_id DROP DEFAULT;
DROP SEQUENCE a2a_taskstore.row_id_of_old_rows;

ALTER TABLE a2a_taskstore.artifacts RENAME TO old_artifacts;
ALTER TABLE a2a_taskstore.artifact_parts RENAME TO old_artifact_parts;
ALTER TABLE a2a_taskstore.messages RENAME TO old_messages;
ALTER TABLE a2a_taskstore.events RENAME TO old_events;

-- The artifacts of a task that a delta has taken apart. digest stands for the artifact's id, which has no bound. The parts
-- that came later are in artifact_parts, so that appending one costs what it weighs.
CREATE TABLE a2a_taskstore.artifacts (
    row_id     bigint NOT NULL,
    pos        bigint NOT NULL,
    part_count bigint NOT NULL,
    digest     bytea  NOT NULL,
    fields     bytea  NOT NULL,
    parts      bytea  NOT NULL
);

-- The parts appended to an artifact, in the order of the versions that appended them, with the artifact's totals so far.
CREATE TABLE a2a_taskstore.artifact_parts (
    row_id     bigint NOT NULL,
    pos        bigint NOT NULL,
    version    bigint NOT NULL,
    part_total bigint NOT NULL,
    byte_total bigint NOT NULL,
    parts      bytea  NOT NULL
);

-- Messages behind those in tasks.history, in order of version and index: entries of the encoded list, tags included.
-- Version 0 is the list that was in tasks.history.
CREATE TABLE a2a_taskstore.messages (
    row_id  bigint NOT NULL,
    version bigint NOT NULL,
    idx     bigint NOT NULL,
    entry   bytea  NOT NULL
);

-- write_idx is the event's place among those of its append.
CREATE TABLE a2a_taskstore.events (
    row_id    bigint NOT NULL,
    seq       bigint NOT NULL,
    mark      bigint NOT NULL, -- backend.Mark: version and kind
    created   bigint NOT NULL,
    write_idx bigint NOT NULL,
    origin    bytea  NOT NULL,
    write_id  bytea  NOT NULL,
    event     bytea  NOT NULL
);

-- +goose StatementBegin
DO $$
BEGIN
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

INSERT INTO a2a_taskstore.artifacts (row_id, pos, part_count, digest, fields, parts)
    SELECT t.row_id, a.pos, a.part_count, a.digest, a.fields, a.parts
    FROM a2a_taskstore.old_artifacts a JOIN a2a_taskstore.tasks t USING (tenant, task_id);
INSERT INTO a2a_taskstore.artifact_parts (row_id, pos, version, part_total, byte_total, parts)
    SELECT t.row_id, p.pos, p.version, p.part_total, p.byte_total, p.parts
    FROM a2a_taskstore.old_artifact_parts p JOIN a2a_taskstore.tasks t USING (tenant, task_id);
INSERT INTO a2a_taskstore.messages (row_id, version, idx, entry)
    SELECT t.row_id, m.version, m.idx, m.entry
    FROM a2a_taskstore.old_messages m JOIN a2a_taskstore.tasks t USING (tenant, task_id);
INSERT INTO a2a_taskstore.events (row_id, seq, mark, created, write_idx, origin, write_id, event)
    SELECT t.row_id, e.seq, e.mark, e.created, e.write_idx, e.origin, e.write_id, e.event
    FROM a2a_taskstore.old_events e JOIN a2a_taskstore.tasks t USING (tenant, task_id);

-- Who owns a table, and who may use it, is said of the table: the server's role need not be the one that migrates.
-- +goose StatementBegin
DO $$
DECLARE
    old     record;
    allowed record;
BEGIN
    FOR old IN
        SELECT substr(relname, 5) AS name, relowner, relacl FROM pg_class
        WHERE relnamespace = 'a2a_taskstore'::regnamespace
            AND relname IN ('old_artifacts', 'old_artifact_parts', 'old_messages', 'old_events')
    LOOP
        EXECUTE format('ALTER TABLE a2a_taskstore.%I OWNER TO %s', old.name, old.relowner::regrole);
        FOR allowed IN SELECT * FROM aclexplode(old.relacl) WHERE grantee <> old.relowner LOOP
            EXECUTE format('GRANT %s ON a2a_taskstore.%I TO %s%s', allowed.privilege_type, old.name,
                CASE allowed.grantee WHEN 0 THEN 'PUBLIC' ELSE allowed.grantee::regrole::text END,
                CASE WHEN allowed.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
        END LOOP;
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP TABLE a2a_taskstore.old_artifacts, a2a_taskstore.old_artifact_parts, a2a_taskstore.old_messages, a2a_taskstore.old_events;

ALTER TABLE a2a_taskstore.artifacts ADD PRIMARY KEY (row_id, pos);
-- With pos, for the order: the planner would take the primary key for it, and look at all artifacts of the task.
CREATE INDEX artifacts_by_id ON a2a_taskstore.artifacts (row_id, digest, pos);
ALTER TABLE a2a_taskstore.artifact_parts ADD PRIMARY KEY (row_id, pos, version);
ALTER TABLE a2a_taskstore.messages ADD PRIMARY KEY (row_id, version, idx);
ALTER TABLE a2a_taskstore.events ADD PRIMARY KEY (row_id, seq);
CREATE INDEX events_by_write ON a2a_taskstore.events (row_id, write_id) WHERE write_id <> '';
