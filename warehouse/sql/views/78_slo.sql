-- slo: the highest concurrency of each shape that meets a service level.
-- grain: isl, osl, shape (the cell key without its concurrency)
-- reads: expected_cell, metrics
-- unit:  concurrency in requests; the objectives in the unit of their metric
-- want is JSON, [{"metric": "p99_ttft_ms", "op": "<=", "bound": 2000}, …]; ops
-- are <= < >= >. A cell meets the level if every host's value of every metric
-- does: a value that is missing or cannot be used does not, and a cell without a
-- result is not known to. Cells between measured ones are not guessed.
CREATE OR REPLACE MACRO slo(this_run, want) AS TABLE
WITH o AS (
    SELECT (key::INTEGER) AS n, value->>'metric' AS metric, value->>'op' AS op, (value->>'bound')::DOUBLE AS bound FROM json_each(want::JSON)
), x AS (
    SELECT e.isl, e.osl, e.concurrency, e.cell_id, regexp_replace(e.cell_key, ',?CONC=[^,]*', '') AS shape, o.n,
           EXISTS (SELECT 1 FROM metrics h WHERE h.run_id = this_run AND h.cell_key = e.cell_key) AS has_result,
           count(m.metric) > 0 AND bool_and(coalesce(isfinite(m.value) AND CASE o.op WHEN '<=' THEN m.value <= o.bound WHEN '<' THEN m.value < o.bound
               WHEN '>=' THEN m.value >= o.bound WHEN '>' THEN m.value > o.bound END, false)) AS ok,
           o.metric || CASE WHEN count(m.value) = 0 THEN coalesce(': ' || any_value(m.quality), ' is not in the result')
               ELSE ' ' || num_text(CASE WHEN starts_with(o.op, '<') THEN max(m.value) ELSE min(m.value) END)
                    || CASE o.op WHEN '<=' THEN ' > ' WHEN '<' THEN ' >= ' WHEN '>=' THEN ' < ' ELSE ' <= ' END || num_text(o.bound) END AS said
    FROM expected_cell e
    CROSS JOIN o
    LEFT JOIN metrics m ON m.run_id = this_run AND m.cell_key = e.cell_key AND m.metric = o.metric
    WHERE e.run_id = this_run
    GROUP BY e.isl, e.osl, e.concurrency, e.cell_id, e.cell_key, o.n, o.metric, o.op, o.bound
), c AS (
    SELECT isl, osl, shape, concurrency, cell_id, bool_or(has_result) AS has_result, bool_and(ok) AS met,
           CASE WHEN bool_or(has_result) THEN string_agg(said, '; ' ORDER BY n) FILTER (WHERE NOT ok) ELSE 'no result' END AS missed
    FROM x GROUP BY isl, osl, shape, concurrency, cell_id
), best AS (
    SELECT isl, osl, shape, max(concurrency) FILTER (WHERE met) AS best, count(*) AS cells, count(*) FILTER (WHERE has_result) AS measured
    FROM c GROUP BY isl, osl, shape
)
SELECT b.isl, b.osl, b.shape, b.best AS concurrency,
       max(c.cell_id) FILTER (WHERE c.concurrency = b.best AND c.met) AS cell_id,
       min(c.concurrency) FILTER (WHERE NOT c.met AND (b.best IS NULL OR c.concurrency > b.best)) AS next_concurrency,
       arg_min(c.missed, c.concurrency) FILTER (WHERE NOT c.met AND (b.best IS NULL OR c.concurrency > b.best)) AS next_reason,
       b.best IS NOT NULL AND NOT bool_or(NOT c.met AND c.concurrency > b.best) AS open_end,
       string_agg(c.concurrency::VARCHAR, ', ' ORDER BY c.concurrency) FILTER (WHERE NOT c.met AND c.concurrency < b.best) AS missed_below,
       b.measured::INTEGER AS measured, b.cells::INTEGER AS cells
FROM best b JOIN c ON c.isl IS NOT DISTINCT FROM b.isl AND c.osl IS NOT DISTINCT FROM b.osl AND c.shape = b.shape
GROUP BY b.isl, b.osl, b.shape, b.best, b.measured, b.cells;
COMMENT ON MACRO TABLE slo IS 'The highest concurrency of each shape that meets a service level; one row per shape. this_run: run id; want: JSON [{metric, op: <= < >= or >, bound}]';
