-- Work for workers: pools and their slots, tasks and their attempts, events and who listens to
-- them, schedules, and the tokens of workers. The table of tasks is the queue.

-- How many tasks may run at once: as many as the pool has slots, or any number if unlimited.
CREATE TABLE pools (
    org       varchar(64) NOT NULL DEFAULT 'default',
    project   varchar(255) NOT NULL,
    name      varchar(64) NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,63}$'),
    unlimited boolean NOT NULL DEFAULT false,
    PRIMARY KEY (org, project, name)
);

CREATE TABLE tasks (
    id                  uuid PRIMARY KEY,               -- derived from consumer and dedupe key
    org                 varchar(64) NOT NULL DEFAULT 'default',
    project             varchar(255) NOT NULL,
    kind                varchar(40) NOT NULL,           -- what a worker does for it
    asset               varchar(255) NOT NULL,
    pipeline_version    varchar(64),
    run_id              uuid REFERENCES runs (id),
    config              jsonb NOT NULL DEFAULT '{}',
    trigger             varchar(20) NOT NULL CHECK (trigger IN
                        ('event', 'invalidation', 'manual', 'schedule', 'backfill', 'rematerialize', 'approval')),
    event_id            uuid,                           -- not a reference: events may be removed earlier
    dedupe_key          text NOT NULL,
    scope               jsonb NOT NULL,
    pool                varchar(64) NOT NULL,
    priority            smallint NOT NULL DEFAULT 0,    -- higher is earlier
    max_concurrency     integer CHECK (max_concurrency > 0),
    -- A queue for each pool. It has a lane for all tasks without a limit of their asset, and one for
    -- each asset that has one: an asset at its limit hides its own tasks from claims, and no others.
    -- Claims compare these columns only, so that no other index fits, whatever statistics say.
    queue               text GENERATED ALWAYS AS (org || '/' || project || '/' || pool) STORED,
    lane                text GENERATED ALWAYS AS
                        (CASE WHEN max_concurrency IS NULL THEN '' ELSE kind || '/' || asset END) STORED,
    consumer            text GENERATED ALWAYS AS
                        (org || '/' || project || '/' || kind || '/' || asset) STORED,
    status              varchar(10) NOT NULL DEFAULT 'Queued' CHECK (status IN
                        ('Queued', 'Running', 'Waiting', 'Completed', 'Failed', 'Canceled')),
    attempt             integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),     -- rises at claim
    failures            integer NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND attempt),
    attempts_before     integer NOT NULL DEFAULT 0,     -- when an operator last started it again
    max_attempts        integer NOT NULL CHECK (max_attempts > 0),
    retry_delays_s      integer[] NOT NULL,             -- the pause after each failure
    timeout_s           integer NOT NULL CHECK (timeout_s > 0),
    lease_s             integer NOT NULL CHECK (lease_s > 0),
    lease_token         uuid,                           -- stays when the lease is given up: a late report counts
    lease_until         timestamptz,
    deadline_at         timestamptz,
    worker              varchar(255),
    next_retry_at       timestamptz,
    held_by             varchar(255),                   -- set: nobody may claim it
    cancel_requested_at timestamptz,
    error               jsonb,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at         timestamptz,
    CHECK (cardinality(retry_delays_s) = max_attempts - 1),
    CHECK (status <> 'Running' OR (attempt > 0 AND lease_token IS NOT NULL AND lease_until IS NOT NULL
                                   AND deadline_at IS NOT NULL AND worker IS NOT NULL)),
    CHECK (next_retry_at IS NULL OR status = 'Failed'),
    CHECK ((finished_at IS NOT NULL)
           = (status IN ('Completed', 'Canceled') OR (status = 'Failed' AND next_retry_at IS NULL))),
    FOREIGN KEY (org, project, pool) REFERENCES pools (org, project, name)
);
-- One event makes one task of each listener, however often it is replayed.
CREATE UNIQUE INDEX idx_tasks_once ON tasks (org, project, kind, asset, dedupe_key);
-- What claims take from: the first row of each lane is its most urgent task.
CREATE INDEX idx_tasks_queued ON tasks (queue, lane, priority DESC, created_at)
    WHERE status = 'Queued' AND held_by IS NULL;
-- Few rows, so the reaper looks at all of them: with lease_until in an index, no heartbeat were HOT.
CREATE INDEX idx_tasks_running ON tasks (consumer) WHERE status = 'Running';
CREATE INDEX idx_tasks_retries ON tasks (next_retry_at) WHERE status = 'Failed' AND next_retry_at IS NOT NULL;
CREATE INDEX idx_tasks_held ON tasks (held_by) WHERE held_by IS NOT NULL;
CREATE INDEX idx_tasks_finished ON tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_tasks_project ON tasks (org, project, created_at DESC);
-- Tasks of a run are looked up with every one of them that ends.
CREATE INDEX idx_tasks_run ON tasks (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE slots (
    org     varchar(64) NOT NULL,
    project varchar(255) NOT NULL,
    pool    varchar(64) NOT NULL,
    index   integer NOT NULL CHECK (index >= 0),
    env     jsonb NOT NULL DEFAULT '{}',                -- for the process that does the work
    task_id uuid REFERENCES tasks (id) ON DELETE SET NULL,
    PRIMARY KEY (org, project, pool, index),
    FOREIGN KEY (org, project, pool) REFERENCES pools (org, project, name)
);
-- A task holds at most one slot.
CREATE UNIQUE INDEX idx_slots_task ON slots (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE attempts (
    task_id     uuid NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    attempt     integer NOT NULL CHECK (attempt > 0),
    lease_token uuid NOT NULL,
    worker      varchar(255) NOT NULL,
    slot        integer,
    pins        jsonb,                                  -- the inputs and outputs that it was assigned
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    outcome     varchar(20) CHECK (outcome IN
                ('success', 'retryable_error', 'fatal_error', 'timeout', 'lease_expired', 'canceled', 'waiting')),
    error       jsonb,
    PRIMARY KEY (task_id, attempt),
    CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
-- A new attempt begins only after the one before has ended.
CREATE UNIQUE INDEX idx_attempts_open ON attempts (task_id) WHERE outcome IS NULL;

CREATE TABLE events (
    id            uuid PRIMARY KEY,                     -- uuid5 of producer, dataset and scope
    seq           bigint GENERATED ALWAYS AS IDENTITY,
    org           varchar(64) NOT NULL DEFAULT 'default',
    project       varchar(255) NOT NULL,
    producer_task uuid NOT NULL,                        -- not a reference: the task may be removed earlier
    attempt       integer NOT NULL,
    dataset       uuid NOT NULL,                        -- of a dataset or of a source
    version       uuid,
    scope         jsonb NOT NULL,
    scope_text    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX idx_events_once ON events (producer_task, dataset, scope_text);
CREATE INDEX idx_events_created ON events (created_at);
CREATE INDEX idx_events_dataset ON events (org, project, dataset, seq);

-- For every asset that follows a dataset: the template of the tasks that its events make.
CREATE TABLE listeners (
    org      varchar(64) NOT NULL DEFAULT 'default',
    project  varchar(255) NOT NULL,
    dataset  uuid NOT NULL,
    kind     varchar(40) NOT NULL,
    asset    varchar(255) NOT NULL,
    pool     varchar(64) NOT NULL,                      -- has to be there, or its events could not be accepted
    template jsonb NOT NULL,
    held_by  varchar(255),                              -- set: its tasks are made, and held
    PRIMARY KEY (org, project, dataset, kind, asset),
    FOREIGN KEY (org, project, pool) REFERENCES pools (org, project, name)
);

CREATE TABLE schedules (
    org        varchar(64) NOT NULL DEFAULT 'default',
    project    varchar(255) NOT NULL,
    name       varchar(255) NOT NULL,
    cron       varchar(255) NOT NULL,
    timezone   varchar(64) NOT NULL,
    pool       varchar(64) NOT NULL,
    template   jsonb NOT NULL,
    next_at    timestamptz NOT NULL,
    last_at    timestamptz,
    PRIMARY KEY (org, project, name),
    FOREIGN KEY (org, project, pool) REFERENCES pools (org, project, name)
);
CREATE INDEX idx_schedules_next ON schedules (next_at);

CREATE TABLE worker_tokens (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org        varchar(64) NOT NULL DEFAULT 'default',
    project    varchar(255) NOT NULL,
    name       varchar(255) NOT NULL,
    token_hash bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),   -- SHA-256; the token is random
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);
-- A name is that of one worker at a time.
CREATE UNIQUE INDEX idx_worker_tokens_name ON worker_tokens (org, project, name) WHERE revoked_at IS NULL;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tallyman_app') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON pools, slots, tasks, attempts, listeners, schedules
            TO tallyman_app;
        GRANT SELECT, INSERT, DELETE ON events TO tallyman_app;
        GRANT SELECT, INSERT, UPDATE ON worker_tokens TO tallyman_app;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'role tallyman_app could not be given the new tables: the program works as the owner';
END
$$;
