-- regressions: did it get worse? Each run against the level of the comparable
-- runs before it.
-- grain: run_id, cell_key, slot, metric
-- reads: cell_run, measurement, metric_def, noise, change_point, expected_cell
-- unit:  change_pct against the median of the earlier runs, signed as measured;
--        better_pct with + for better
-- regression and improvement need three things: more than 5 %, more than three
-- robust standard deviations of the earlier runs, and that the new level lasted
-- (a change point; see change_points). What is beyond both limits but not seen to
-- last is suspect: look again with the next runs. Fewer than five earlier runs
-- are inconclusive.
CREATE OR REPLACE VIEW regressions AS
WITH v AS (
    SELECT c.run_id, c.cell_key, c.slot, c.identity, c.started_at, m.metric, d.unit, d.direction, d.ordinal AS metric_ordinal, m.value,
           coalesce(n.runs, 0) AS earlier_runs, n.mid, n.robust_cv_pct,
           change_pct(m.value, n.mid) AS change_pct, better_pct(change_pct(m.value, n.mid), d.direction) AS better_pct,
           greatest(5.0, 3 * n.robust_cv_pct) AS limit_pct
    FROM cell_run c
    JOIN measurement m ON m.run_id = c.run_id AND m.cell_key = c.cell_key AND m.host = c.host
    JOIN metric_def d ON d.name = m.metric AND d.gated
    LEFT JOIN noise n ON n.run_id = c.run_id AND n.cell_key = c.cell_key AND n.slot = c.slot AND n.metric = m.metric
    WHERE c.started_at IS NOT NULL AND NOT c.repeated AND m.value IS NOT NULL
), p AS (
    SELECT v.*, s.first_run, s.first_at, s.worse
    FROM v ASOF LEFT JOIN (SELECT *, first_at AS at_time FROM change_point) s
        ON s.series_id = v.identity AND s.cell_key = v.cell_key AND s.slot = v.slot AND s.metric = v.metric AND v.started_at >= s.at_time
)
SELECT p.run_id, p.cell_key, e.ordinal AS cell_ordinal, p.slot, p.metric, p.unit, p.direction, p.metric_ordinal,
       p.value, p.mid AS earlier_mid, p.earlier_runs, p.robust_cv_pct, p.limit_pct, p.change_pct, p.better_pct,
       CASE                                          -- first match wins; the order is the rule
           WHEN p.earlier_runs < 5 OR p.better_pct IS NULL THEN 'inconclusive'
           WHEN abs(p.better_pct) <= 5 THEN 'within threshold'
           WHEN abs(p.better_pct) <= p.limit_pct THEN 'within noise'
           WHEN p.better_pct < 0 AND p.worse THEN 'regression'
           WHEN p.better_pct > 0 AND NOT p.worse THEN 'improvement'
           ELSE 'suspect' END AS state,
       CASE WHEN p.earlier_runs < 5 THEN p.earlier_runs || ' earlier comparable runs; five are needed'
            WHEN abs(p.better_pct) > p.limit_pct AND (p.better_pct < 0 AND p.worse OR p.better_pct > 0 AND NOT p.worse) THEN 'since run ' || p.first_run
            WHEN abs(p.better_pct) > p.limit_pct THEN 'beyond threshold and noise, but not seen to last' END AS reason
FROM p
LEFT JOIN expected_cell e ON e.run_id = p.run_id AND e.cell_key = p.cell_key;
COMMENT ON VIEW regressions IS 'Did it get worse? Each run against the level of the comparable runs before it; one row per run, cell, slot and gated metric';
COMMENT ON COLUMN regressions.run_id IS 'run';
COMMENT ON COLUMN regressions.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN regressions.cell_ordinal IS 'order of the cell in the plan';
COMMENT ON COLUMN regressions.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN regressions.metric IS 'name in metric_def';
COMMENT ON COLUMN regressions.unit IS 'unit of the values';
COMMENT ON COLUMN regressions.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN regressions.metric_ordinal IS 'display order';
COMMENT ON COLUMN regressions.value IS 'value in this run';
COMMENT ON COLUMN regressions.earlier_mid IS 'median of the earlier comparable runs';
COMMENT ON COLUMN regressions.earlier_runs IS 'how many, at most 20';
COMMENT ON COLUMN regressions.robust_cv_pct IS 'their robust spread, per cent of the median';
COMMENT ON COLUMN regressions.limit_pct IS '5 or three robust standard deviations, whichever is more';
COMMENT ON COLUMN regressions.change_pct IS 'value against earlier_mid, per cent, signed as measured';
COMMENT ON COLUMN regressions.better_pct IS 'the same with + for better';
COMMENT ON COLUMN regressions.state IS 'regression, improvement, suspect (not seen to last), within noise, within threshold, inconclusive';
COMMENT ON COLUMN regressions.reason IS 'since when, or why there is no judgement';
