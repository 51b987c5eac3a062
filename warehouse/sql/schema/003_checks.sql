-- What the checks beside the sweep left: functional, long context, MTP, quant
-- parity, kernel log, GPU telemetry, and how lm-eval went. Facts only; the view
-- check_gates judges. One row with an empty metric says how a check went, the
-- others are what it measured.

CREATE TABLE check_result (
    run_id  VARCHAR NOT NULL,
    ordinal INTEGER NOT NULL,
    scope   VARCHAR NOT NULL, -- kind of the planned task
    target  VARCHAR NOT NULL, -- its id
    part    VARCHAR NOT NULL, -- host or cell where a task has several; else empty
    status  VARCHAR NOT NULL, -- done: carried out, whatever it found
    metric  VARCHAR NOT NULL, -- empty: the check as a whole
    value   DOUBLE,           -- NULL: not to be had, or no number
    text    VARCHAR,
    passed  BOOLEAN,          -- whether its own assertions held; NULL: it asserts nothing
    detail  VARCHAR,          -- why not, or the first of what was found
    path    VARCHAR NOT NULL  -- the evidence
);
