-- accuracy_prev_run: what lm-eval measured, against the run before.
-- grain: run_id, task_id, metric
-- reads: accuracy, run_identity
-- unit:  as lm-eval wrote it; delta in the same unit
-- Previous is the latest earlier run of equal identity with the same metric. A
-- drop counts only beyond 0.01 and beyond 1.645 standard errors of the
-- difference (one-sided 5 %); where a standard error is missing, beyond 0.01.
-- Drops are rounded to 1e-9, so that 0.94 against 0.95 is not beyond.
CREATE OR REPLACE VIEW accuracy_prev_run AS
WITH a AS (
    SELECT a.run_id, i.identity, i.sequence, i.started_at, a.task_id, a.metric, a.value, a.stderr, a.direction, a.ordinal, a.files
    FROM accuracy a JOIN run_identity i ON i.run_id = a.run_id
    WHERE i.started_at IS NOT NULL AND a.value IS NOT NULL AND NOT ends_with(a.stat, '_stderr')
), p AS (
    SELECT a.*, b.run_id AS previous_run, b.started_at AS previous_at, b.value AS previous, b.stderr AS previous_stderr
    FROM a ASOF LEFT JOIN a AS b ON b.identity = a.identity AND b.task_id = a.task_id AND b.metric = a.metric AND a.started_at::VARCHAR > b.sequence
), d AS (
    SELECT *, round(value - previous, 9) AS delta,
           round(CASE direction WHEN 'lower' THEN previous - value ELSE value - previous END, 9) AS better,
           1.645 * sqrt(stderr * stderr + previous_stderr * previous_stderr) AS noise
    FROM p
)
SELECT run_id, task_id, metric, direction, ordinal, previous_run, previous_at, value, stderr, previous, previous_stderr, delta, noise,
       CASE WHEN previous_run IS NULL THEN 'new' ELSE 'compared' END AS state,
       coalesce(better < -0.01 AND better < -coalesce(noise, 0), false) AS regression,
       CASE WHEN previous_run IS NULL THEN 'no earlier comparable run has it'
            WHEN noise IS NULL THEN 'no standard error: judged by 0.01 alone'
            WHEN better < -0.01 AND better >= -noise THEN 'within the standard errors' END AS reason
FROM d;
COMMENT ON VIEW accuracy_prev_run IS 'What lm-eval measured against the run before; one row per run, task and metric';
COMMENT ON COLUMN accuracy_prev_run.run_id IS 'run';
COMMENT ON COLUMN accuracy_prev_run.task_id IS 'id of the accuracy task';
COMMENT ON COLUMN accuracy_prev_run.metric IS '<lm_task>.<metric>__<filter>';
COMMENT ON COLUMN accuracy_prev_run.direction IS 'higher, lower or unknown (taken as higher): which way is better';
COMMENT ON COLUMN accuracy_prev_run.ordinal IS 'order in the file';
COMMENT ON COLUMN accuracy_prev_run.previous_run IS 'run compared with, NULL if there is none';
COMMENT ON COLUMN accuracy_prev_run.previous_at IS 'its start, UTC';
COMMENT ON COLUMN accuracy_prev_run.value IS 'value in this run';
COMMENT ON COLUMN accuracy_prev_run.stderr IS 'its standard error';
COMMENT ON COLUMN accuracy_prev_run.previous IS 'value in the previous run';
COMMENT ON COLUMN accuracy_prev_run.previous_stderr IS 'its standard error';
COMMENT ON COLUMN accuracy_prev_run.delta IS 'value - previous';
COMMENT ON COLUMN accuracy_prev_run.noise IS '1.645 standard errors of the difference; NULL if one is missing';
COMMENT ON COLUMN accuracy_prev_run.state IS 'compared or new; of a baseline from outside also not_comparable';
COMMENT ON COLUMN accuracy_prev_run.regression IS 'worse by more than 0.01 and by more than noise';
COMMENT ON COLUMN accuracy_prev_run.reason IS 'what to know about the comparison';
