-- accuracy: what lm-eval measured, with its standard error.
-- grain: run_id, task_id, metric
-- reads: sample, raw_value, check_result
-- unit:  as lm-eval wrote it (fractions stay fractions); stderr likewise
-- Of several files of a task the one with the newest date of its own counts.
CREATE OR REPLACE VIEW accuracy AS
WITH newest AS (
    SELECT run_id, sample_no, task_id, path, model, start_unix, files
    FROM (SELECT *, count(*) OVER (PARTITION BY run_id, task_id) AS files,
                 row_number() OVER (PARTITION BY run_id, task_id ORDER BY start_unix DESC NULLS LAST, path DESC, sample_no DESC) AS newness
          FROM sample WHERE role = 'accuracy' AND usable)
    WHERE newness = 1
), v AS (
    SELECT n.run_id, n.task_id, n.path, n.model, n.start_unix, n.files, r.ordinal, r.parent, r.key, r.pointer, r.metric, r.number, r.quality, r.text,
           r.higher_is_better,
           split_part(r.key, ',', 1) AS stat,
           CASE WHEN contains(r.key, ',') THEN substr(r.key, position(',' IN r.key) + 1) END AS filter
    FROM newest n
    JOIN raw_value r ON r.run_id = n.run_id AND r.sample_no = n.sample_no
    -- metrics of tasks stand under /results/…; as a range, so that the values of
    -- sweeps are not even read
    WHERE r.metric IS NOT NULL AND r.parent >= '/results/' AND r.parent < '/results0'
), e AS (
    -- a window, not a join with itself: a filter on run_id goes through it
    SELECT *, max(number) FILTER (WHERE ends_with(stat, '_stderr') AND quality = 'ok')
               OVER (PARTITION BY run_id, task_id, parent, filter, regexp_replace(stat, '_stderr$', '')) AS error
    FROM v
)
SELECT v.run_id, v.task_id,
       replace(replace(split_part(v.parent, '/', 3), '~1', '/'), '~0', '~') AS lm_task,
       v.metric, v.stat, v.filter,
       CASE WHEN v.quality = 'ok' THEN v.number END AS value,
       v.quality, v.text,
       CASE WHEN NOT ends_with(v.stat, '_stderr') THEN v.error END AS stderr,
       CASE WHEN ends_with(v.stat, '_stderr') THEN 'lower'
            WHEN v.higher_is_better THEN 'higher' WHEN NOT v.higher_is_better THEN 'lower' ELSE 'unknown' END AS direction,
       v.model, v.path, v.pointer,
       CASE WHEN v.start_unix BETWEEN 0 AND 1e11 THEN make_timestamp((v.start_unix * 1e6)::BIGINT) END AS measured_at,
       v.files::INTEGER AS files,
       v.ordinal,
       CASE WHEN v.quality = 'ok' AND NOT ends_with(v.stat, '_stderr') AND isfinite(v.error) THEN v.number - 1.959964 * v.error END AS ci_low,
       CASE WHEN v.quality = 'ok' AND NOT ends_with(v.stat, '_stderr') AND isfinite(v.error) THEN v.number + 1.959964 * v.error END AS ci_high,
       -- a filter that the file does not have hides nothing
       coalesce(v.filter = f.text OR v.filter IS NULL OR NOT bool_or(v.filter = f.text) OVER (PARTITION BY v.run_id, v.task_id), true) AS reported
FROM e AS v
LEFT JOIN check_result f ON f.run_id = v.run_id AND f.scope = 'accuracy' AND f.target = v.task_id AND f.metric = 'filter';
COMMENT ON VIEW accuracy IS 'What lm-eval measured; one row per run, accuracy task and metric';
COMMENT ON COLUMN accuracy.run_id IS 'run';
COMMENT ON COLUMN accuracy.task_id IS 'id of the accuracy task in the configuration';
COMMENT ON COLUMN accuracy.lm_task IS 'task or group as lm-eval names it';
COMMENT ON COLUMN accuracy.metric IS '<lm_task>.<metric>__<filter>, as thresholds use it';
COMMENT ON COLUMN accuracy.stat IS 'metric without its filter';
COMMENT ON COLUMN accuracy.filter IS 'lm-eval filter, NULL in files of 2023';
COMMENT ON COLUMN accuracy.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN accuracy.quality IS 'ok, non_finite, out_of_range';
COMMENT ON COLUMN accuracy.text IS 'the value as written';
COMMENT ON COLUMN accuracy.stderr IS 'standard error of value as lm-eval gives it, NULL if it gives none';
COMMENT ON COLUMN accuracy.direction IS 'higher, lower or unknown: which way is better, as the file says';
COMMENT ON COLUMN accuracy.model IS 'model the file names';
COMMENT ON COLUMN accuracy.path IS 'raw file, relative to the run directory';
COMMENT ON COLUMN accuracy.pointer IS 'JSON pointer in it';
COMMENT ON COLUMN accuracy.measured_at IS 'date of the file itself, UTC';
COMMENT ON COLUMN accuracy.files IS 'usable files of this task; the newest is shown';
COMMENT ON COLUMN accuracy.ordinal IS 'order in the file';
COMMENT ON COLUMN accuracy.ci_low IS 'value - 1.96 stderr: lower end of the normal interval, 95 per cent; NULL without a standard error';
COMMENT ON COLUMN accuracy.ci_high IS 'value + 1.96 stderr';
COMMENT ON COLUMN accuracy.reported IS 'false: of another filter than the one that the task''s metadata.filter selects';
