-- repeat_test: do two runs differ by more than their own repeats do?
-- grain: cell_key, slot, metric (gated ones that both runs have)
-- reads: sample_metrics, cell_result, metric_def
-- unit:  as the metric; better_pct in per cent of the other run's mean, + for better
-- Welch's t-test on the repeats of a cell, which needs three on either side; fewer
-- say so. q is p after Benjamini and Hochberg over the cells of a metric, so that of
-- the cells called different one in twenty is by chance. It tells two servers apart,
-- not two releases: what varies from start to start is in view noise.
CREATE OR REPLACE MACRO repeat_test(this_run, other_run) AS TABLE
WITH s AS (
    SELECT m.run_id, m.cell_key, CASE WHEN c.hosts > 1 THEN m.host ELSE '' END AS slot, m.metric,
           count(m.value) AS n, avg(m.value) AS mean, var_samp(m.value) AS variance
    FROM sample_metrics m
    JOIN cell_result c ON c.run_id = m.run_id AND c.cell_key = m.cell_key AND c.host = m.host
    JOIN metric_def d ON d.name = m.metric AND d.gated AND d.direction <> 'neutral'
    WHERE m.run_id IN (this_run, other_run) AND m.quality = 'ok' AND isfinite(m.value)
    GROUP BY m.run_id, m.cell_key, slot, m.metric
), pair AS (
    SELECT a.cell_key, a.slot, a.metric, a.n, b.n AS other_n, a.mean, b.mean AS other_mean,
           a.n >= 3 AND b.n >= 3 AND a.variance + b.variance > 0 AS tested,
           (a.mean - b.mean) / sqrt(a.variance / a.n + b.variance / b.n) AS t,
           pow(a.variance / a.n + b.variance / b.n, 2) / (pow(a.variance / a.n, 2) / (a.n - 1) + pow(b.variance / b.n, 2) / (b.n - 1)) AS df
    FROM s a JOIN s b ON b.run_id = other_run AND b.cell_key = a.cell_key AND b.slot = a.slot AND b.metric = a.metric
    WHERE a.run_id = this_run AND this_run <> other_run
), p AS (
    SELECT *, CASE WHEN tested THEN student_p(t, df) END AS p FROM pair
), ranked AS (
    SELECT *, p * count(p) OVER (PARTITION BY metric) / nullif(row_number() OVER (PARTITION BY metric ORDER BY p NULLS LAST), 0) AS adjusted FROM p
), q AS (
    SELECT r.*, d.unit, d.direction, d.ordinal AS metric_ordinal, better_pct(change_pct(r.mean, r.other_mean), d.direction) AS better_pct,
           CASE WHEN r.tested THEN least(1.0, min(r.adjusted) OVER (PARTITION BY r.metric ORDER BY r.p DESC NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) END AS q
    FROM ranked r JOIN metric_def d ON d.name = r.metric
)
SELECT cell_key, slot, metric, unit, direction, metric_ordinal, n, other_n, mean, other_mean, better_pct,
       CASE WHEN tested THEN t END AS t, CASE WHEN tested THEN df END AS df, p, q,
       CASE WHEN NOT tested THEN 'no test'
            WHEN q >= 0.05 THEN 'not told apart'
            WHEN better_pct < 0 THEN 'worse' ELSE 'better' END AS state,
       CASE WHEN n < 3 OR other_n < 3 THEN 'measured ' || n || ' and ' || other_n || ' times; three are needed in both runs'
            WHEN NOT tested THEN 'the repeats of both runs do not differ at all' END AS reason
FROM q;
COMMENT ON MACRO TABLE repeat_test IS 'Do two runs differ by more than their own repeats do? Welch''s t-test per cell and gated metric with three or more repeats, q after Benjamini and Hochberg over the cells of a metric. this_run, other_run: run ids';
