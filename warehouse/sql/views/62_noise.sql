-- noise: how much a metric moves when nothing happened: the comparable runs
-- before each run.
-- grain: run_id, cell_key, slot, metric (of all runs before run_id; at least one)
-- reads: earlier_run, cell_run, measurement, metric_def
-- unit:  as the metric; robust_cv_pct in per cent of the median
-- The last 20 healthy measurements of the cell, of the last 40 runs, each CI run
-- once. robust_cv_pct is 1.4826 * MAD / |median|: the standard deviation in per
-- cent if the noise were normal, but deaf to single outliers; NULL below three.
CREATE OR REPLACE VIEW noise AS
WITH v AS (
    SELECT e.run_id, c.cell_key, c.slot, m.metric, m.value
    FROM earlier_run e
    JOIN cell_run c ON c.run_id = e.earlier
    JOIN measurement m ON m.run_id = c.run_id AND m.cell_key = c.cell_key AND m.host = c.host
    JOIN metric_def d ON d.name = m.metric
    WHERE c.healthy AND NOT c.repeated AND m.value IS NOT NULL AND d.direction <> 'neutral'
    QUALIFY row_number() OVER (PARTITION BY e.run_id, c.cell_key, c.slot, m.metric ORDER BY c.sequence DESC) <= 20
)
SELECT run_id, cell_key, slot, metric,
       count(*)::INTEGER AS runs,
       median(value) AS mid,
       mad(value) AS mad,
       CASE WHEN count(*) >= 3 AND median(value) <> 0 THEN 100 * 1.4826 * mad(value) / abs(median(value)) END AS robust_cv_pct,
       min(value) AS low, max(value) AS high
FROM v
GROUP BY run_id, cell_key, slot, metric;
COMMENT ON VIEW noise IS 'How much a metric moved in the comparable runs before each run; one row per run, cell, slot and metric';
COMMENT ON COLUMN noise.run_id IS 'the run before which was measured';
COMMENT ON COLUMN noise.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN noise.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN noise.metric IS 'name in metric_def';
COMMENT ON COLUMN noise.runs IS 'earlier measurements used, at most 20';
COMMENT ON COLUMN noise.mid IS 'their median';
COMMENT ON COLUMN noise.mad IS 'their median absolute deviation';
COMMENT ON COLUMN noise.robust_cv_pct IS '1.4826 * mad / |mid|, per cent; NULL below three measurements';
COMMENT ON COLUMN noise.low IS 'smallest of them';
COMMENT ON COLUMN noise.high IS 'largest of them';
