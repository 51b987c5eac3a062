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
    SELECT r.run_id, r.started_at, r.model, r.gpu_arch_stated AS gpu, r.driver, coalesce(r.threshold_set, r.run_id) AS specs, f.sha256
    FROM run r LEFT JOIN f ON f.run_id = r.run_id
), speaker AS (
    SELECT * FROM r QUALIFY row_number() OVER (PARTITION BY model, gpu, driver, specs ORDER BY started_at NULLS LAST, run_id) = 1
), seen AS (
    SELECT s.model, s.gpu, s.driver, t.scope, t.target, t.metric, t.kind, t.value, t.tolerance_pct, t.reference,
           first({run_id: s.run_id, began: s.started_at} ORDER BY s.started_at NULLS LAST, s.run_id) AS spec
    FROM threshold t JOIN speaker s ON s.run_id = t.run_id
    GROUP BY ALL
), file AS (
    SELECT sha256, first({run_id: run_id, began: started_at} ORDER BY started_at NULLS LAST, run_id) AS opener FROM r WHERE sha256 IS NOT NULL GROUP BY sha256
), t AS (
    SELECT t.run_id, t.ordinal, t.scope, t.target, t.metric, t.kind, t.value, t.file, t.line, t.pointer, r.sha256, r.started_at,
           s.spec.run_id AS first_run, s.spec.began AS first_at,
           CASE WHEN f.sha256 IS NULL THEN t.run_id ELSE f.opener.run_id END AS file_first_run, CASE WHEN f.sha256 IS NULL THEN r.started_at ELSE f.opener.began END AS file_first_at
    FROM threshold t
    JOIN r ON r.run_id = t.run_id
    JOIN seen s ON s.scope = t.scope AND s.target = t.target AND s.metric = t.metric AND s.kind = t.kind
        AND s.model IS NOT DISTINCT FROM r.model AND s.gpu IS NOT DISTINCT FROM r.gpu AND s.driver IS NOT DISTINCT FROM r.driver
        AND s.value IS NOT DISTINCT FROM t.value AND s.tolerance_pct IS NOT DISTINCT FROM t.tolerance_pct AND s.reference IS NOT DISTINCT FROM t.reference
    LEFT JOIN file f ON f.sha256 = r.sha256
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
