-- What questions about many runs read. Nothing here is new: a measurement is
-- what view measured says, kept, because history must not be computed again for
-- every question; it is filled with the run and again with every new version of
-- the views. Baselines are what people pinned.

CREATE TABLE measurement (
    run_id   VARCHAR NOT NULL,
    cell_key VARCHAR NOT NULL,
    host     VARCHAR NOT NULL,
    metric   VARCHAR NOT NULL,
    value    DOUBLE,           -- NULL unless quality is ok
    quality  VARCHAR NOT NULL,
    text     VARCHAR,
    note     VARCHAR,
    derived  BOOLEAN NOT NULL,
    key      VARCHAR,
    repeats  INTEGER NOT NULL,
    low      DOUBLE,
    high     DOUBLE
);

CREATE TABLE cell_result (
    run_id          VARCHAR NOT NULL,
    cell_key        VARCHAR NOT NULL,
    host            VARCHAR NOT NULL,
    hosts           INTEGER NOT NULL, -- that measured this cell in this run
    success_rate    DOUBLE,
    failed          DOUBLE,
    mean_input_len  DOUBLE,           -- tokens; NULL: unknown
    mean_output_len DOUBLE
);

CREATE TABLE run_origin (
    run_id  VARCHAR NOT NULL,
    gpu     VARCHAR,           -- accelerator really seen, as one word; else as configured
    origin  VARCHAR NOT NULL,  -- runs of one origin measured once: the CI run, else the hash of the results
    source  VARCHAR,           -- where it was published, e.g. a CI run
    version VARCHAR            -- of the software measured, e.g. a commit
);

CREATE TABLE baseline (
    name      VARCHAR NOT NULL,
    run_id    VARCHAR NOT NULL,
    pinned_at TIMESTAMP NOT NULL,
    pinned_by VARCHAR,
    note      VARCHAR
);

CREATE TABLE change_point (
    series_id   VARCHAR NOT NULL, -- see view history
    cell_key    VARCHAR NOT NULL,
    slot        VARCHAR NOT NULL,
    metric      VARCHAR NOT NULL,
    last_run    VARCHAR NOT NULL, -- the last one of the old level
    first_run   VARCHAR NOT NULL, -- the first one of the new level
    first_at    TIMESTAMP NOT NULL,
    found_run   VARCHAR NOT NULL, -- the run that showed it
    found_seq   VARCHAR NOT NULL, -- its place in time, see run_identity.sequence
    first_seq   VARCHAR NOT NULL,
    before_n    INTEGER NOT NULL,
    before_mid  DOUBLE NOT NULL,
    after_n     INTEGER NOT NULL,
    after_mid   DOUBLE NOT NULL,
    change_pct  DOUBLE NOT NULL,  -- signed, as measured
    worse       BOOLEAN NOT NULL,
    p_value     DOUBLE NOT NULL,
    method      VARCHAR NOT NULL,
    version     INTEGER NOT NULL
);
