-- gates: did each threshold hold? The only place that decides it; the exit
-- status, the console and the deck all read this view.
-- grain: run_id, cell_key, host, metric (cells with a usable result only)
-- reads: threshold, metrics, metric_def, run, expected_cell
-- unit:  as the metric; margin_pct is signed, positive is good
CREATE OR REPLACE VIEW gates AS
WITH m AS (
    -- the values of one cell as a map, so that a spec finds its metric and its
    -- reference without reading the metrics twice
    SELECT run_id, cell_key, host,
           map_from_entries(list({k: metric, v: {value: value, quality: quality, text: text, note: note, derived: derived}})) AS by_name
    FROM metrics GROUP BY run_id, cell_key, host
), t AS (
    SELECT run_id, ordinal, target, metric, kind, value, tolerance_pct, reference, file, line, pointer FROM threshold WHERE scope = 'cell'
    UNION ALL
    -- placeholders such as "0 >= 0" hold when no request completed; the cell must not
    SELECT run_id, -1, cell_key, 'completed', 'some', 1, NULL, NULL, NULL, NULL, NULL FROM expected_cell
), spec AS (
    SELECT m.run_id, m.cell_key, m.host, e.ordinal AS cell_ordinal, e.cell_id,
           t.ordinal, t.metric, t.kind, t.value AS wanted, t.tolerance_pct, t.reference, t.file, t.line, t.pointer,
           CASE WHEN t.kind = 'some' THEN 'health' WHEN d.tier IS NULL OR d.tier = 'record' THEN 'other' ELSE d.tier END AS tier,
           coalesce(d.unit, '') AS unit, CASE WHEN t.kind = 'some' THEN -1 ELSE coalesce(d.ordinal, 1000) END AS metric_ordinal,
           r.enforce, r.nnodes, r.scaling_baseline,
           e.osl, m.by_name['completed'].value AS completed,
           m.by_name[t.metric] AS g, m.by_name[t.reference] AS ref
    FROM m
    JOIN expected_cell e ON e.run_id = m.run_id AND e.cell_key = m.cell_key
    JOIN run r ON r.run_id = m.run_id
    JOIN t ON t.run_id = m.run_id AND t.target = m.cell_key
    LEFT JOIN metric_def d ON d.name = t.metric
    WHERE t.kind <> 'some' OR m.by_name['completed'].value = 0
), opened AS (
    SELECT * EXCLUDE (g, ref),
           g IS NOT NULL AS present, g.value AS got, g.quality AS quality, g.text AS got_text, g.note AS note,
           coalesce(g.derived, false) AS derived,
           ref IS NOT NULL AS ref_present, ref.value AS ref_value, ref.quality AS ref_quality, ref.note AS ref_note
    FROM spec
), bounded AS (
    SELECT *,
           CASE WHEN kind = 'min_ratio' AND ref_value <> 0 THEN got / ref_value ELSE got END AS actual,
           CASE WHEN unit = '' THEN '' ELSE ' ' || unit END AS u,
           CASE
               WHEN kind IN ('min', 'min_tok_s', 'max', 'max_ms', 'within', 'min_ratio') AND NOT coalesce(isfinite(wanted), false) THEN 'the spec has no usable value'
               WHEN kind = 'within' AND NOT coalesce(isfinite(tolerance_pct) AND tolerance_pct >= 0, false) THEN 'the spec has no usable tolerance_pct'
               WHEN kind = 'min_ratio' AND reference IS NULL THEN 'the spec names no reference'
               WHEN kind NOT IN ('min', 'min_tok_s', 'max', 'max_ms', 'within', 'min_ratio', 'info', 'some') THEN 'unknown kind ' || kind
           END AS malformed,
           CASE
               WHEN kind <> 'min_ratio' THEN NULL
               WHEN NOT ref_present THEN 'reference ' || reference || ' is missing'
               WHEN ref_quality = 'null' THEN 'reference ' || reference || ' is null'
               WHEN ref_quality <> 'ok' THEN 'reference ' || reference || ' cannot be used: ' || coalesce(ref_note, ref_quality)
               WHEN ref_value = 0 THEN 'reference ' || reference || ' is 0'
           END AS ref_bad
    FROM opened
), judged AS (
    SELECT *,
           CASE                                     -- first match wins; the order is the rule
               WHEN kind = 'some' THEN 'fail'
               WHEN malformed IS NOT NULL THEN 'invalid'
               WHEN kind = 'info' THEN 'info'
               WHEN metric = 'scaling.efficiency_pct' AND (coalesce(nnodes, 1) <= 1 OR scaling_baseline IS NULL) THEN 'na'
               WHEN quality = 'not_applicable' THEN 'na'
               -- what cannot exist is not missing, whether the client wrote null or nothing
               WHEN NOT present AND completed = 0 AND tier IN ('ttft', 'tpot', 'itl', 'e2el') THEN 'na'
               WHEN NOT present AND osl = 1 AND tier IN ('tpot', 'itl') THEN 'na'
               WHEN NOT present OR quality IN ('null', 'missing') THEN 'skipped'
               WHEN quality <> 'ok' OR NOT coalesce(isfinite(got), false) THEN 'invalid' -- NaN would pass a bare comparison
               WHEN ref_bad IS NOT NULL OR (kind = 'min_ratio' AND NOT coalesce(isfinite(actual), false)) THEN 'invalid'
               WHEN kind IN ('min', 'min_tok_s') AND got >= wanted THEN 'pass'
               WHEN kind IN ('max', 'max_ms') AND got <= wanted THEN 'pass'
               WHEN kind = 'within' AND in_band(got, wanted, tolerance_pct) THEN 'pass'
               WHEN kind = 'min_ratio' AND actual >= wanted THEN 'pass'
               ELSE 'fail'
           END AS judgement,
           CASE kind
               WHEN 'min' THEN '>= ' || num_text(wanted) || u
               WHEN 'min_tok_s' THEN '>= ' || num_text(wanted) || ' tok/s'
               WHEN 'max' THEN '<= ' || num_text(wanted) || u
               WHEN 'max_ms' THEN '<= ' || num_text(wanted) || ' ms'
               WHEN 'within' THEN 'within ' || num_text(wanted) || u || ' ± ' || num_text(tolerance_pct) || ' %'
               WHEN 'min_ratio' THEN '>= ' || num_text(wanted) || ' × ' || reference
               WHEN 'some' THEN '>= 1'
               WHEN 'info' THEN CASE WHEN wanted IS NULL THEN 'recorded only' ELSE 'recorded beside ' || num_text(wanted) || u END
               ELSE kind
           END AS bound
    FROM bounded
)
SELECT run_id, cell_key, cell_id, cell_ordinal, host, tier, metric, unit,
       CASE judged.kind WHEN 'some' THEN 'min' ELSE judged.kind END AS kind, wanted, tolerance_pct, reference,
       got, coalesce(got_text, num_text(got)) AS got_text, coalesce(quality, 'missing') AS quality, derived,
       CASE WHEN kind = 'min_ratio' THEN actual END AS ratio,
       bound,
       -- that nothing was measured is no threshold, and not for enforcement to say
       CASE WHEN judgement IN ('info', 'na') OR judged.kind = 'some' THEN judgement WHEN NOT enforce THEN 'record' ELSE judgement END AS state,
       NOT enforce AND judged.kind <> 'some' AND judgement IN ('fail', 'invalid') AS would_fail,
       CASE judgement
           WHEN 'pass' THEN CASE WHEN kind = 'min_ratio' THEN 'ratio ' || num_text(actual) || ' (' || num_text(got) || ' / ' || num_text(ref_value) || ') >= ' || num_text(wanted)
                                 ELSE num_text(got) || u || ' ' || bound END
           WHEN 'fail' THEN CASE kind
               WHEN 'some' THEN 'no request completed: nothing was measured'
               WHEN 'within' THEN num_text(got) || u || ' is not ' || bound
               WHEN 'min_ratio' THEN 'ratio ' || num_text(actual) || ' (' || num_text(got) || ' / ' || num_text(ref_value) || ') < ' || num_text(wanted)
               ELSE num_text(got) || u || ' ' || CASE WHEN kind IN ('max', 'max_ms') THEN '>' ELSE '<' END || ' ' || num_text(wanted) || u END
           WHEN 'invalid' THEN coalesce(malformed, CASE WHEN quality <> 'ok' THEN note END, ref_bad, 'not a finite number')
           WHEN 'skipped' THEN CASE WHEN quality = 'null' THEN 'null in artifact' ELSE 'not in artifact' END
           WHEN 'na' THEN CASE WHEN quality = 'not_applicable' THEN note
                               WHEN NOT present AND completed = 0 AND tier IN ('ttft', 'tpot', 'itl', 'e2el') THEN 'no request completed'
                               WHEN NOT present AND osl = 1 AND tier IN ('tpot', 'itl') THEN 'one output token: there is no time per further token'
                               WHEN scaling_baseline IS NULL THEN 'no scaling baseline is set' ELSE 'one node: nothing to scale' END
           WHEN 'info' THEN CASE WHEN got IS NULL THEN coalesce(note, 'no value') ELSE num_text(got) || u END
       END || CASE WHEN derived AND judgement = 'fail' AND quality = 'ok' AND note IS NOT NULL THEN ' [' || note || ']' ELSE '' END AS reason,
       CASE WHEN judgement IN ('pass', 'fail') THEN
           CASE WHEN kind IN ('min', 'min_tok_s') THEN got - wanted
                WHEN kind IN ('max', 'max_ms') THEN wanted - got
                -- at the edge of a band float noise may leave a hair of minus
                WHEN kind = 'within' THEN greatest(abs(wanted) * tolerance_pct / 100 - abs(got - wanted), CASE WHEN judgement = 'pass' THEN 0 END)
                WHEN kind = 'min_ratio' THEN actual - wanted END END AS margin,
       CASE WHEN judgement IN ('pass', 'fail') THEN
           CASE WHEN kind IN ('min', 'min_tok_s') THEN 100 * (got - wanted) / nullif(abs(wanted), 0)
                WHEN kind IN ('max', 'max_ms') THEN 100 * (wanted - got) / nullif(abs(wanted), 0)
                WHEN kind = 'within' THEN greatest(tolerance_pct - 100 * abs(got - wanted) / nullif(abs(wanted), 0), CASE WHEN judgement = 'pass' AND wanted <> 0 THEN 0 END)
                WHEN kind = 'min_ratio' THEN 100 * (actual - wanted) / nullif(abs(wanted), 0) END END AS margin_pct,
       file, line, pointer, metric_ordinal, ordinal
FROM judged
-- a spec of the user on the same metric says it already
QUALIFY judged.kind <> 'some' OR count(*) OVER (PARTITION BY run_id, cell_key, host, metric) = 1;
COMMENT ON VIEW gates IS 'Did each threshold hold? One row per run, measured cell, host and spec';
COMMENT ON COLUMN gates.run_id IS 'run';
COMMENT ON COLUMN gates.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN gates.cell_id IS '<combo>-conc<concurrency>';
COMMENT ON COLUMN gates.cell_ordinal IS 'order of the cell in the plan';
COMMENT ON COLUMN gates.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN gates.tier IS 'throughput, ttft, tpot, itl, e2el, health, scaling, other';
COMMENT ON COLUMN gates.metric IS 'bare name of the metric the spec is about';
COMMENT ON COLUMN gates.unit IS 'unit of got and wanted';
COMMENT ON COLUMN gates.kind IS 'min, min_tok_s, max, max_ms, within, min_ratio, info';
COMMENT ON COLUMN gates.wanted IS 'value of the spec';
COMMENT ON COLUMN gates.tolerance_pct IS 'half width of a within band, per cent of |wanted|';
COMMENT ON COLUMN gates.reference IS 'metric a min_ratio divides by';
COMMENT ON COLUMN gates.got IS 'measured value, NULL if there is none that can be used';
COMMENT ON COLUMN gates.got_text IS 'measured value as text, also when it cannot be used (NaN)';
COMMENT ON COLUMN gates.quality IS 'quality of the measured value; missing if it is not in the file';
COMMENT ON COLUMN gates.derived IS 'true: got was computed, not copied from the file';
COMMENT ON COLUMN gates.ratio IS 'got / reference, min_ratio only';
COMMENT ON COLUMN gates.bound IS 'what was asked, in words';
COMMENT ON COLUMN gates.state IS 'pass, fail, invalid (counts as fail), skipped, na, info, record';
COMMENT ON COLUMN gates.would_fail IS 'true: thresholds are not enforced, but this one is violated';
COMMENT ON COLUMN gates.reason IS 'why the state is what it is, with every digit';
COMMENT ON COLUMN gates.margin IS 'signed distance to the bound in the unit of the metric, positive is good';
COMMENT ON COLUMN gates.margin_pct IS 'signed distance in per cent of |wanted|, positive is good; NULL for a bound of 0';
COMMENT ON COLUMN gates.file IS 'threshold file';
COMMENT ON COLUMN gates.line IS 'line of the spec in it';
COMMENT ON COLUMN gates.pointer IS 'JSON pointer of the spec in it';
COMMENT ON COLUMN gates.metric_ordinal IS 'display order of the metric';
COMMENT ON COLUMN gates.ordinal IS 'order of the spec in the threshold file';
