-- accuracy_prev_run_against: accuracy of one run against a baseline that is not in
-- the warehouse. The columns are those of view accuracy_prev_run.
-- grain: task_id, metric
-- reads: accuracy
-- unit:  as lm-eval wrote it
-- base is JSON, {metric or task.metric: number}. It has no standard errors, so a
-- drop is judged by 0.01 alone.
CREATE OR REPLACE MACRO accuracy_prev_run_against(this_run, name, base) AS TABLE
SELECT a.run_id, a.task_id, a.metric, a.direction, a.ordinal, name AS previous_run, NULL::TIMESTAMP AS previous_at, a.value, a.stderr,
       b.v AS previous, NULL::DOUBLE AS previous_stderr, round(a.value - b.v, 9) AS delta, NULL::DOUBLE AS noise,
       CASE WHEN b.m IS NULL THEN 'new' ELSE 'compared' END AS state,
       coalesce(round(CASE a.direction WHEN 'lower' THEN b.v - a.value ELSE a.value - b.v END, 9) < -0.01, false) AS regression,
       CASE WHEN b.m IS NULL THEN 'the baseline does not have it' ELSE 'no standard error: judged by 0.01 alone' END AS reason
FROM accuracy a
LEFT JOIN (SELECT key AS m, value::DOUBLE AS v FROM json_each(base::JSON)) b ON b.m = a.metric OR b.m = a.task_id || '.' || a.metric
WHERE a.run_id = this_run AND a.value IS NOT NULL AND NOT ends_with(a.stat, '_stderr');
COMMENT ON MACRO TABLE accuracy_prev_run_against IS 'Accuracy of one run against a baseline that is not in the warehouse, with the columns of view accuracy_prev_run. this_run: run id; name: of the baseline; base: JSON {metric or task.metric: number}';
