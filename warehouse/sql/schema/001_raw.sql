-- Facts as they were measured and asked for. Nothing here is a judgement: those
-- are views. Times are UTC. Applied once; never edited after a release.

CREATE TABLE metric_def (
    name      VARCHAR PRIMARY KEY,
    ordinal   INTEGER NOT NULL,
    label     VARCHAR NOT NULL,
    unit      VARCHAR NOT NULL,
    direction VARCHAR NOT NULL,
    tier      VARCHAR NOT NULL,
    gated     BOOLEAN NOT NULL,
    derived   VARCHAR NOT NULL,
    only_derived BOOLEAN NOT NULL,
    digits    INTEGER NOT NULL
);

CREATE TABLE run (
    run_id           VARCHAR PRIMARY KEY,
    content_sha256   VARCHAR NOT NULL,
    dir              VARCHAR,
    suite            VARCHAR,
    profile          VARCHAR,
    status           VARCHAR NOT NULL,
    reason           VARCHAR,
    started_at       TIMESTAMP,
    ended_at         TIMESTAMP,
    tool_version     VARCHAR,
    command_line     VARCHAR,
    launcher_host    VARCHAR,
    launcher_user    VARCHAR,
    launcher_os      VARCHAR,
    enforce          BOOLEAN NOT NULL,
    enforce_origin   VARCHAR,
    simulated        BOOLEAN NOT NULL,
    model            VARCHAR,
    precision        VARCHAR,
    gpu_arch         VARCHAR,
    gpu_arch_stated  VARCHAR,
    gpu_seen         VARCHAR,
    gpu_confirmed    BOOLEAN NOT NULL,
    driver           VARCHAR,
    tp               INTEGER,
    pp               INTEGER,
    dp               INTEGER,
    nnodes           INTEGER,
    image            VARCHAR,
    hosts            VARCHAR,
    scaling_baseline DOUBLE,
    labels           VARCHAR,
    warnings         VARCHAR,
    config           VARCHAR,
    notes            VARCHAR
);

CREATE TABLE input_file (
    run_id VARCHAR NOT NULL, kind VARCHAR NOT NULL, path VARCHAR NOT NULL,
    sha256 VARCHAR, bytes BIGINT
);

CREATE TABLE image_digest (
    run_id VARCHAR NOT NULL, host VARCHAR NOT NULL, digest VARCHAR NOT NULL
);

CREATE TABLE expected_cell (
    run_id      VARCHAR NOT NULL,
    ordinal     INTEGER NOT NULL,
    cell_key    VARCHAR NOT NULL,
    cell_id     VARCHAR,
    combo       VARCHAR,
    isl         INTEGER,
    osl         INTEGER,
    concurrency INTEGER,
    num_prompts INTEGER,
    repeats     INTEGER NOT NULL,
    planned     BOOLEAN NOT NULL
);

CREATE TABLE expected_task (
    run_id VARCHAR NOT NULL, ordinal INTEGER NOT NULL, kind VARCHAR NOT NULL,
    task_id VARCHAR NOT NULL, status VARCHAR, reason VARCHAR
);

CREATE TABLE threshold (
    run_id        VARCHAR NOT NULL,
    ordinal       INTEGER NOT NULL,
    scope         VARCHAR NOT NULL,
    target        VARCHAR NOT NULL,
    metric        VARCHAR NOT NULL,
    kind          VARCHAR NOT NULL,
    value         DOUBLE,
    tolerance_pct DOUBLE,
    reference     VARCHAR,
    file          VARCHAR,
    line          INTEGER,
    pointer       VARCHAR
);

CREATE TABLE stage (
    run_id VARCHAR NOT NULL, seq INTEGER NOT NULL, stage VARCHAR NOT NULL, host VARCHAR,
    cell_id VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP, status VARCHAR, reason VARCHAR
);

CREATE TABLE artifact (
    run_id   VARCHAR NOT NULL,
    path     VARCHAR NOT NULL,
    role     VARCHAR NOT NULL, -- cell, accuracy, check, superseded
    cell_key VARCHAR,
    task_id  VARCHAR,
    repeat   INTEGER,
    host     VARCHAR,
    sha256   VARCHAR NOT NULL,
    bytes    BIGINT NOT NULL,
    format   VARCHAR,          -- NULL: not recognised
    samples  INTEGER NOT NULL
);

CREATE TABLE attempt (
    run_id          VARCHAR NOT NULL,
    cell_key        VARCHAR NOT NULL,
    repeat          INTEGER NOT NULL,
    host            VARCHAR,
    status          VARCHAR,
    reason          VARCHAR,
    started_at      TIMESTAMP,
    ended_at        TIMESTAMP,
    exit_code       INTEGER,
    client_argv     VARCHAR,
    server_argv     VARCHAR,
    server_session  INTEGER,
    warm            BOOLEAN,
    config_digest   VARCHAR,
    mean_input_len  DOUBLE,
    mean_output_len DOUBLE
);

CREATE TABLE sample (
    run_id      VARCHAR NOT NULL,
    sample_no   INTEGER NOT NULL,
    path        VARCHAR NOT NULL,
    line        INTEGER NOT NULL,
    role        VARCHAR NOT NULL, -- cell, accuracy
    format      VARCHAR NOT NULL,
    cell_key    VARCHAR,          -- NULL: belongs to no cell of the run
    task_id     VARCHAR,
    repeat      INTEGER NOT NULL,
    host        VARCHAR NOT NULL,
    usable      BOOLEAN NOT NULL, -- false: contradicts what it should be; problem says why
    model       VARCHAR,
    backend     VARCHAR,
    gpu         VARCHAR,
    concurrency BIGINT,
    isl         BIGINT,
    osl         BIGINT,
    num_prompts BIGINT,
    date_text   VARCHAR,
    start_unix  DOUBLE,
    digest      VARCHAR NOT NULL
);

CREATE TABLE raw_value (
    run_id           VARCHAR NOT NULL,
    sample_no        INTEGER NOT NULL,
    ordinal          INTEGER NOT NULL,
    parent           VARCHAR NOT NULL,
    key              VARCHAR NOT NULL,
    pointer          VARCHAR NOT NULL,
    metric           VARCHAR,
    number           DOUBLE,  -- may be NaN or infinite: quality says so
    quality          VARCHAR NOT NULL,
    text             VARCHAR,
    kind             VARCHAR NOT NULL,
    raw              VARCHAR,
    bytes            BIGINT NOT NULL,
    sha256           VARCHAR,
    higher_is_better BOOLEAN
);

CREATE TABLE problem (
    run_id   VARCHAR NOT NULL,
    ordinal  INTEGER NOT NULL,
    severity VARCHAR NOT NULL, -- data_error, warning
    code     VARCHAR NOT NULL,
    path     VARCHAR,
    line     INTEGER,
    cell_key VARCHAR,
    task_id  VARCHAR,
    message  VARCHAR NOT NULL
);
