-- change_summary: each run against the run before it, one number a metric: the
-- geometric mean over the cells, with its interval.
-- grain: run_id, metric
-- reads: prev_run, metric_def
-- unit:  %, + for better
CREATE OR REPLACE VIEW change_summary AS
SELECT run_id, metric, metric_ordinal, c.cells, c.better_pct, c.low_pct, c.high_pct, worse, better
FROM (SELECT run_id, metric, metric_ordinal, mean_change(list(ratio ORDER BY cell_key, slot), any_value(direction)) AS c,
             count(*) FILTER (WHERE regression) AS worse, count(*) FILTER (WHERE changed AND NOT regression) AS better
      FROM prev_run WHERE state = 'compared' AND direction IN ('higher', 'lower') GROUP BY run_id, metric, metric_ordinal);
COMMENT ON VIEW change_summary IS 'Each run against the run before it as one number a metric; one row per run and metric with a better direction';
COMMENT ON COLUMN change_summary.run_id IS 'run';
COMMENT ON COLUMN change_summary.metric IS 'gated metric';
COMMENT ON COLUMN change_summary.metric_ordinal IS 'display order';
COMMENT ON COLUMN change_summary.cells IS 'cells that were compared, each slot counted';
COMMENT ON COLUMN change_summary.better_pct IS 'geometric mean of the changes in per cent, + for better';
COMMENT ON COLUMN change_summary.low_pct IS 'lower end of its 95 % interval: Student''s t over the logarithms of the ratios; NULL for one cell';
COMMENT ON COLUMN change_summary.high_pct IS 'upper end of that interval';
COMMENT ON COLUMN change_summary.worse IS 'cells more than 5 % worse';
COMMENT ON COLUMN change_summary.better IS 'cells more than 5 % better';
