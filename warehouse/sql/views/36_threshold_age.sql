-- threshold_age: where each threshold of a run comes from and how long it has been
-- as it is.
-- grain: run_id, ordinal (of the spec)
-- reads: threshold, run, input_file
-- unit:  age_days days from the first run judged by it to this run
-- A threshold is the same one while scope, target, metric, kind, value, tolerance
-- and reference are, for one model, GPU and driver. What this warehouse has not
-- seen is not known: a first run that is the run itself says "new, or the history
-- before it is not loaded".
CREATE OR REPLACE VIEW threshold_age AS
WITH f AS (
    SELECT run_id, any_value(sha256) AS sha256 FROM input_file WHERE kind = 'thresholds' GROUP BY run_id
), t AS (
    SELECT t.run_id, t.ordinal, t.scope, t.target, t.metric, t.kind, t.value, t.tolerance_pct, t.reference, t.file, t.line, t.pointer, f.sha256, r.started_at,
           first_value(t.run_id) OVER same AS first_run, first_value(r.started_at) OVER same AS first_at,
           first_value(t.run_id) OVER whole AS file_first_run, first_value(r.started_at) OVER whole AS file_first_at
    FROM threshold t JOIN run r ON r.run_id = t.run_id LEFT JOIN f ON f.run_id = t.run_id
    WINDOW same AS (PARTITION BY r.model, r.gpu_arch_stated, r.driver, t.scope, t.target, t.metric, t.kind, t.value, t.tolerance_pct, t.reference
                    ORDER BY r.started_at NULLS LAST, t.run_id),
           whole AS (PARTITION BY coalesce(f.sha256, t.run_id) ORDER BY r.started_at NULLS LAST, t.run_id)
)
SELECT run_id, ordinal, scope, target, metric, kind, value, file, line, pointer, sha256, first_run, first_at, file_first_run, file_first_at,
       date_diff('second', first_at, started_at) / 86400.0 AS age_days, first_run = run_id AS new_here
FROM t;
COMMENT ON VIEW threshold_age IS 'Where each threshold comes from and since when it is as it is; one row per run and spec';
COMMENT ON COLUMN threshold_age.run_id IS 'run';
COMMENT ON COLUMN threshold_age.ordinal IS 'order of the spec in the threshold file';
COMMENT ON COLUMN threshold_age.scope IS 'cell, accuracy, mtp_quality, long_context_accuracy, quant_parity';
COMMENT ON COLUMN threshold_age.target IS 'cell key or task id';
COMMENT ON COLUMN threshold_age.metric IS 'bare name';
COMMENT ON COLUMN threshold_age.kind IS 'as in gates';
COMMENT ON COLUMN threshold_age.value IS 'value of the spec';
COMMENT ON COLUMN threshold_age.file IS 'threshold file';
COMMENT ON COLUMN threshold_age.line IS 'line of the spec in it';
COMMENT ON COLUMN threshold_age.pointer IS 'JSON pointer of the spec in it';
COMMENT ON COLUMN threshold_age.sha256 IS 'SHA-256 of the file; NULL if the run did not keep it';
COMMENT ON COLUMN threshold_age.first_run IS 'first run in this warehouse that was judged by the same threshold';
COMMENT ON COLUMN threshold_age.first_at IS 'start of that run, UTC';
COMMENT ON COLUMN threshold_age.file_first_run IS 'first run in this warehouse with the same file, byte for byte';
COMMENT ON COLUMN threshold_age.file_first_at IS 'start of that run, UTC';
COMMENT ON COLUMN threshold_age.age_days IS 'days from first_at to the start of this run';
COMMENT ON COLUMN threshold_age.new_here IS 'true: no earlier run had it; new, or the history before it is not loaded';
