-- What the checks left beside single values: telemetry of GPUs, how long a model
-- took to load, lines of kernel logs, needle-in-a-haystack cells. Facts only.
-- Times are UTC, by the clock of the host that said so.

CREATE TABLE gpu_stat (
    run_id        VARCHAR NOT NULL,
    cell_id       VARCHAR NOT NULL,
    repeat        INTEGER NOT NULL,
    host          VARCHAR NOT NULL, -- empty: all GPUs of all hosts
    gpu           INTEGER,          -- NULL: likewise
    status        VARCHAR NOT NULL, -- of the poll: done, failed, …
    reason        VARCHAR,
    samples       INTEGER NOT NULL, -- with readings, of all hosts
    problems      INTEGER NOT NULL, -- without
    window_start  TIMESTAMP,
    window_end    TIMESTAMP,
    seconds       DOUBLE,
    peak_vram_mb  DOUBLE,
    mean_gfx_pct  DOUBLE,
    mean_umc_pct  DOUBLE,
    mean_gfx_mhz  DOUBLE,
    mean_power_w  DOUBLE,
    peak_power_w  DOUBLE,
    peak_hotspot_c DOUBLE,
    energy_j      DOUBLE,
    energy_from   VARCHAR,
    throttled_pct DOUBLE,
    limits        VARCHAR,
    path          VARCHAR NOT NULL
);

CREATE TABLE gpu_point (
    run_id VARCHAR NOT NULL, cell_id VARCHAR NOT NULL, repeat INTEGER NOT NULL, host VARCHAR NOT NULL,
    ordinal INTEGER NOT NULL, moment TIMESTAMP NOT NULL,
    power_w DOUBLE, gfx_pct DOUBLE, used_vram_mb DOUBLE, hotspot_c DOUBLE, gfx_mhz DOUBLE
);

CREATE TABLE model_load (
    run_id VARCHAR NOT NULL, server_session INTEGER NOT NULL, host VARCHAR NOT NULL,
    seconds DOUBLE, memory_mb DOUBLE, note VARCHAR, path VARCHAR NOT NULL
);

CREATE TABLE kernel_event (
    run_id VARCHAR NOT NULL, ordinal INTEGER NOT NULL, host VARCHAR NOT NULL, moment TIMESTAMP,
    severity VARCHAR NOT NULL, source VARCHAR NOT NULL, times INTEGER NOT NULL, line VARCHAR NOT NULL, path VARCHAR NOT NULL
);

CREATE TABLE needle (
    run_id VARCHAR NOT NULL, task_id VARCHAR NOT NULL, isl INTEGER NOT NULL, depth_pct INTEGER NOT NULL,
    status VARCHAR NOT NULL, reason VARCHAR, correct INTEGER NOT NULL, errors INTEGER NOT NULL, total INTEGER NOT NULL,
    pass_rate DOUBLE, ci_low DOUBLE, ci_high DOUBLE, exact BOOLEAN, path VARCHAR NOT NULL
);
