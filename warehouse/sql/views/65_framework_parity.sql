-- framework_parity: each run of one serving framework against the same work in
-- another.
-- grain: run_id, reference_run, cell_key, slot, metric; metric is empty in the one
-- row of a cell that was not compared
-- reads: cell_run, run_identity, measurement, metric_def, expected_cell
-- unit:  ratio is value / reference
-- The reference is the run that started nearest in time
-- of native ATOM (driver atom) with all else equal; for a run of driver
-- atom itself, of each other driver. Output throughput, mean TTFT and mean TPOT
-- are compared. Workloads whose mean lengths differ by more than 5 % are refused
-- (one client draws them otherwise than another); unknown lengths are compared
-- and marked.
CREATE OR REPLACE VIEW framework_parity AS
WITH candidate AS (
    SELECT a.run_id, a.driver, b.run_id AS reference_run, b.driver AS reference_driver, b.started_at AS reference_at
    FROM run_identity a JOIN run_identity b ON b.parity = a.parity AND b.driver <> a.driver AND (b.driver = 'atom' OR a.driver = 'atom')
    WHERE a.started_at IS NOT NULL AND b.started_at IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY a.run_id, b.driver ORDER BY abs(date_diff('millisecond', a.started_at, b.started_at)), b.run_id) = 1
), paired AS (
    -- both sides in one pass: a filter on run_id goes through it
    SELECT k.run_id, k.driver, k.reference_run, k.reference_driver, k.reference_at, c.cell_key, c.slot,
           max(c.host) FILTER (WHERE c.run_id = k.run_id) AS host, max(c.host) FILTER (WHERE c.run_id = k.reference_run) AS reference_host,
           bool_or(c.run_id = k.run_id) AS has_now, bool_or(c.run_id = k.reference_run) AS has_before,
           count(c.mean_input_len) + count(c.mean_output_len) < 2 * count(*) AS length_unknown,
           greatest(
               abs(change_pct(max(c.mean_input_len) FILTER (WHERE c.run_id = k.run_id), max(c.mean_input_len) FILTER (WHERE c.run_id = k.reference_run))),
               abs(change_pct(max(c.mean_output_len) FILTER (WHERE c.run_id = k.run_id), max(c.mean_output_len) FILTER (WHERE c.run_id = k.reference_run)))) AS length_pct
    FROM (SELECT *, unnest([run_id, reference_run]) AS side FROM candidate) k JOIN cell_run c ON c.run_id = k.side
    GROUP BY ALL
), wanted AS (
    SELECT *, unnest(CASE WHEN has_now AND has_before AND coalesce(length_pct <= 5, true) THEN ['output_throughput', 'mean_ttft_ms', 'mean_tpot_ms'] ELSE [''] END) AS metric
    FROM paired
), rows AS (
    SELECT w.run_id, w.driver, w.reference_run, w.reference_driver, w.reference_at, w.cell_key, w.slot, w.length_pct, w.length_unknown, w.metric, a.value, b.value AS reference,
           CASE WHEN w.metric = '' THEN w.has_before ELSE b.metric IS NOT NULL END AS has_reference, w.has_now
    FROM wanted w
    LEFT JOIN measurement a ON a.run_id = w.run_id AND a.cell_key = w.cell_key AND a.host = w.host AND a.metric = w.metric
    LEFT JOIN measurement b ON b.run_id = w.reference_run AND b.cell_key = w.cell_key AND b.host = w.reference_host AND b.metric = w.metric
    WHERE w.metric = '' OR a.metric IS NOT NULL
)
SELECT r.run_id, r.cell_key, e.ordinal AS cell_ordinal, r.slot, r.metric, parity_name(r.driver, r.metric) AS name,
       coalesce(d.unit, '') AS unit, coalesce(d.direction, '') AS direction, coalesce(d.ordinal, -1) AS metric_ordinal,
       r.driver, r.reference_run, r.reference_driver, r.reference_at, r.value, r.reference,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference > 0 THEN r.value / r.reference END AS ratio,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference > 0 THEN better_pct(change_pct(r.value, r.reference), d.direction) END AS better_pct,
       CASE WHEN r.metric = '' AND r.length_pct > 5 THEN 'not_comparable'
            WHEN NOT r.has_now THEN 'only_reference'
            WHEN r.metric = '' OR NOT r.has_reference THEN 'no_reference'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'not_comparable'
            ELSE 'compared' END AS state,
       CASE WHEN r.length_pct > 5 THEN 'the workloads differ: mean lengths by ' || round(r.length_pct, 1) || ' %'
            WHEN NOT r.has_now THEN 'only in the reference'
            WHEN r.metric = '' THEN 'the reference has no such cell'
            WHEN NOT r.has_reference THEN 'the reference has no such metric'
            WHEN r.reference = 0 THEN 'n/a (reference is 0)'
            WHEN r.reference < 0 THEN 'n/a (reference is negative)'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'n/a (not a number)'
            WHEN r.length_unknown THEN 'lengths of the workload unknown' END AS reason
FROM rows r
LEFT JOIN metric_def d ON d.name = r.metric
LEFT JOIN expected_cell e ON e.run_id = r.run_id AND e.cell_key = r.cell_key;
COMMENT ON VIEW framework_parity IS 'Each run against the nearest run of another serving framework with all else equal; one row per run, reference, cell, slot and metric';
COMMENT ON COLUMN framework_parity.run_id IS 'run';
COMMENT ON COLUMN framework_parity.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN framework_parity.cell_ordinal IS 'order of the cell in the plan; NULL for a cell only the reference has';
COMMENT ON COLUMN framework_parity.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN framework_parity.metric IS 'output_throughput, mean_ttft_ms or mean_tpot_ms; empty in the one row of a cell that was not compared';
COMMENT ON COLUMN framework_parity.name IS 'compare.vllm.…_ratio, compare.sglang.…_ratio or compare.framework.…_ratio, as sidecars name it';
COMMENT ON COLUMN framework_parity.unit IS 'unit of the values';
COMMENT ON COLUMN framework_parity.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN framework_parity.metric_ordinal IS 'display order';
COMMENT ON COLUMN framework_parity.driver IS 'driver of the run';
COMMENT ON COLUMN framework_parity.reference_run IS 'run compared with';
COMMENT ON COLUMN framework_parity.reference_driver IS 'its driver';
COMMENT ON COLUMN framework_parity.reference_at IS 'its start, UTC';
COMMENT ON COLUMN framework_parity.value IS 'value in the run';
COMMENT ON COLUMN framework_parity.reference IS 'value in the reference';
COMMENT ON COLUMN framework_parity.ratio IS 'value / reference';
COMMENT ON COLUMN framework_parity.better_pct IS 'difference in per cent of the reference, + for better';
COMMENT ON COLUMN framework_parity.state IS 'compared, no_reference, only_reference, not_comparable';
COMMENT ON COLUMN framework_parity.reason IS 'why it is not compared, or what to know about the comparison';
