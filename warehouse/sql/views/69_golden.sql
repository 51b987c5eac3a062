-- golden: each run against the baseline that somebody pinned for its identity.
-- grain: run_id, cell_key, slot, metric (cells both have)
-- reads: baseline, cell_run, run_identity, measurement, metric_def
-- unit:  delta_pct in per cent of the pinned value, better_pct with + for better
-- Of several pins of one identity the newest counts. Workloads whose mean lengths
-- differ by more than 5 % are not compared, as in prev_run.
CREATE OR REPLACE VIEW golden AS
WITH pin AS (
    SELECT b.name, b.run_id AS golden_run, b.pinned_at, i.identity
    FROM baseline b JOIN run_identity i ON i.run_id = b.run_id
    QUALIFY row_number() OVER (PARTITION BY i.identity ORDER BY b.pinned_at DESC, b.name, b.run_id) = 1
), c AS (
    SELECT n.run_id, n.cell_key, n.slot, n.host, g.host AS golden_host, p.name, p.golden_run, p.pinned_at,
           greatest(abs(change_pct(n.mean_input_len, g.mean_input_len)), abs(change_pct(n.mean_output_len, g.mean_output_len))) AS length_pct,
           concat_ws('; ', CASE WHEN n.success_rate < 0.99 THEN num_text(n.failed) || ' requests failed in this run' END,
               CASE WHEN g.success_rate < 0.99 THEN num_text(g.failed) || ' requests failed in the pinned run' END) AS remark
    FROM cell_run n JOIN pin p ON p.identity = n.identity AND p.golden_run <> n.run_id
    JOIN cell_run g ON g.run_id = p.golden_run AND g.cell_key = n.cell_key AND g.slot = n.slot
), v AS (
    SELECT c.*, a.metric, d.unit, d.direction, d.ordinal AS metric_ordinal, a.value, b.value AS golden,
           CASE WHEN c.length_pct > 5 THEN 'not_comparable' ELSE comparison_state(true, a.value, true, b.value) END AS state
    FROM c
    JOIN measurement a ON a.run_id = c.run_id AND a.cell_key = c.cell_key AND a.host = c.host
    JOIN measurement b ON b.run_id = c.golden_run AND b.cell_key = c.cell_key AND b.host = c.golden_host AND b.metric = a.metric
    JOIN metric_def d ON d.name = a.metric AND d.gated
)
SELECT run_id, cell_key, slot, metric, unit, direction, metric_ordinal, name, golden_run, pinned_at, value, golden,
       CASE WHEN state = 'compared' THEN value / golden END AS ratio,
       CASE WHEN state = 'compared' THEN change_pct(value, golden) END AS delta_pct,
       CASE WHEN state = 'compared' THEN better_pct(change_pct(value, golden), direction) END AS better_pct,
       coalesce(state = 'compared' AND better_pct(change_pct(value, golden), direction) < -5, false) AS regression,
       state,
       nullif(concat_ws('; ', CASE WHEN length_pct > 5 THEN 'the workloads differ: mean lengths by ' || round(length_pct, 1) || ' %'
                                   ELSE replace(comparison_reason(true, value, true, golden), 'previous', 'pinned value') END, nullif(remark, '')), '') AS reason
FROM v;
COMMENT ON VIEW golden IS 'Each run against the baseline pinned for its identity; one row per run, cell, slot and gated metric';
COMMENT ON COLUMN golden.run_id IS 'run';
COMMENT ON COLUMN golden.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN golden.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN golden.metric IS 'name in metric_def';
COMMENT ON COLUMN golden.unit IS 'unit of the values';
COMMENT ON COLUMN golden.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN golden.metric_ordinal IS 'display order';
COMMENT ON COLUMN golden.name IS 'name of the pin';
COMMENT ON COLUMN golden.golden_run IS 'pinned run';
COMMENT ON COLUMN golden.pinned_at IS 'when it was pinned, UTC';
COMMENT ON COLUMN golden.value IS 'value in this run';
COMMENT ON COLUMN golden.golden IS 'value in the pinned run';
COMMENT ON COLUMN golden.ratio IS 'value / golden';
COMMENT ON COLUMN golden.delta_pct IS 'change in per cent of the pinned value, signed as measured';
COMMENT ON COLUMN golden.better_pct IS 'the same with + for better';
COMMENT ON COLUMN golden.regression IS 'more than 5 % to the worse';
COMMENT ON COLUMN golden.state IS 'compared or not_comparable';
COMMENT ON COLUMN golden.reason IS 'why it is not compared, or what to know about the comparison';
