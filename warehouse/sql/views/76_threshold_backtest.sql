-- threshold_backtest: what a threshold file would have done to the history, spec
-- by spec.
-- grain: series_id, cell_key, metric, kind, value (of the specs that history has
-- values for)
-- reads: history
-- unit:  counts of healthy runs
-- specs is JSON: [{cell, metric, kind, value, tolerance_pct}]; min_ratio and info
-- are left out, since they need more than one value or none.
CREATE OR REPLACE MACRO threshold_backtest(specs) AS TABLE
WITH s AS (
    SELECT x.cell, x.metric, x.kind, x.value, x.tolerance_pct
    FROM (SELECT unnest(from_json(specs::VARCHAR, '[{"cell": "VARCHAR", "metric": "VARCHAR", "kind": "VARCHAR", "value": "DOUBLE", "tolerance_pct": "DOUBLE"}]')) AS x)
    WHERE x.kind IN ('min', 'min_tok_s', 'max', 'max_ms', 'within')
)
SELECT h.series_id, h.cell_key, h.metric, s.kind, s.value, count(*)::INTEGER AS runs,
       count(*) FILTER (WHERE breaks_spec(s.kind, h.value, s.value, s.tolerance_pct))::INTEGER AS would_fail,
       min(h.value) AS lowest, median(h.value) AS mid, max(h.value) AS highest, any_value(h.metric_ordinal) AS metric_ordinal
FROM s JOIN history h ON h.cell_key = s.cell AND h.metric = s.metric
WHERE h.healthy
GROUP BY h.series_id, h.cell_key, h.metric, s.kind, s.value;
COMMENT ON MACRO TABLE threshold_backtest IS 'How many healthy runs of the history a threshold file would have failed; one row per series, cell and metric. specs: JSON [{cell, metric, kind, value, tolerance_pct}]';
