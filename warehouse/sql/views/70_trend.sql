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
WITH pair AS (
    SELECT n.run_id, n.cell_key, n.slot, n.host, c.run_id AS earlier, c.host AS earlier_host, c.started_at AS earlier_at,
           row_number() OVER (PARTITION BY n.run_id, n.cell_key, n.slot ORDER BY c.sequence DESC) AS back
    FROM cell_run n
    JOIN earlier_run e ON e.run_id = n.run_id
    JOIN cell_run c ON c.run_id = e.earlier AND c.cell_key = n.cell_key AND c.slot = n.slot
    WHERE c.healthy AND NOT c.repeated
      AND coalesce(abs(change_pct(n.mean_input_len, c.mean_input_len)) <= 5, true)
      AND coalesce(abs(change_pct(n.mean_output_len, c.mean_output_len)) <= 5, true)
    QUALIFY back <= 20
), v AS (
    SELECT p.*, m.metric, m.value, d.unit, d.direction, d.ordinal AS metric_ordinal, CASE d.direction WHEN 'lower' THEN -m.value ELSE m.value END AS good
    FROM pair p
    JOIN measurement m ON m.run_id = p.earlier AND m.cell_key = p.cell_key AND m.host = p.earlier_host
    JOIN metric_def d ON d.name = m.metric AND d.gated AND d.direction <> 'neutral'
    WHERE isfinite(m.value)
), summed AS (
    SELECT run_id, cell_key, slot, host, metric, unit, direction, metric_ordinal,
           count(*)::INTEGER AS runs, median(value) FILTER (WHERE back <= 10) AS mid, count(*) FILTER (WHERE back <= 10)::INTEGER AS mid_runs,
           arg_max(value, (good, back)) AS best, arg_max(earlier, (good, back)) AS best_run, arg_max(earlier_at, (good, back)) AS best_at,
           list(value ORDER BY back DESC) AS past
    FROM v
    GROUP BY ALL
)
SELECT p.run_id, p.cell_key, p.slot, p.metric, p.unit, p.direction, p.metric_ordinal, a.value,
       p.mid, p.mid_runs, better_pct(change_pct(a.value, p.mid), p.direction) AS mid_pct,
       p.best, p.best_run, p.best_at, better_pct(change_pct(a.value, p.best), p.direction) AS best_pct,
       coalesce(better_pct(change_pct(a.value, p.best), p.direction) > 0, false) AS is_best,
       p.runs, p.past
FROM summed p
JOIN measurement a ON a.run_id = p.run_id AND a.cell_key = p.cell_key AND a.host = p.host AND a.metric = p.metric
WHERE a.value IS NOT NULL;
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
