-- threshold_age: where each threshold of a run comes from and how long it has been
-- as it is.
-- grain: run_id, ordinal (of the spec)
-- reads: threshold, run, input_file
-- unit:  age_days days from the first run judged by it to this run
-- A threshold is the same one while scope, target, metric, kind, value, tolerance
-- and reference are, for one model, GPU and driver. What this warehouse has not
-- seen is not known: a first run that is the run itself says "new, or the history
-- before it is not loaded".
-- Runs with equal thresholds share run.threshold_set: the first of them speaks for
-- all, so that a long history is not read for one run.
CREATE OR REPLACE VIEW threshold_age AS
WITH f AS (
    SELECT run_id, any_value(sha256) AS sha256 FROM input_file WHERE kind = 'thresholds' GROUP BY run_id
), r AS (
    SELECT r.run_id, r.started_at, r.model, r.gpu_arch_stated AS gpu, r.driver, coalesce(r.threshold_set, r.run_id) AS specs, f.sha256,
           row_number() OVER (ORDER BY r.started_at NULLS LAST, r.run_id) AS nth
    FROM run r LEFT JOIN f ON f.run_id = r.run_id
), speaker AS (
    SELECT * FROM r WHERE nth IN (SELECT min(nth) FROM r GROUP BY model, gpu, driver, specs)
), seen AS (
    SELECT s.model, s.gpu, s.driver, t.scope, t.target, t.metric, t.kind, t.value, t.tolerance_pct, t.reference, min(s.nth) AS nth
    FROM threshold t JOIN speaker s ON s.run_id = t.run_id
    GROUP BY ALL
), file AS (
    SELECT sha256, min(nth) AS nth FROM r WHERE sha256 IS NOT NULL GROUP BY sha256
), t AS (
    SELECT t.run_id, t.ordinal, t.scope, t.target, t.metric, t.kind, t.value, t.file, t.line, t.pointer, r.sha256, r.started_at, s.nth, coalesce(f.nth, r.nth) AS file_nth
    FROM threshold t
    JOIN r ON r.run_id = t.run_id
    JOIN seen s ON s.scope = t.scope AND s.target = t.target AND s.metric = t.metric AND s.kind = t.kind
        AND s.model IS NOT DISTINCT FROM r.model AND s.gpu IS NOT DISTINCT FROM r.gpu AND s.driver IS NOT DISTINCT FROM r.driver
        AND s.value IS NOT DISTINCT FROM t.value AND s.tolerance_pct IS NOT DISTINCT FROM t.tolerance_pct AND s.reference IS NOT DISTINCT FROM t.reference
    LEFT JOIN file f ON f.sha256 = r.sha256
)
SELECT t.run_id, t.ordinal, t.scope, t.target, t.metric, t.kind, t.value, t.file, t.line, t.pointer, t.sha256,
       a.run_id AS first_run, a.started_at AS first_at, b.run_id AS file_first_run, b.started_at AS file_first_at,
       date_diff('second', a.started_at, t.started_at) / 86400.0 AS age_days, a.run_id = t.run_id AS new_here
FROM t JOIN r a ON a.nth = t.nth JOIN r b ON b.nth = t.file_nth;
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
