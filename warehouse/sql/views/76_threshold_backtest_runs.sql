-- threshold_backtest_runs: how many runs of the history a threshold file would
-- have failed as a whole.
-- grain: series_id (of those that measured a cell of the file)
-- reads: history
-- unit:  counts of runs with a healthy cell of the file
-- specs as for threshold_backtest. A run fails if one of its values does.
CREATE OR REPLACE MACRO threshold_backtest_runs(specs) AS TABLE
WITH s AS (
    SELECT x.cell, x.metric, x.kind, x.value, x.tolerance_pct
    FROM (SELECT unnest(from_json(specs::VARCHAR, '[{"cell": "VARCHAR", "metric": "VARCHAR", "kind": "VARCHAR", "value": "DOUBLE", "tolerance_pct": "DOUBLE"}]')) AS x)
    WHERE x.kind IN ('min', 'min_tok_s', 'max', 'max_ms', 'within')
), r AS (
    SELECT h.series_id, h.run_id, h.sequence, bool_or(breaks_spec(s.kind, h.value, s.value, s.tolerance_pct)) AS fails
    FROM s JOIN history h ON h.cell_key = s.cell AND h.metric = s.metric
    WHERE h.healthy
    GROUP BY h.series_id, h.run_id, h.sequence
)
SELECT series_id, count(*)::INTEGER AS runs, count(*) FILTER (WHERE fails)::INTEGER AS would_fail, arg_max(run_id, sequence) FILTER (WHERE fails) AS last_failed
FROM r GROUP BY series_id;
COMMENT ON MACRO TABLE threshold_backtest_runs IS 'How many runs of the history a threshold file would have failed as a whole; one row per series. specs: JSON as of threshold_backtest';
