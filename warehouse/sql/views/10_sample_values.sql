-- sample_values: what one benchmark wrote, under our names, before anything is
-- derived or combined.
-- grain: run_id, sample_no, metric
-- reads: sample, raw_value, metric_def, expected_cell, threshold
-- unit:  as in metric_def; keys we do not know keep their own name and unit
-- Only samples that may be used count. value is NULL unless quality is ok.
CREATE OR REPLACE VIEW sample_values AS
WITH s AS (
    SELECT s.run_id, s.sample_no, s.cell_key, s.host, s.repeat, s.path,
           coalesce(e.osl, s.osl) AS osl
    FROM sample s
    LEFT JOIN expected_cell e ON e.run_id = s.run_id AND e.cell_key = s.cell_key
    WHERE s.role = 'cell' AND s.usable AND s.cell_key IS NOT NULL
), asked AS (
    SELECT run_id, metric AS name FROM threshold WHERE scope = 'cell'
    UNION
    SELECT run_id, reference FROM threshold WHERE scope = 'cell' AND reference IS NOT NULL
), v AS (
    SELECT r.run_id, r.sample_no, coalesce(r.metric, r.key) AS metric, r.metric IS NOT NULL AS known,
           r.key, r.pointer, r.number, r.quality, r.text, r.kind
    FROM raw_value r
    WHERE (r.parent = '' AND r.kind NOT IN ('list', 'object')) OR r.metric IS NOT NULL
), counts AS (
    SELECT run_id, sample_no,
           max(number) FILTER (WHERE metric = 'completed' AND quality = 'ok') AS completed,
           max(number) FILTER (WHERE metric = 'duration' AND quality = 'ok') AS duration
    FROM v WHERE known GROUP BY run_id, sample_no
), graded AS (
    SELECT s.*, v.metric, v.known, v.key, v.pointer, v.number, v.text,
           coalesce(d.tier, 'record') AS tier,
           CASE
               WHEN NOT v.known THEN v.quality
               WHEN c.completed = 0 AND d.tier IN ('ttft', 'tpot', 'itl', 'e2el') THEN 'not_applicable'
               WHEN s.osl = 1 AND d.tier IN ('tpot', 'itl') THEN 'not_applicable'
               WHEN v.quality = 'ok' AND v.number < 0 THEN 'impossible'
               WHEN v.quality = 'ok' AND c.duration <= 0 AND c.completed > 0
                    AND (d.tier = 'throughput' OR v.metric IN ('duration', 'request_throughput', 'goodput')) THEN 'impossible'
               ELSE v.quality
           END AS quality,
           CASE
               WHEN NOT v.known THEN NULL
               WHEN c.completed = 0 AND d.tier IN ('ttft', 'tpot', 'itl', 'e2el') THEN 'no request completed'
               WHEN s.osl = 1 AND d.tier IN ('tpot', 'itl') THEN 'one output token: there is no time per further token'
               WHEN v.quality = 'ok' AND v.number < 0 THEN 'negative'
               WHEN v.quality = 'ok' AND c.duration <= 0 AND c.completed > 0
                    AND (d.tier = 'throughput' OR v.metric IN ('duration', 'request_throughput', 'goodput'))
                    THEN 'the duration is ' || num_text(c.duration) || ' s'
               WHEN v.quality = 'null' THEN 'null in artifact'
               WHEN v.quality = 'non_finite' THEN v.text || ' is not a finite number'
               WHEN v.quality = 'out_of_range' THEN v.text || ' is out of the range of a double'
               WHEN v.quality = 'non_numeric' THEN '"' || coalesce(v.text, v.kind) || '" is not a number'
           END AS note
    FROM s
    JOIN v ON v.run_id = s.run_id AND v.sample_no = s.sample_no
    LEFT JOIN counts c ON c.run_id = s.run_id AND c.sample_no = s.sample_no
    LEFT JOIN metric_def d ON d.name = v.metric
    LEFT JOIN asked a ON a.run_id = s.run_id AND a.name = v.metric
    WHERE v.known
       -- a raw key that bears the name of one of ours without being it
       OR (d.name IS NULL AND (v.kind = 'number' OR v.quality = 'ok' OR a.name IS NOT NULL))
)
SELECT run_id, sample_no, cell_key, host, repeat, path, metric, known, key, pointer,
       CASE WHEN quality = 'ok' THEN number END AS value, quality, text, note
FROM graded;
COMMENT ON VIEW sample_values IS 'What each usable benchmark wrote, under our names, before derivation; one row per run, sample and metric';
COMMENT ON COLUMN sample_values.run_id IS 'run';
COMMENT ON COLUMN sample_values.sample_no IS 'benchmark within the run, from 1';
COMMENT ON COLUMN sample_values.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN sample_values.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN sample_values.repeat IS 'repeat of the cell, from 1';
COMMENT ON COLUMN sample_values.path IS 'raw file, relative to the run directory';
COMMENT ON COLUMN sample_values.metric IS 'our name, or the raw key where it means none of ours';
COMMENT ON COLUMN sample_values.known IS 'true: one of the metrics in metric_def';
COMMENT ON COLUMN sample_values.key IS 'key in the raw file';
COMMENT ON COLUMN sample_values.pointer IS 'JSON pointer within the sample';
COMMENT ON COLUMN sample_values.value IS 'the number, NULL unless quality is ok';
COMMENT ON COLUMN sample_values.quality IS 'ok, null, non_numeric, non_finite, out_of_range, impossible, not_applicable';
COMMENT ON COLUMN sample_values.text IS 'the value as written';
COMMENT ON COLUMN sample_values.note IS 'why the value cannot be used, NULL if it can';
