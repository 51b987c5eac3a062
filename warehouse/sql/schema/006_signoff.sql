-- Decisions and waivers, as signoff/ of a run directory holds them, and how they
-- compare with what the directory holds now. Loading again replaces the rows of a
-- run; the log itself stays the source of truth, and one that lost an entry is
-- not loaded. Times are UTC.

CREATE TABLE waiver (
    run_id           VARCHAR NOT NULL,
    waiver_id        VARCHAR NOT NULL,
    cell             VARCHAR,          -- pattern (* and ?) on cell_key or cell_id; NULL when task is set
    task             VARCHAR,          -- pattern on a task's id
    metric           VARCHAR NOT NULL, -- pattern
    reason           VARCHAR NOT NULL,
    owner            VARCHAR NOT NULL,
    issue            VARCHAR NOT NULL,
    last_day         DATE NOT NULL,    -- holds through it, UTC
    worst_margin_pct DOUBLE,           -- condition; NULL: none
    model            VARCHAR,          -- conditions, patterns; NULL: none
    driver           VARCHAR,
    gpu_arch         VARCHAR,
    precision        VARCHAR,
    line             INTEGER NOT NULL
);

CREATE TABLE signoff (
    run_id            VARCHAR NOT NULL,
    seq               INTEGER NOT NULL,
    line_sha256       VARCHAR NOT NULL,
    prev              VARCHAR,          -- line_sha256 of the entry before; NULL for the first
    decision          VARCHAR NOT NULL, -- approve, reject, conditional
    role              VARCHAR NOT NULL,
    identity          VARCHAR NOT NULL,
    key               VARCHAR,          -- fingerprint of the signing key
    signed_at         TIMESTAMP NOT NULL,
    tool_version      VARCHAR,
    raw_sha256        VARCHAR,
    thresholds_sha256 VARCHAR,
    waivers_sha256    VARCHAR,
    deck_sha256       VARCHAR,
    policy_sha256     VARCHAR,
    headline          VARCHAR,          -- what the views said to the reviewer
    failed            INTEGER NOT NULL, -- gates, waived ones included
    waived            INTEGER NOT NULL,
    vacuous           INTEGER NOT NULL,
    note              VARCHAR
);

-- Waivers that a decision stands on.
CREATE TABLE signoff_waiver (
    run_id VARCHAR NOT NULL, seq INTEGER NOT NULL, waiver_id VARCHAR NOT NULL, last_day DATE NOT NULL, gates INTEGER NOT NULL
);

-- Short texts: of a decision (condition, confirmed) or, with seq 0, of the policy
-- (role, checklist, calibrated).
CREATE TABLE signoff_item (
    run_id VARCHAR NOT NULL, seq INTEGER NOT NULL, kind VARCHAR NOT NULL, ordinal INTEGER NOT NULL, text VARCHAR NOT NULL
);

-- What is wrong with log or signer (class log, signer), no longer as it was signed
-- (stale), cannot be read (input), or good to know (note).
CREATE TABLE signoff_finding (
    run_id VARCHAR NOT NULL, ordinal INTEGER NOT NULL, seq INTEGER NOT NULL, class VARCHAR NOT NULL, code VARCHAR NOT NULL, message VARCHAR NOT NULL
);

-- The policy that the decisions are held against, and whether anybody's key was.
CREATE TABLE signoff_rule (
    run_id          VARCHAR NOT NULL,
    digest          VARCHAR NOT NULL, -- of all rows of the run in these tables
    approvals       INTEGER NOT NULL,
    not_launcher    BOOLEAN NOT NULL,
    every_tier      BOOLEAN NOT NULL, -- else those of signoff_item must be calibrated
    allow_record    BOOLEAN NOT NULL,
    allow_partial   BOOLEAN NOT NULL,
    signers_checked BOOLEAN NOT NULL
);
