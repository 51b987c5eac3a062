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
WITH i AS (
    SELECT * FROM run_identity WHERE started_at IS NOT NULL AND driver IS NOT NULL
), candidate AS (
    SELECT a.run_id, a.driver, b.run_id AS reference_run, b.driver AS reference_driver, b.started_at AS reference_at
    FROM i a JOIN i b ON b.parity = a.parity AND b.driver <> a.driver AND (b.driver = 'atom' OR a.driver = 'atom')
    QUALIFY row_number() OVER (PARTITION BY a.run_id, b.driver ORDER BY abs(date_diff('millisecond', a.started_at, b.started_at)), b.run_id) = 1
), now AS (
    SELECT k.*, c.cell_key, c.slot, c.host, c.mean_input_len, c.mean_output_len FROM candidate k JOIN cell_run c ON c.run_id = k.run_id
), other AS (
    SELECT k.*, c.cell_key, c.slot, c.host, c.mean_input_len, c.mean_output_len FROM candidate k JOIN cell_run c ON c.run_id = k.reference_run
), paired AS (
    SELECT n.* EXCLUDE (mean_input_len, mean_output_len), p.host AS reference_host, true AS has_now, p.cell_key IS NOT NULL AS has_before,
           greatest(abs(change_pct(n.mean_input_len, p.mean_input_len)), abs(change_pct(n.mean_output_len, p.mean_output_len))) AS length_pct
    FROM now n LEFT JOIN other p ON p.run_id = n.run_id AND p.reference_run = n.reference_run AND p.cell_key = n.cell_key AND p.slot = n.slot
    UNION ALL
    SELECT p.* EXCLUDE (mean_input_len, mean_output_len), p.host, false, true, NULL
    FROM other p WHERE NOT EXISTS (SELECT 1 FROM now n WHERE p.run_id = n.run_id AND p.reference_run = n.reference_run AND p.cell_key = n.cell_key AND p.slot = n.slot)
), m AS (
    SELECT m.run_id, m.cell_key, m.host, m.metric, m.value FROM measurement m WHERE m.metric IN ('output_throughput', 'mean_ttft_ms', 'mean_tpot_ms')
), rows AS (
    SELECT c.run_id, c.driver, c.reference_run, c.reference_driver, c.reference_at, c.cell_key, c.slot, c.length_pct, a.metric, a.value, b.value AS reference,
           b.metric IS NOT NULL AS has_reference
    FROM paired c
    JOIN m a ON a.run_id = c.run_id AND a.cell_key = c.cell_key AND a.host = c.host
    LEFT JOIN m b ON b.run_id = c.reference_run AND b.cell_key = c.cell_key AND b.host = c.reference_host AND b.metric = a.metric
    WHERE c.has_now AND c.has_before AND coalesce(c.length_pct <= 5, true)
    UNION ALL
    SELECT run_id, driver, reference_run, reference_driver, reference_at, cell_key, slot, length_pct, '', NULL, NULL, has_before
    FROM paired WHERE NOT has_now OR NOT has_before OR length_pct > 5
)
SELECT r.run_id, r.cell_key, e.ordinal AS cell_ordinal, r.slot, r.metric, parity_name(r.driver, r.metric) AS name,
       coalesce(d.unit, '') AS unit, coalesce(d.direction, '') AS direction, coalesce(d.ordinal, -1) AS metric_ordinal,
       r.driver, r.reference_run, r.reference_driver, r.reference_at, r.value, r.reference,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference <> 0 THEN r.value / r.reference END AS ratio,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference <> 0 THEN better_pct(change_pct(r.value, r.reference), d.direction) END AS better_pct,
       CASE WHEN r.metric = '' AND r.length_pct > 5 THEN 'not_comparable'
            WHEN r.metric = '' AND r.has_reference THEN 'only_reference'
            WHEN r.metric = '' OR NOT r.has_reference THEN 'no_reference'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'not_comparable'
            ELSE 'compared' END AS state,
       CASE WHEN r.length_pct > 5 THEN 'the workloads differ: mean lengths by ' || round(r.length_pct, 1) || ' %'
            WHEN r.metric = '' AND r.has_reference THEN 'only in the reference'
            WHEN r.metric = '' THEN 'the reference has no such cell'
            WHEN NOT r.has_reference THEN 'the reference has no such metric'
            WHEN r.reference = 0 THEN 'n/a (reference is 0)'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'n/a (not a number)'
            WHEN r.length_pct IS NULL THEN 'lengths of the workload unknown' END AS reason
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
