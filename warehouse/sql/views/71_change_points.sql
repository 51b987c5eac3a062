-- change_points: lasting shifts of level in the history, as found at load.
-- grain: series_id, cell_key, slot, metric, first_run
-- reads: change_point, metric_def
-- unit:  levels as the metric; change_pct signed as measured
-- Method and version stand in the rows; package warehouse/shift describes it.
-- moved_with counts the other cells and metrics whose level changed at the same
-- run: a change of the software moves many, a bad node few.
CREATE OR REPLACE VIEW change_points AS
SELECT p.series_id, p.cell_key, p.slot, p.metric, d.unit, d.direction, d.ordinal AS metric_ordinal,
       p.last_run, p.first_run, p.first_at, p.found_run, p.before_n, p.before_mid, p.after_n, p.after_mid, p.change_pct,
       better_pct(p.change_pct, d.direction) AS better_pct, p.worse, p.p_value, p.method, p.version,
       count(*) OVER (PARTITION BY p.series_id, p.first_run, p.worse) - 1 AS moved_with
FROM change_point p
JOIN metric_def d ON d.name = p.metric;
COMMENT ON VIEW change_points IS 'Lasting shifts of level in the history; one row per series, cell, slot, metric and first run of the new level';
COMMENT ON COLUMN change_points.series_id IS 'the identity that its runs share';
COMMENT ON COLUMN change_points.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN change_points.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN change_points.metric IS 'name in metric_def';
COMMENT ON COLUMN change_points.unit IS 'unit of the values';
COMMENT ON COLUMN change_points.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN change_points.metric_ordinal IS 'display order';
COMMENT ON COLUMN change_points.last_run IS 'last run of the old level';
COMMENT ON COLUMN change_points.first_run IS 'first run of the new level';
COMMENT ON COLUMN change_points.first_at IS 'its start, UTC';
COMMENT ON COLUMN change_points.found_run IS 'run that showed it: before it, the shift could not be told from noise';
COMMENT ON COLUMN change_points.before_n IS 'runs of the old level that were looked at';
COMMENT ON COLUMN change_points.before_mid IS 'their median';
COMMENT ON COLUMN change_points.after_n IS 'runs of the new level that were looked at';
COMMENT ON COLUMN change_points.after_mid IS 'their median';
COMMENT ON COLUMN change_points.change_pct IS 'median of all ratios after/before, per cent, signed as measured';
COMMENT ON COLUMN change_points.better_pct IS 'the same with + for better';
COMMENT ON COLUMN change_points.worse IS 'true: the new level is worse';
COMMENT ON COLUMN change_points.p_value IS 'of the hypothesis that nothing changed';
COMMENT ON COLUMN change_points.method IS 'how it was found';
COMMENT ON COLUMN change_points.version IS 'of that method here';
COMMENT ON COLUMN change_points.moved_with IS 'other shifts to the same side at the same run of the series';
