-- One row per run: what people ask for. Changes when the run's status does.
CREATE TABLE runs (
    run_no          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id          TEXT    NOT NULL UNIQUE,
    identity        TEXT    NOT NULL,
    tenant_id       TEXT    NOT NULL,
    plan_id         TEXT    NOT NULL,
    plan_version    TEXT    NOT NULL,
    plan_hash       TEXT    NOT NULL,
    correlation_id  TEXT    NOT NULL,
    -- The run whose outputs this one uses: it is kept as long as this one is.
    source_run_id   TEXT,
    status          TEXT    NOT NULL,
    engine_run_ref  TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    UNIQUE (tenant_id, identity)
) STRICT;
CREATE INDEX runs_by_time   ON runs (tenant_id, created_at, run_id);
CREATE INDEX runs_by_status ON runs (tenant_id, status, created_at, run_id);
CREATE INDEX runs_by_plan   ON runs (tenant_id, plan_id, created_at, run_id);
CREATE INDEX runs_ended     ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source_run_id) WHERE source_run_id IS NOT NULL;

-- One row per run: what every append reads and writes.
CREATE TABLE run_heads (
    run_no         INTEGER PRIMARY KEY,
    last_seq       INTEGER NOT NULL,
    decisions      INTEGER NOT NULL,
    acted_seq      INTEGER NOT NULL DEFAULT 0,
    -- When the first event came that nobody has acted on.
    ahead_since    INTEGER NOT NULL,
    ended          INTEGER NOT NULL DEFAULT FALSE,
    -- Whether somebody may still have to act: until the run has ended and all of it was acted on.
    open           INTEGER NOT NULL DEFAULT TRUE,
    fence          INTEGER NOT NULL DEFAULT 0,
    lease_holder   TEXT,
    lease_until    INTEGER NOT NULL DEFAULT 0,
    -- The outbox: the bus has the events up to this one. Those after it wait in the log.
    delivered_seq  INTEGER NOT NULL DEFAULT 0,
    -- Since when something waits for the bus; none when nothing does. An append that finds it set leaves it.
    waiting_since  INTEGER
) STRICT;
CREATE INDEX run_heads_open    ON run_heads (run_no) WHERE open;
CREATE INDEX run_heads_waiting ON run_heads (waiting_since, run_no) WHERE waiting_since IS NOT NULL;

-- The log. Never changed; deleted only with its run.
CREATE TABLE events (
    position         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_no           INTEGER NOT NULL,
    run_seq          INTEGER NOT NULL,
    -- What only one event of the run can take: the slot of events that end or decide something, else the name,
    -- step or RUN|n|type, which the idempotency key is the hash of. One name has one slot, so keys are unique when
    -- this is.
    takes            TEXT    NOT NULL,
    event_type       TEXT    NOT NULL,
    event_id         BLOB    NOT NULL,
    idempotency_key  BLOB    NOT NULL,
    schema_version   TEXT    NOT NULL,
    emitted_at       INTEGER NOT NULL,
    emitted_by       TEXT    NOT NULL,
    occurred_at      INTEGER,
    step_id          TEXT,
    logical_attempt  INTEGER,
    engine_attempt   INTEGER,
    payload          TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_place ON events (run_no, run_seq);
CREATE UNIQUE INDEX events_by_takes ON events (run_no, takes);

-- Runs whose events a relay has or that wait after a failure; no row for all others.
CREATE TABLE outbox_runs (
    run_no         INTEGER PRIMARY KEY,
    relay          TEXT,
    claimed_until  INTEGER NOT NULL DEFAULT 0,
    not_before     INTEGER NOT NULL DEFAULT 0,
    failures       INTEGER NOT NULL DEFAULT 0,
    -- The first event that waits.
    from_seq       INTEGER NOT NULL
) STRICT;

-- Events that were given up.
CREATE TABLE dead_letters (
    run_no       INTEGER NOT NULL,
    run_seq      INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    error        TEXT    NOT NULL,
    given_up_at  INTEGER NOT NULL,
    PRIMARY KEY (run_no, run_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX dead_letters_by_time ON dead_letters (given_up_at);

-- Dead letters that wait for the bus again.
CREATE TABLE outbox_repeats (
    run_no   INTEGER NOT NULL,
    run_seq  INTEGER NOT NULL,
    PRIMARY KEY (run_no, run_seq)
) STRICT, WITHOUT ROWID;

-- Plans by content.
CREATE TABLE plans (
    tenant_id  TEXT NOT NULL,
    plan_hash  TEXT NOT NULL,
    document   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, plan_hash)
) STRICT;

-- Which worker has which attempt.
CREATE TABLE claims (
    run_no         INTEGER NOT NULL,
    step_id        TEXT    NOT NULL,
    attempt        INTEGER NOT NULL,
    worker         TEXT    NOT NULL,
    claimed_until  INTEGER NOT NULL,
    PRIMARY KEY (run_no, step_id, attempt)
) STRICT, WITHOUT ROWID;

-- Signals on their way to the driver.
CREATE TABLE signals (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    run_no     INTEGER NOT NULL,
    signal_id  TEXT    NOT NULL,
    signal     TEXT    NOT NULL,
    UNIQUE (run_no, signal_id)
) STRICT;

-- Projections that a reader can continue from.
CREATE TABLE snapshots (
    run_no   INTEGER NOT NULL,
    run_seq  INTEGER NOT NULL,
    content  TEXT    NOT NULL,
    PRIMARY KEY (run_no, run_seq)
) STRICT;

CREATE TABLE checkpoints (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    run_no         INTEGER NOT NULL,
    checkpoint_id  TEXT    NOT NULL,
    up_to_seq      INTEGER NOT NULL,
    size_bytes     INTEGER NOT NULL,
    sha256         TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    content        TEXT    NOT NULL,
    UNIQUE (run_no, checkpoint_id)
) STRICT;

-- How far steps are.
CREATE TABLE step_progress (
    run_no    INTEGER NOT NULL,
    step_id   TEXT    NOT NULL,
    attempt   INTEGER NOT NULL,
    done      REAL    NOT NULL,
    noted_at  INTEGER NOT NULL,
    PRIMARY KEY (run_no, step_id)
) STRICT, WITHOUT ROWID;

-- Answers to requests that carried an Idempotency-Key.
CREATE TABLE answers (
    tenant_id    TEXT    NOT NULL,
    request_key  TEXT    NOT NULL,
    answer       TEXT    NOT NULL,
    kept_until   INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, request_key)
) STRICT;
CREATE INDEX answers_by_end ON answers (kept_until);
