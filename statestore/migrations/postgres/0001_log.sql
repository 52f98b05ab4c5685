-- Numbers of runs. Each process takes some in advance, so that making a run is one statement.
CREATE SEQUENCE run_numbers;

-- One row per run: what people ask for. Changes when the run's status does.
CREATE TABLE runs (
    run_no          BIGINT PRIMARY KEY,
    run_id          TEXT COLLATE "C" NOT NULL UNIQUE,
    identity        TEXT COLLATE "C" NOT NULL,
    tenant_id       TEXT COLLATE "C" NOT NULL,
    plan_id         TEXT COLLATE "C" NOT NULL,
    plan_version    TEXT COLLATE "C" NOT NULL,
    plan_hash       TEXT COLLATE "C" NOT NULL,
    correlation_id  TEXT NOT NULL,
    -- The run whose outputs this one uses: it is kept as long as this one is.
    source_run_id   TEXT COLLATE "C",
    status          TEXT COLLATE "C" NOT NULL,
    engine_run_ref  TEXT,
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    CONSTRAINT runs_by_identity UNIQUE (tenant_id, identity)
);
CREATE INDEX runs_by_time   ON runs (tenant_id, created_at, run_id);
CREATE INDEX runs_by_status ON runs (tenant_id, status, created_at, run_id);
CREATE INDEX runs_by_plan   ON runs (tenant_id, plan_id, created_at, run_id);
CREATE INDEX runs_ended     ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX runs_by_source ON runs (source_run_id) WHERE source_run_id IS NOT NULL;

-- One row per run: what every append reads and writes.
CREATE TABLE run_heads (
    run_no         BIGINT PRIMARY KEY,
    last_seq       BIGINT NOT NULL,
    decisions      BIGINT NOT NULL,
    acted_seq      BIGINT NOT NULL DEFAULT 0,
    -- When the first event came that nobody has acted on.
    ahead_since    BIGINT NOT NULL,
    ended          BOOLEAN NOT NULL DEFAULT FALSE,
    -- Whether somebody may still have to act: until the run has ended and all of it was acted on.
    open           BOOLEAN NOT NULL DEFAULT TRUE,
    fence          BIGINT NOT NULL DEFAULT 0,
    lease_holder   TEXT COLLATE "C",
    lease_until    BIGINT NOT NULL DEFAULT 0,
    -- The outbox: the bus has the events up to this one. Those after it wait in the log.
    delivered_seq  BIGINT NOT NULL DEFAULT 0,
    -- Since when something waits for the bus; none when nothing does. An append that finds it set leaves it.
    waiting_since  BIGINT
    -- Room in every page, so that an append changes the row in place and touches no index.
) WITH (fillfactor = 50);
CREATE INDEX run_heads_open    ON run_heads (run_no) WHERE open;
CREATE INDEX run_heads_waiting ON run_heads (waiting_since, run_no) WHERE waiting_since IS NOT NULL;

-- The log. Never changed; deleted only with its run.
CREATE TABLE events (
    run_no           BIGINT NOT NULL,
    run_seq          BIGINT NOT NULL,
    -- What only one event of the run can take: the slot of events that end or decide something, else the name,
    -- step or RUN|n|type, which the idempotency key is the hash of. One name has one slot, so keys are unique when
    -- this is.
    takes            TEXT COLLATE "C" NOT NULL,
    event_type       TEXT COLLATE "C" NOT NULL,
    event_id         BYTEA NOT NULL,
    idempotency_key  BYTEA NOT NULL,
    schema_version   TEXT COLLATE "C" NOT NULL,
    emitted_at       BIGINT NOT NULL,
    emitted_by       TEXT NOT NULL,
    occurred_at      BIGINT,
    step_id          TEXT COLLATE "C",
    logical_attempt  BIGINT,
    engine_attempt   BIGINT,
    payload          TEXT NOT NULL,
    PRIMARY KEY (run_no, run_seq)
);
CREATE UNIQUE INDEX events_by_takes ON events (run_no, takes);

-- Runs whose events a relay has or that wait after a failure; no row for all others.
CREATE TABLE outbox_runs (
    run_no         BIGINT PRIMARY KEY,
    relay          TEXT COLLATE "C",
    claimed_until  BIGINT NOT NULL DEFAULT 0,
    not_before     BIGINT NOT NULL DEFAULT 0,
    failures       BIGINT NOT NULL DEFAULT 0,
    -- The first event that waits.
    from_seq       BIGINT NOT NULL
);

-- Events that were given up.
CREATE TABLE dead_letters (
    run_no       BIGINT NOT NULL,
    run_seq      BIGINT NOT NULL,
    failures     BIGINT NOT NULL,
    error        TEXT NOT NULL,
    given_up_at  BIGINT NOT NULL,
    PRIMARY KEY (run_no, run_seq)
);
CREATE INDEX dead_letters_by_time ON dead_letters (given_up_at);

-- Dead letters that wait for the bus again.
CREATE TABLE outbox_repeats (
    run_no   BIGINT NOT NULL,
    run_seq  BIGINT NOT NULL,
    PRIMARY KEY (run_no, run_seq)
);

-- Plans by content.
CREATE TABLE plans (
    tenant_id  TEXT COLLATE "C" NOT NULL,
    plan_hash  TEXT COLLATE "C" NOT NULL,
    document   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, plan_hash)
);

-- Which worker has which attempt.
CREATE TABLE claims (
    run_no         BIGINT NOT NULL,
    step_id        TEXT COLLATE "C" NOT NULL,
    attempt        BIGINT NOT NULL,
    worker         TEXT COLLATE "C" NOT NULL,
    claimed_until  BIGINT NOT NULL,
    PRIMARY KEY (run_no, step_id, attempt)
);

-- Signals on their way to the driver.
CREATE TABLE signals (
    position   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_no     BIGINT NOT NULL,
    signal_id  TEXT COLLATE "C" NOT NULL,
    signal     TEXT NOT NULL,
    UNIQUE (run_no, signal_id)
);

-- Projections that a reader can continue from.
CREATE TABLE snapshots (
    run_no   BIGINT NOT NULL,
    run_seq  BIGINT NOT NULL,
    content  TEXT NOT NULL,
    PRIMARY KEY (run_no, run_seq)
);

CREATE TABLE checkpoints (
    position       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_no         BIGINT NOT NULL,
    checkpoint_id  TEXT COLLATE "C" NOT NULL,
    up_to_seq      BIGINT NOT NULL,
    size_bytes     BIGINT NOT NULL,
    sha256         TEXT COLLATE "C" NOT NULL,
    created_at     BIGINT NOT NULL,
    content        TEXT NOT NULL,
    UNIQUE (run_no, checkpoint_id)
);

-- How far steps are.
CREATE TABLE step_progress (
    run_no    BIGINT NOT NULL,
    step_id   TEXT COLLATE "C" NOT NULL,
    attempt   BIGINT NOT NULL,
    done      DOUBLE PRECISION NOT NULL,
    noted_at  BIGINT NOT NULL,
    PRIMARY KEY (run_no, step_id)
);

-- Answers to requests that carried an Idempotency-Key.
CREATE TABLE answers (
    tenant_id    TEXT COLLATE "C" NOT NULL,
    request_key  TEXT COLLATE "C" NOT NULL,
    answer       TEXT NOT NULL,
    kept_until   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, request_key)
);
CREATE INDEX answers_by_end ON answers (kept_until);
