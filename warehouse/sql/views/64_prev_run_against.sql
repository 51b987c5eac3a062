-- prev_run_against: one run against a baseline that is not in the warehouse, such
-- as the sidecar of an older deck. The columns are those of view prev_run.
-- grain: as prev_run; one row with an empty cell key if nothing was compared
-- reads: baseline_identity, cell_run, measurement, metric_def, noise, expected_cell
-- unit:  as prev_run
-- base is JSON as baseline_identity describes it. Mean lengths come from its totals of tokens; cells whose workloads differ
-- are refused as in prev_run. Unlike there no run can be passed over: where many
-- requests of the baseline failed the row says so, and better is not marked.
CREATE OR REPLACE MACRO prev_run_against(this_run, base) AS TABLE
WITH i AS (
    SELECT * FROM baseline_identity(this_run, base)
), old AS (
    SELECT o.c AS cell_key, o.m AS metric, o.v AS previous,
           CASE WHEN count(DISTINCT o.h) OVER (PARTITION BY o.c) > 1 THEN o.h ELSE '' END AS slot
    FROM (SELECT unnest(previous_values) AS o FROM i WHERE refusal = '')
), shape AS (
    SELECT cell_key, slot, max(previous) FILTER (WHERE metric = 'total_input_tokens') / nullif(max(previous) FILTER (WHERE metric = 'completed'), 0) AS input_len,
           max(previous) FILTER (WHERE metric = 'total_output_tokens') / nullif(max(previous) FILTER (WHERE metric = 'completed'), 0) AS output_len,
           CASE WHEN max(previous) FILTER (WHERE metric = 'success_rate') < 0.99
                THEN coalesce(num_text(max(previous) FILTER (WHERE metric = 'failed')), 'too many') || ' requests failed in the baseline' END AS remark
    FROM old GROUP BY ALL
), now AS (
    SELECT c.cell_key, c.slot, c.host, s.cell_key IS NOT NULL AS has_before,
           greatest(abs(change_pct(c.mean_input_len, s.input_len)), abs(change_pct(c.mean_output_len, s.output_len))) AS length_pct,
           concat_ws('; ', CASE WHEN c.success_rate < 0.99 THEN num_text(c.failed) || ' requests failed in this run' END, s.remark) AS remark,
           s.remark IS NOT NULL AS sick_before
    FROM cell_run c LEFT JOIN shape s ON s.cell_key = c.cell_key AND s.slot = c.slot
    WHERE c.run_id = this_run AND (SELECT refusal FROM i) = ''
), alike AS (
    SELECT * FROM now WHERE has_before AND coalesce(length_pct <= 5, true)
), v AS (
    SELECT coalesce(a.cell_key, b.cell_key) AS cell_key, coalesce(a.slot, b.slot) AS slot, coalesce(a.metric, b.metric) AS metric,
           a.cell_key IS NOT NULL AS has_now, b.cell_key IS NOT NULL AS has_before, a.value, b.previous, coalesce(a.remark, b.remark) AS remark,
           coalesce(a.sick_before, b.sick_before) AS sick_before
    FROM (SELECT n.*, m.metric, m.value FROM alike n
          JOIN measurement m ON m.run_id = this_run AND m.cell_key = n.cell_key AND m.host = n.host
          JOIN metric_def d ON d.name = m.metric AND d.gated) a
    FULL JOIN (SELECT o.*, n.remark, n.sick_before FROM old o JOIN metric_def d ON d.name = o.metric AND d.gated JOIN alike n ON n.cell_key = o.cell_key AND n.slot = o.slot) b
        ON b.cell_key = a.cell_key AND b.slot = a.slot AND b.metric = a.metric
), rows AS (
    SELECT v.cell_key, v.slot, v.metric, v.value, v.previous, comparison_state(v.has_now, v.value, v.has_before, v.previous) AS state,
           concat_ws('; ', comparison_reason(v.has_now, v.value, v.has_before, v.previous), nullif(v.remark, '')) AS reason, v.sick_before
    FROM v
    UNION ALL
    SELECT cell_key, slot, '', NULL, NULL, 'new', 'the baseline has no such cell', false FROM now WHERE NOT has_before
    UNION ALL
    SELECT cell_key, slot, '', NULL, NULL, 'not_comparable',
           concat_ws('; ', 'the workloads differ: mean lengths by ' || round(length_pct, 1) || ' %', nullif(remark, '')), false FROM now WHERE length_pct > 5
    UNION ALL
    SELECT DISTINCT o.cell_key, o.slot, '', NULL, NULL, 'gone', CASE WHEN e.cell_key IS NULL THEN 'only in the baseline' ELSE 'no result in this run' END, false
    FROM old o LEFT JOIN expected_cell e ON e.run_id = this_run AND e.cell_key = o.cell_key
    WHERE NOT EXISTS (SELECT 1 FROM now n WHERE o.cell_key = n.cell_key AND o.slot = n.slot)
    UNION ALL
    SELECT '', '', '', NULL, NULL, 'not_comparable', refusal, false FROM i WHERE refusal <> ''
)
SELECT this_run AS run_id, r.cell_key, e.ordinal AS cell_ordinal, r.slot, r.metric,
       coalesce(d.unit, '') AS unit, coalesce(d.direction, '') AS direction, coalesce(d.tier, '') AS tier, coalesce(d.ordinal, -1) AS metric_ordinal,
       i.previous_run, i.previous_at, r.value, CASE WHEN isfinite(r.previous) THEN r.previous END AS previous,
       CASE WHEN r.state = 'compared' THEN r.value / r.previous END AS ratio,
       CASE WHEN r.state = 'compared' THEN change_pct(r.value, r.previous) END AS delta_pct,
       CASE WHEN r.state = 'compared' THEN better_pct(change_pct(r.value, r.previous), d.direction) END AS better_pct,
       r.state, nullif(concat_ws('; ', nullif(r.reason, ''), i.remark), '') AS reason,
       -- being better than a run whose requests failed is no improvement
       coalesce(r.state = 'compared' AND abs(change_pct(r.value, r.previous)) > 5
                AND NOT (r.sick_before AND better_pct(change_pct(r.value, r.previous), d.direction) > 0), false) AS changed,
       coalesce(r.state = 'compared' AND better_pct(change_pct(r.value, r.previous), d.direction) < -5, false) AS regression,
       n.robust_cv_pct AS noise_pct, coalesce(n.runs, 0) AS noise_runs
FROM rows r CROSS JOIN i
LEFT JOIN metric_def d ON d.name = r.metric
LEFT JOIN expected_cell e ON e.run_id = this_run AND e.cell_key = r.cell_key
LEFT JOIN noise n ON n.run_id = this_run AND n.cell_key = r.cell_key AND n.slot = r.slot AND n.metric = r.metric;
COMMENT ON MACRO TABLE prev_run_against IS 'One run against a baseline that is not in the warehouse, with the columns of view prev_run. this_run: run id; base: JSON {name, run_id, model, precision, gpu, driver, nodes, dp, simulated, at, values: [{c: cell key, h: host, m: metric, v: number}]}';
