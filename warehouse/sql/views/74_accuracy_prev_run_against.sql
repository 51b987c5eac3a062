-- accuracy_prev_run_against: accuracy of one run against a baseline that is not in
-- the warehouse. The columns are those of view accuracy_prev_run.
-- grain: task_id, metric
-- reads: accuracy, baseline_identity
-- unit:  as lm-eval wrote it
-- base is JSON as baseline_identity describes it. It has no standard errors, so a
-- drop is judged by 0.01 alone. A baseline that contradicts the run is not compared
-- with, as in prev_run_against.
CREATE OR REPLACE MACRO accuracy_prev_run_against(this_run, base) AS TABLE
WITH i AS (
    SELECT * FROM baseline_identity(this_run, base)
), old AS (
    SELECT key AS m, value::DOUBLE AS v FROM json_each((SELECT previous_accuracy FROM i WHERE refusal = ''))
)
SELECT a.run_id, a.task_id, a.metric, a.direction, a.ordinal, i.previous_name AS previous_run, NULL::TIMESTAMP AS previous_at, a.value, a.stderr,
       b.v AS previous, NULL::DOUBLE AS previous_stderr, round(a.value - b.v, 9) AS delta, NULL::DOUBLE AS noise,
       CASE WHEN i.refusal <> '' THEN 'not_comparable' WHEN b.m IS NULL THEN 'new' ELSE 'compared' END AS state,
       coalesce(round(CASE a.direction WHEN 'lower' THEN b.v - a.value ELSE a.value - b.v END, 9) < -0.01, false) AS regression,
       CASE WHEN i.refusal <> '' THEN i.refusal WHEN b.m IS NULL THEN 'the baseline does not have it' ELSE 'no standard error: judged by 0.01 alone' END AS reason
FROM accuracy a CROSS JOIN i
LEFT JOIN old b ON b.m = a.metric OR b.m = a.task_id || '.' || a.metric
WHERE a.run_id = this_run AND a.value IS NOT NULL AND NOT ends_with(a.stat, '_stderr');
COMMENT ON MACRO TABLE accuracy_prev_run_against IS 'Accuracy of one run against a baseline that is not in the warehouse, with the columns of view accuracy_prev_run; a baseline that contradicts the run is not compared with. this_run: run id; base: JSON as prev_run_against takes it';
