-- threshold_suggestion: a bound for each gated metric that a run which is as the
-- runs before were would break with a stated chance.
-- grain: series_id, cell_key, metric
-- reads: history, metric_def
-- unit:  as the metric; false_alarm_pct in per cent
-- From the last 20 healthy runs of the series, at least five: median plus or
-- minus z robust standard deviations, and at least 1 % away. The chance is that of
-- a normal distribution; would_fail counts what really would have failed of all
-- healthy runs of the series (which include those of older levels).
CREATE OR REPLACE MACRO threshold_suggestion(z) AS TABLE
WITH h AS (
    SELECT h.series_id, h.cell_key, h.metric, h.unit, h.direction, h.metric_ordinal, h.value,
           row_number() OVER (PARTITION BY h.series_id, h.cell_key, h.metric ORDER BY h.sequence DESC) AS age
    FROM history h JOIN metric_def d ON d.name = h.metric AND d.gated
    WHERE h.healthy AND h.direction <> 'neutral'
), s AS (
    SELECT series_id, cell_key, metric, unit, direction, metric_ordinal, count(*)::INTEGER AS runs, median(value) AS mid, 1.4826 * mad(value) AS spread
    FROM h WHERE age <= 20 GROUP BY ALL HAVING count(*) >= 5
), b AS (
    SELECT *, CASE direction WHEN 'higher' THEN mid - greatest(z * spread, 0.01 * abs(mid)) ELSE mid + greatest(z * spread, 0.01 * abs(mid)) END AS bound FROM s
)
SELECT b.series_id, b.cell_key, b.metric, b.unit, b.direction, b.metric_ordinal,
       CASE WHEN b.direction = 'lower' AND b.unit = 'ms' THEN 'max_ms' WHEN b.direction = 'lower' THEN 'max' WHEN b.unit = 'tok/s' THEN 'min_tok_s' ELSE 'min' END AS kind,
       b.bound AS value, b.runs, b.mid, b.spread,
       count(h.value)::INTEGER AS tested, count(*) FILTER (WHERE CASE b.direction WHEN 'higher' THEN h.value < b.bound ELSE h.value > b.bound END)::INTEGER AS would_fail
FROM b JOIN h ON h.series_id = b.series_id AND h.cell_key = b.cell_key AND h.metric = b.metric
GROUP BY ALL;
COMMENT ON MACRO TABLE threshold_suggestion IS 'A bound for each gated metric of each series that a run as those before would break with a stated chance; one row per series, cell and metric. z: number, distance from the median in robust standard deviations';
