-- change_points: lasting shifts of level in the history, as found at load.
-- grain: series_id, cell_key, slot, metric, first_run
-- reads: change_point, metric_def, cell_result
-- unit:  levels as the metric; change_pct signed as measured
-- Method and version stand in the rows; package warehouse/shift describes it.
-- moved_with counts the other cells and metrics whose level changed at the same
-- run: a change of the software moves many, a bad node few. next_run is where the
-- next level begins: after a loss that was repaired, the first good run again.
CREATE OR REPLACE VIEW change_points AS
WITH measured_cells AS (
    SELECT run_id, count(DISTINCT cell_key) AS cells
    FROM cell_result SEMI JOIN (SELECT first_run FROM change_point) f ON f.first_run = cell_result.run_id GROUP BY run_id
)
SELECT p.series_id, p.cell_key, p.slot, p.metric, d.unit, d.direction, d.ordinal AS metric_ordinal,
       p.last_run, p.first_run, p.first_at, p.found_run, p.before_n, p.before_mid, p.after_n, p.after_mid, p.change_pct,
       better_pct(p.change_pct, d.direction) AS better_pct, p.worse, p.p_value, 100 * (1 - p.p_value) AS confidence_pct, p.method, p.version,
       count(*) OVER (PARTITION BY p.series_id, p.first_run, p.worse) - 1 AS moved_with,
       coalesce(m.cells, 0) AS cells_measured,
       lead(p.first_run) OVER level AS next_run, lead(p.first_at) OVER level AS next_at, better_pct(lead(p.change_pct) OVER level, d.direction) AS next_better_pct
FROM change_point p
JOIN metric_def d ON d.name = p.metric
LEFT JOIN measured_cells m ON m.run_id = p.first_run
WINDOW level AS (PARTITION BY p.series_id, p.cell_key, p.slot, p.metric ORDER BY p.first_seq);
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
COMMENT ON COLUMN change_points.confidence_pct IS '100 * (1 - p_value): how rarely such ranks come about where nothing changed; not the chance that the shift is real';
COMMENT ON COLUMN change_points.method IS 'how it was found';
COMMENT ON COLUMN change_points.version IS 'of that method here';
COMMENT ON COLUMN change_points.moved_with IS 'other shifts to the same side at the same run of the series';
COMMENT ON COLUMN change_points.cells_measured IS 'cells that first_run measured, moved or not';
COMMENT ON COLUMN change_points.next_run IS 'first run of the level after this one; NULL: no later shift';
COMMENT ON COLUMN change_points.next_at IS 'its start, UTC';
COMMENT ON COLUMN change_points.next_better_pct IS 'its change against this level, + for better';
