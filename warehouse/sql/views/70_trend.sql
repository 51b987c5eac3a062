-- trend: where each value stands in its past: the rolling median and the best of
-- the comparable runs before it, and that past as a list.
-- grain: run_id, cell_key, slot, metric (of cells with at least one earlier value)
-- reads: earlier_run, cell_run, measurement, metric_def
-- unit:  as the metric; *_pct in per cent, with + for better
-- Steps of four per cent pass a limit of five, each against the run before it; the
-- median of ten and the best show what they add up to. The past is that of view
-- noise: the last 20 healthy measurements of the cell, of the last 40 comparable
-- runs, each CI run once; workloads whose mean lengths differ by more than 5 % are
-- no past of each other.
CREATE OR REPLACE VIEW trend AS
WITH pair AS (                                       -- back counts the runs back from this one, which is 0
    SELECT n.run_id, n.cell_key, n.slot, c.run_id AS measured, c.host, c.started_at,
           row_number() OVER (PARTITION BY n.run_id, n.cell_key, n.slot ORDER BY c.sequence DESC) AS back
    FROM cell_run n
    JOIN earlier_run e ON e.run_id = n.run_id
    JOIN cell_run c ON c.run_id = e.earlier AND c.cell_key = n.cell_key AND c.slot = n.slot
    WHERE c.healthy AND NOT c.repeated
      AND coalesce(abs(change_pct(n.mean_input_len, c.mean_input_len)) <= 5, true)
      AND coalesce(abs(change_pct(n.mean_output_len, c.mean_output_len)) <= 5, true)
    QUALIFY back <= 20
    UNION ALL
    SELECT run_id, cell_key, slot, run_id, host, started_at, 0 FROM cell_run
), v AS (
    SELECT p.*, m.metric, m.value, d.unit, d.direction, d.ordinal AS metric_ordinal, CASE d.direction WHEN 'lower' THEN -m.value ELSE m.value END AS good
    FROM pair p
    JOIN measurement m ON m.run_id = p.measured AND m.cell_key = p.cell_key AND m.host = p.host
    JOIN metric_def d ON d.name = m.metric AND d.gated AND d.direction <> 'neutral'
    WHERE isfinite(m.value)
), summed AS (
    SELECT run_id, cell_key, slot, metric, unit, direction, metric_ordinal, max(value) FILTER (WHERE back = 0) AS value,
           median(value) FILTER (WHERE back BETWEEN 1 AND 10) AS mid, count(*) FILTER (WHERE back BETWEEN 1 AND 10)::INTEGER AS mid_runs,
           arg_max({value: value, run_id: measured, began: started_at}, (good, back)) FILTER (WHERE back > 0) AS best,
           count(*) FILTER (WHERE back > 0)::INTEGER AS runs, list(value ORDER BY back DESC) FILTER (WHERE back > 0) AS past
    FROM v
    GROUP BY ALL
)
SELECT run_id, cell_key, slot, metric, unit, direction, metric_ordinal, value,
       mid, mid_runs, better_pct(change_pct(value, mid), direction) AS mid_pct,
       best.value AS best, best.run_id AS best_run, best.began AS best_at, better_pct(change_pct(value, best.value), direction) AS best_pct,
       coalesce(better_pct(change_pct(value, best.value), direction) > 0, false) AS is_best,
       runs, past
FROM summed
WHERE value IS NOT NULL AND runs > 0;
COMMENT ON VIEW trend IS 'Where each value stands in its past: rolling median and best of the comparable runs before it; one row per run, cell, slot and gated metric';
COMMENT ON COLUMN trend.run_id IS 'run';
COMMENT ON COLUMN trend.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN trend.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN trend.metric IS 'name in metric_def';
COMMENT ON COLUMN trend.unit IS 'unit of the values';
COMMENT ON COLUMN trend.direction IS 'higher or lower: which way is better';
COMMENT ON COLUMN trend.metric_ordinal IS 'display order';
COMMENT ON COLUMN trend.value IS 'value in this run';
COMMENT ON COLUMN trend.mid IS 'median of the last 10 earlier values';
COMMENT ON COLUMN trend.mid_runs IS 'how many these are, at most 10';
COMMENT ON COLUMN trend.mid_pct IS 'value against mid, per cent, + for better';
COMMENT ON COLUMN trend.best IS 'best of the earlier values';
COMMENT ON COLUMN trend.best_run IS 'run that measured it; the first of several';
COMMENT ON COLUMN trend.best_at IS 'when that run started, UTC';
COMMENT ON COLUMN trend.best_pct IS 'value against best, per cent, + for better';
COMMENT ON COLUMN trend.is_best IS 'better than all of the earlier values';
COMMENT ON COLUMN trend.runs IS 'earlier values, at most 20';
COMMENT ON COLUMN trend.past IS 'these, the oldest first';
