-- gate_waivers: what the waivers of each run do to its gates on a day.
-- grain: run_id, cell_key, task_id, host, metric, waiver_id (gates that were judged)
-- reads: gates, check_gates, waiver, run
-- unit:  margin_pct per cent of the bound
-- A macro, because whether a waiver expired is a question of the day (a DATE, UTC),
-- and a view must answer the same tomorrow. standing: waived (a failure that it
-- covers), outside (why says which condition is not met), expired, passing
-- (nothing to waive).
CREATE OR REPLACE MACRO gate_waivers(day) AS TABLE
WITH g AS (
    SELECT run_id, cell_key, cell_id, NULL AS task_id, host, tier, metric, state, margin_pct, reason,
           cell_ordinal AS place, metric_ordinal, ordinal, concat_ws(' ', coalesce(nullif(cell_id, ''), cell_key), metric) AS gate FROM gates
    UNION ALL
    SELECT run_id, NULL, NULL, coalesce(nullif(target, ''), scope), NULL, scope, metric, state, margin_pct, reason,
           1000000, NULL, ordinal, concat_ws(' ', coalesce(nullif(target, ''), scope), metric) FROM check_gates WHERE metric <> ''
), m AS (
    SELECT g.*, w.waiver_id, w.owner, w.issue, w.last_day, w.line,
           CASE WHEN NOT coalesce(r.model, '') GLOB glob_pattern(w.model) THEN 'model is ' || coalesce(r.model, '') || ', not ' || w.model
                WHEN NOT coalesce(r.driver, '') GLOB glob_pattern(w.driver) THEN 'driver is ' || coalesce(r.driver, '') || ', not ' || w.driver
                WHEN NOT coalesce(r.gpu_arch, '') GLOB glob_pattern(w.gpu_arch) THEN 'gpu_arch is ' || coalesce(r.gpu_arch, '') || ', not ' || w.gpu_arch
                WHEN NOT coalesce(r.precision, '') GLOB glob_pattern(w.precision) THEN 'precision is ' || coalesce(r.precision, '') || ', not ' || w.precision
                WHEN w.worst_margin_pct IS NULL THEN NULL
                WHEN g.margin_pct IS NULL OR NOT isfinite(g.margin_pct) THEN 'the failure has no margin'
                WHEN g.margin_pct < w.worst_margin_pct
                    THEN 'the margin is ' || num_text(round(g.margin_pct, 2)) || ' %, worse than ' || num_text(w.worst_margin_pct) || ' %' END AS why
    FROM waiver w
    JOIN run r ON r.run_id = w.run_id
    JOIN g ON g.run_id = w.run_id AND g.metric GLOB glob_pattern(w.metric)
          AND (g.cell_key GLOB glob_pattern(w.cell) OR g.cell_id GLOB glob_pattern(w.cell) OR g.task_id GLOB glob_pattern(w.task))
    WHERE g.state IN ('pass', 'fail', 'invalid')
)
SELECT run_id, cell_key, cell_id, task_id, host, tier, metric, state, margin_pct, reason, gate, waiver_id, owner, issue, last_day,
       CASE WHEN state = 'pass' THEN 'passing'
            WHEN why IS NOT NULL THEN 'outside'
            WHEN day::DATE > last_day THEN 'expired'
            ELSE 'waived' END AS standing,
       CASE WHEN state <> 'pass' THEN why END AS why, line, place, metric_ordinal, ordinal
FROM m;
COMMENT ON MACRO TABLE gate_waivers IS 'What the waivers of each run do to its gates on a day; one row per run, gate and waiver that matches it. day: DATE, UTC';
