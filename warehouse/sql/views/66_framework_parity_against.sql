-- framework_parity_against: one run against a reference that is not in the
-- warehouse. The columns are those of view framework_parity.
-- grain: as framework_parity; one row with an empty cell key if nothing was
-- compared
-- reads: cell_run, run_identity, measurement, metric_def, expected_cell
-- unit:  as framework_parity
-- base is the JSON of prev_run_against; its driver may differ, all else must
-- agree. Mean lengths come from its totals of tokens; workloads that differ are
-- refused and unknown lengths marked as in framework_parity.
CREATE OR REPLACE MACRO framework_parity_against(this_run, base) AS TABLE
WITH b AS (
    SELECT unnest(from_json(base::VARCHAR, '{"name": "VARCHAR", "run_id": "VARCHAR", "model": "VARCHAR", "precision": "VARCHAR", "gpu": "VARCHAR", "driver": "VARCHAR",
        "nodes": "INTEGER", "dp": "INTEGER", "simulated": "BOOLEAN", "at": "TIMESTAMP", "values": [{"c": "VARCHAR", "h": "VARCHAR", "m": "VARCHAR", "v": "DOUBLE"}]}'))
), i AS (
    SELECT i.*, coalesce(nullif(b.run_id, ''), b.name) AS reference_run, b.at AS reference_at, b.driver AS reference_driver,
           concat_ws('; ',
               CASE WHEN b.run_id = i.run_id THEN 'the reference is this very run' END,
               CASE WHEN nullif(b.model, '') <> i.model THEN 'the reference is of model ' || b.model END,
               CASE WHEN nullif(b.precision, '') <> i.precision THEN 'the reference has precision ' || b.precision END,
               CASE WHEN nullif(b.gpu, '') <> i.gpu THEN 'the reference is from ' || b.gpu || ', this run from ' || i.gpu END,
               CASE WHEN b.nodes <> coalesce(nullif(i.nnodes, 0), 1) THEN 'the reference is of ' || b.nodes || ' nodes, this run of ' || coalesce(nullif(i.nnodes, 0), 1) END,
               CASE WHEN b.dp <> coalesce(nullif(i.dp, 0), 1) THEN 'the reference has DP ' || b.dp || ', this run ' || coalesce(nullif(i.dp, 0), 1) END,
               CASE WHEN b.simulated <> i.simulated THEN CASE WHEN b.simulated THEN 'the reference is simulated' ELSE 'this run is simulated' END END) AS refusal
    FROM b CROSS JOIN run_identity i WHERE i.run_id = this_run
), old AS (
    SELECT o.c AS cell_key, o.m AS metric, o.v AS reference,
           CASE WHEN count(DISTINCT o.h) OVER (PARTITION BY o.c) > 1 THEN o.h ELSE '' END AS slot
    FROM (SELECT unnest(b.values) AS o FROM b) WHERE (SELECT refusal FROM i) = ''
), shape AS (
    SELECT cell_key, slot, max(reference) FILTER (WHERE metric = 'total_input_tokens') / nullif(max(reference) FILTER (WHERE metric = 'completed'), 0) AS input_len,
           max(reference) FILTER (WHERE metric = 'total_output_tokens') / nullif(max(reference) FILTER (WHERE metric = 'completed'), 0) AS output_len
    FROM old GROUP BY ALL
), now AS (
    SELECT c.cell_key, c.slot, c.host, s.cell_key IS NOT NULL AS has_before,
           greatest(abs(change_pct(c.mean_input_len, s.input_len)), abs(change_pct(c.mean_output_len, s.output_len))) AS length_pct,
           c.mean_input_len IS NULL OR c.mean_output_len IS NULL OR s.input_len IS NULL OR s.output_len IS NULL AS length_unknown
    FROM cell_run c LEFT JOIN shape s ON s.cell_key = c.cell_key AND s.slot = c.slot
    WHERE c.run_id = this_run AND (SELECT refusal FROM i) = ''
), rows AS (
    SELECT n.cell_key, n.slot, m.metric, m.value, o.reference, o.metric IS NOT NULL AS has_reference, true AS has_now, '' AS refusal, n.length_unknown
    FROM now n
    JOIN measurement m ON m.run_id = this_run AND m.cell_key = n.cell_key AND m.host = n.host AND m.metric IN ('output_throughput', 'mean_ttft_ms', 'mean_tpot_ms')
    LEFT JOIN old o ON o.cell_key = n.cell_key AND o.slot = n.slot AND o.metric = m.metric
    WHERE n.has_before AND coalesce(n.length_pct <= 5, true)
    UNION ALL
    SELECT cell_key, slot, '', NULL, NULL, has_before, true,
           CASE WHEN has_before THEN 'the workloads differ: mean lengths by ' || round(length_pct, 1) || ' %' ELSE '' END, false
    FROM now WHERE NOT has_before OR length_pct > 5
    UNION ALL
    SELECT DISTINCT cell_key, slot, '', NULL, NULL, true, false, '', false FROM old o
    WHERE NOT EXISTS (SELECT 1 FROM now n WHERE o.cell_key = n.cell_key AND o.slot = n.slot)
    UNION ALL
    SELECT '', '', '', NULL, NULL, false, false, refusal, false FROM i WHERE refusal <> ''
)
SELECT this_run AS run_id, r.cell_key, e.ordinal AS cell_ordinal, r.slot, r.metric, parity_name(i.driver, r.metric) AS name,
       coalesce(d.unit, '') AS unit, coalesce(d.direction, '') AS direction, coalesce(d.ordinal, -1) AS metric_ordinal,
       i.driver, i.reference_run, i.reference_driver, i.reference_at, r.value, CASE WHEN isfinite(r.reference) THEN r.reference END AS reference,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference > 0 THEN r.value / r.reference END AS ratio,
       CASE WHEN isfinite(r.value) AND isfinite(r.reference) AND r.reference > 0 THEN better_pct(change_pct(r.value, r.reference), d.direction) END AS better_pct,
       CASE WHEN r.refusal <> '' THEN 'not_comparable'
            WHEN NOT r.has_now THEN 'only_reference'
            WHEN NOT r.has_reference THEN 'no_reference'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'not_comparable'
            ELSE 'compared' END AS state,
       CASE WHEN r.refusal <> '' THEN r.refusal
            WHEN NOT r.has_now THEN 'only in the reference'
            WHEN r.metric = '' THEN 'the reference has no such cell'
            WHEN NOT r.has_reference THEN 'the reference has no such metric'
            WHEN r.reference = 0 THEN 'n/a (reference is 0)'
            WHEN r.reference < 0 THEN 'n/a (reference is negative)'
            WHEN change_pct(r.value, r.reference) IS NULL THEN 'n/a (not a number)'
            ELSE nullif(concat_ws('; ', CASE WHEN r.length_unknown THEN 'lengths of the workload unknown' END,
                CASE WHEN i.reference_driver = i.driver THEN 'the reference is of the same driver' END), '') END AS reason
FROM rows r CROSS JOIN i
LEFT JOIN metric_def d ON d.name = r.metric
LEFT JOIN expected_cell e ON e.run_id = this_run AND e.cell_key = r.cell_key;
COMMENT ON MACRO TABLE framework_parity_against IS 'One run against a reference of another framework that is not in the warehouse, with the columns of view framework_parity. this_run: run id; base: JSON as of prev_run_against';
